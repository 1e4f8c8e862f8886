// SPDX-License-Identifier: Apache-2.0
// How the LLVM writers reach memory: how an index expression depends on `lane`, guards as LLVM values, the address of a
// load or store, and local buffers that are held in stack slots, which are promoted to SSA values.
#pragma once

#include <optional>
#include <vector>

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

// The address of one load or store. `linear` omits the axes in `clamp`, each of which adds a multiple of its
// stride. With `one_row` these axes are equal for all lanes.
struct Access {
  ir::BufferId buffer;
  const ir::Buffer* info;
  const std::vector<IndexExpr>* index;
  uint32_t clamp;
  int width;
  IndexExpr linear;
  LaneForm form;
  llvm::Type* element;  // in memory
  bool one_row = true;
  std::optional<IndexExpr> block = {};  // of the cluster, whose memory holds the element

  bool contiguous() const { return one_row && form.step == 1; }
  bool uniform() const { return one_row && form.step == 0; }
};

Access make_access(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index, uint32_t clamp, int width);

// The address at the current lane. A clamped index that is out of range sets the status word.
llvm::Value* address(Writer& w, const Access& a);
// The address at lane 0 of an access whose lanes are in one row.
llvm::Value* first_address(Writer& w, const Access& a);
// The alignment proven for the address of lane 0, from the base and the known divisor of the offset, using the facts
// about extents.
llvm::Align alignment(Writer& w, const Access& a);

// Whether the target masks loads (stores) of such elements in hardware; masks_all: whether it does so for all
// contiguous accesses.
bool masks(const Writer& w, const Access& a);
bool masks_all(const Writer& w);

bool in_slots(const Writer& w, ir::BufferId id);
// The stack slot of an access to a slot buffer.
llvm::AllocaInst* slot_at(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index);
// Loads lanes from slots in any order, with one shuffle for each slot that they come from.
llvm::Value* pick_lanes(Writer& w, const ir::Load& load, int width);

}  // namespace fusec::codegen
