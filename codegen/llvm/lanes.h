// SPDX-License-Identifier: Apache-2.0
// How an index expression depends on `lane`.
#pragma once

#include <optional>

#include "codegen/llvm/writer.h"

namespace fusec::codegen {

// While it lives, `lane` has the range 0 .. width-1, or is 0 for width 1.
class LaneScope {
 public:
  LaneScope(Writer& w, int width);
  ~LaneScope();
  LaneScope(const LaneScope&) = delete;

 private:
  Writer& w_;
};

// base + step * lane; step nullopt: not affine with a constant step. `varies` false: step is 0.
struct LaneForm {
  IndexExpr base;
  std::optional<int64_t> step = 0;
  bool varies() const { return step != 0; }
};
LaneForm lane_form(const Writer& w, const IndexExpr& resolved);
// The greatest constant that is proven to divide d, using the kernel's facts about its extents.
int64_t known_divisor(const Writer& w, const IndexExpr& d);

// Calls make() with `lane` bound to the constant or runtime lane `at`.
llvm::Value* with_lane(Writer& w, int64_t at, const std::function<llvm::Value*()>& make);
llvm::Value* with_lane(Writer& w, llvm::Value* at, const std::function<llvm::Value*()>& make);
// Calls f for each lane in turn; the code is unrolled.
void each_lane(Writer& w, int width, const std::function<void(int)>& f);

}  // namespace fusec::codegen
