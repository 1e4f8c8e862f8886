// SPDX-License-Identifier: Apache-2.0
// The evaluator: the slow, obvious meaning of a Graph, against which all compiled code is compared. Scalar ops follow
// the reference column of their row, never its definition; arithmetic inside an op is in f64, also the sums of
// reductions, convolutions and matrix products.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

using SymbolValues = std::map<std::string, int64_t>;

struct EvalOptions {
  int threads = 1;  // 0: all of the machine's; results do not depend on it
  // Floats stay in f64 between ops and are rounded only by `cast` and at outputs. Otherwise every op's result is
  // rounded to its dtype.
  bool wide = false;
  SymbolValues symbols;  // more symbols than the inputs bind
};

// The values of the symbols in the input shapes, from actual inputs. invalid_argument when the number, rank, dtype or
// an extent of the inputs does not fit, naming input and axis.
Result<SymbolValues> bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs);

// The outputs, row-major. Inputs may be strided. invalid_argument for inputs that do not fit and for indices out of
// range, the latter naming the node.
Result<std::vector<Tensor>> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const EvalOptions& options = {});

// One node on the values of its operands. Float operands hold the dtype of their value, or f64 when options.wide; so
// does the result.
Result<Tensor> evaluate_node(const Graph& graph, const Node& node, const std::vector<Tensor>& operands,
                             const EvalOptions& options = {});

// A row-major tensor with the same elements: `tensor` itself if it is row-major.
Result<Tensor> contiguous(const Tensor& tensor);

// The same values rounded to another float type (or the tensor itself if it has that type).
Result<Tensor> round_to(const Tensor& tensor, DType dtype);

}  // namespace fusec::ir
