// SPDX-License-Identifier: Apache-2.0
// Builds combiners on tuples of raw values (of any width). The operations and their order are those of
// ir/eval/combine.h.
#pragma once

#include <vector>

#include "codegen/llvm/values.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using Parts = std::vector<llvm::Value*>;

struct CombineOp {
  ir::Combiner combiner;
  std::vector<DType> types;  // of the parts
};

Parts identity(Ir& ir, const CombineOp& op, int width);
Parts combine(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b);
// The combination where the mask holds, else a.
Parts combine_masked(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b, llvm::Value* mask);

// Combines neighbours, carrying an odd last one, until one is left.
Parts fold_pairs(Ir& ir, const CombineOp& op, std::vector<Parts> items);
// The same over the lanes of items of equal width, in the order (item, lane); the result has width 1.
Parts fold_lanes(Ir& ir, const CombineOp& op, std::vector<Parts> items);

// Lanes from .. from + count - 1.
llvm::Value* extract_lanes(Ir& ir, llvm::Value* v, int from, int count);

}  // namespace fusec::codegen
