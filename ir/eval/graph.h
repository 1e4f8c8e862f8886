// SPDX-License-Identifier: Apache-2.0
// The graph evaluator: the slow, obvious meaning of a Graph, against which all compiled code is compared. Scalar ops
// follow the reference column of their row, never its definition. Arithmetic inside an op is in f64, including the sums
// of reductions, convolutions and matrix products.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

using SymbolBindings = std::map<std::string, int64_t>;

struct EvalOptions {
  int threads = 1;  // 0: all threads of the machine; results do not depend on it
  // With `wide`, floats stay in f64 between ops and are rounded only by `cast` and at outputs. Otherwise every op's
  // result is rounded to its dtype.
  bool wide = false;
  SymbolBindings symbols;  // symbols in addition to those that the inputs bind
  // Called with the result of each node, in order. With `wide` floats are f64.
  std::function<void(ValueId, const Tensor&)> on_value = {};
};

// The values of the symbols in the input shapes, from the given inputs. invalid_argument names input and axis if the
// number, rank, dtype or an extent of the inputs does not fit.
Result<SymbolBindings> bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs);

// The outputs, row-major. Inputs may be strided. invalid_argument for inputs that do not fit, and for indices out of
// range, which names the node.
Result<std::vector<Tensor>> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const EvalOptions& options = {});

// Evaluates one node on the values of its operands. Float operands have the dtype of their value, or f64 if
// options.wide; the same holds for the result.
Result<Tensor> evaluate_node(const Graph& graph, const Node& node, const std::vector<Tensor>& operands,
                             const EvalOptions& options = {});

// A row-major tensor with the same elements: `tensor` itself if it is row-major.
Result<Tensor> contiguous(const Tensor& tensor);

// The same values rounded to another float type, or the tensor itself if it already has that type.
Result<Tensor> round_to(const Tensor& tensor, DType dtype);

}  // namespace fusec::ir
