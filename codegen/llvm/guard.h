// SPDX-License-Identifier: Apache-2.0
// Guards as LLVM values.
#pragma once

#include <vector>

#include "codegen/llvm/writer.h"

namespace fusec::codegen {

// A guard, split into terms that are equal for all lanes and terms that are not.
struct Condition {
  bool never = false;
  std::vector<IndexExpr> uniform, lanes;
};

// Terms that always hold are left out.
Condition make_condition(Writer& w, const ir::Guard& guard, int width);

// i1: every term is >= 0 at the current lane; null without terms.
llvm::Value* all_terms_hold(Writer& w, const std::vector<IndexExpr>& terms);
// The same for each lane: a vector of i1; null without terms.
llvm::Value* lane_masks(Writer& w, const std::vector<IndexExpr>& terms, int width);
// i1: every lane passes.
llvm::Value* all_lanes(Writer& w, const std::vector<IndexExpr>& terms, int width);

}  // namespace fusec::codegen
