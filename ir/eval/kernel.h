// SPDX-License-Identifier: Apache-2.0
// The kernel evaluator: executes the loop nest with all tags erased, one element at a time, in the arithmetic of
// compiled code. Each scalar op follows the reference column, rounded to the dtype of its register. Reductions follow
// their tree (ir/eval/combine.h). An mma sums in f64 and rounds once. Local buffers are filled with NaN (integers: 0xcd
// bytes) when they are allocated, so that an element that was never written shows in the result.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// args: one tensor per parameter, in order, with the parameter's dtype, shape and strides; results are written into
// them. extents: a value for every Kernel::extents. The evaluator allocates scratch buffers itself. invalid_argument:
// the arguments do not fit, the facts do not hold, or an index taken from data was out of range (reported after all
// results are written, with the clamped element). internal: an access out of range that no guard covers.
Result<std::monostate> evaluate(const Kernel& kernel, const std::vector<Tensor>& args,
                                const std::map<std::string, int64_t>& extents);

}  // namespace fusec::ir
