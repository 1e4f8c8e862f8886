// SPDX-License-Identifier: Apache-2.0
// Evaluation with bounds: for every element the values that compiled code may give. Beside the value in f64, a lower
// and an upper bound run through the graph; each op widens them by its own rounding and by the ulps that its row
// allows.
//
//   floats          lo <= at <= hi: any value in between, where -0 is below 0. All NaN: must be NaN. -inf, 0, +inf:
//   anything, NaN too. integers, bool  lo == at == hi, or undecided: a comparison, a cast or an index hangs on
//   rounding.
//
// Values of f16 and bf16 may be rounded after an op or stay in f32, where the graph does not ask for one of the two.
#pragma once

#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/eval/graph.h"
#include "ir/graph/graph.h"

namespace fusec::fuzz {

struct Bounded {
  Tensor lo, at, hi;  // f64 for floats, else the value's dtype; one memory where every element is exact
  // Elements into which a decision goes that may lie inside of the bounds, as where a floor steps or a comparison
  // chooses: all that is not exact behind an op with steps. Empty: none.
  std::vector<bool> jumps = {};
  bool exact() const { return lo.data() == hi.data(); }
};

Bounded exactly(Tensor value);  // of storage dtype

// One node; symbols as in ir::EvalOptions. Errors are those of the evaluator.
Result<Bounded> evaluate_bounds(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                                const ir::SymbolBindings& symbols);
// An input of the graph.
Result<Bounded> input_bounds(const Tensor& input);
// Every output. Unless numerics are exact, a library's relu behind a convolution or product may lose NaN, and cuDNN the
// -inf of a 16-bit convolution; all other relus are asked to keep NaN. On a GPU a convolution of a 16-bit type may be
// rounded before its bias is added.
Result<std::vector<Bounded>> evaluate_bounds(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                             Numerics numerics = Numerics::precise, bool on_gpu = false);

struct ComparisonResult {
  int64_t elements = 0;
  int64_t undecided = 0;  // nothing or little is asked of these
  int64_t wrong = 0, first_wrong = -1;
  std::string message;  // of the first wrong element
};
// `got` is row-major.
ComparisonResult compare(const Tensor& got, const Bounded& want);

// Elements of which nothing or little is known: anything, or a range wide against the tensor's magnitude.
std::vector<bool> undecided(const Bounded& value, DType dtype);
int64_t count_undecided(const Bounded& value, DType dtype);

}  // namespace fusec::fuzz
