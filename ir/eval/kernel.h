// SPDX-License-Identifier: Apache-2.0
// The evaluator of kernels: the loop nest read with all tags erased, one element at a time, in the arithmetic that
// compiled code has: each scalar op by the reference column, rounded to the dtype of its register; reductions by their
// tree (ir/eval/combine.h); mma sums in f64 and rounds once per mma. Local buffers hold NaN (integers: 0xcd bytes) at
// their allocation, so that a value that nothing wrote shows in the result.
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

// args: one tensor per parameter, in order, of the parameter's dtype, shape and strides; results are written into them.
// extents: a value for every Kernel::extents. Scratch buffers are the evaluator's own.
// invalid_argument: arguments do not fit; facts do not hold; an index taken from data was out of range (after all
// results are written, with the clamped element). internal: an access out of range that no guard covers.
Result<std::monostate> evaluate(const Kernel& kernel, const std::vector<Tensor>& args,
                                const std::map<std::string, int64_t>& extents);

}  // namespace fusec::ir
