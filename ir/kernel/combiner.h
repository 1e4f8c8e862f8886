// SPDX-License-Identifier: Apache-2.0
// What lowering, the evaluator and all writers must agree on about combiners: the scalar op of a combiner of single
// values, and the identities. ir/eval/combine.h defines the combination of tuples.
#pragma once

#include <span>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// The op that combines two values. For add, mul, max, min, and_ and or_ only.
ScalarOp combining_op(Combiner combiner);

// One constant per part of the tuple. Every lane of every chunk of a reduction starts from them:
//
//   add or                 0
//   mul and                1
//   max min                the lowest, the greatest value (infinities for floats)
//   argmax argmin          that, and the greatest index; for *_last the lowest
//   welford                0, 0, 0
//   max_sum                the lowest value, 0
std::vector<Constant> identity_constants(Combiner combiner, std::span<const DType> types);

// Whether any order of the elements gives the same bits. `dtype` is that of the first part.
bool is_order_free(Combiner combiner, DType dtype);
// Whether combine(a, b) and combine(b, a) give the same bits.
bool is_symmetric(Combiner combiner);
// Whether combine(identity, x) may differ from x: for -0 in a sum, and for a single NaN with its sum of exponentials.
bool identity_changes(Combiner combiner, DType dtype);

}  // namespace fusec::ir
