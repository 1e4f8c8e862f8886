// SPDX-License-Identifier: Apache-2.0
// Combiners on tuples of raw values as text, operation by operation as ir/eval/combine.h states them.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/prelude.h"
#include "ir/kernel.h"

namespace fusec::codegen::cuda {

using Parts = std::vector<std::string>;

struct CombineOp {
  ir::Combiner combiner;
  std::vector<DType> types;  // of the parts
};

Parts identity(const CombineOp& op);
// The statement "a = combination of a and b"; tuples by a function of the prelude.
std::string combine(Prelude& prelude, const CombineOp& op, const Parts& a, const Parts& b);
// Whether any order of the elements gives the same bits.
bool is_order_free(const CombineOp& op);
// Whether combine(a, b) and combine(b, a) are the same bits.
bool is_symmetric(const CombineOp& op);
// Whether combine(identity, x) may be other than x: -0 of sums, a lone NaN with its sum of exponentials.
bool identity_changes(const CombineOp& op);

}  // namespace fusec::codegen::cuda
