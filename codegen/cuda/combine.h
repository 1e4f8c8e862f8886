// SPDX-License-Identifier: Apache-2.0
// Combiners on tuples of raw values as text, operation by operation as ir/eval/combine.h states them.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/prelude.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

using Parts = std::vector<std::string>;

struct CombineOp {
  ir::Combiner combiner;
  std::vector<DType> types;  // of the parts
};

Parts identity(const CombineOp& op);
// The statement "a = combination of a and b"; tuples by a function of the prelude.
std::string combine(Prelude& prelude, const CombineOp& op, const Parts& a, const Parts& b);

}  // namespace fusec::codegen::cuda
