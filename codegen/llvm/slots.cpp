// SPDX-License-Identifier: Apache-2.0
// Maps accesses of slot buffers to stack slots in the LLVM writers. All positions are known at write time, so an index
// out of range is a compile error.

#include "codegen/llvm/access.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// The element of a slot buffer that each lane reads.
std::vector<int64_t> positions(Writer& w, const IndexExpr& linear, int width) {
  std::vector<int64_t> at;
  each_lane(w, width, [&](int) {
    const IndexExpr d = w.index.resolve(linear);
    FUSEC_CHECK(d.is_const()) << "slot index " << d.str();
    at.push_back(d.value());
  });
  return at;
}

}  // namespace

bool in_slots(const Writer& w, ir::BufferId id) {
  const auto at = w.locals.buffers.find(id);
  return at != w.locals.buffers.end() && at->second.slots;
}

llvm::AllocaInst* slot_at(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index) {
  const LaneForm form = lane_form(w, w.index.resolve(linear_index(w.kernel.buffers[id], index)));
  const LocalBuffer& local = w.locals.buffers.at(id);
  FUSEC_CHECK(form.base.is_const()) << "slot index " << form.base.str();
  const int64_t slot = form.base.value() / local.width;
  if (form.base.value() < 0 || slot >= local.count) {
    throw CompileError("index out of range of '" + w.kernel.buffers[id].name + "'");
  }
  return get_slots(w, id)[static_cast<std::size_t>(slot)];
}

Value* pick_lanes(Writer& w, const ir::Load& load, int width) {
  const std::vector<int64_t> at = positions(w, linear_index(w.kernel.buffers[load.buffer], load.index), width);
  const LocalBuffer& local = w.locals.buffers.at(load.buffer);
  Value* out = nullptr;
  for (int64_t slot = 0; slot < local.count; ++slot) {
    std::vector<int> order(static_cast<std::size_t>(width), llvm::PoisonMaskElem);
    bool used = false;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (at[k] / local.width == slot) order[k] = static_cast<int>(at[k] % local.width), used = true;
    }
    if (!used) continue;
    llvm::AllocaInst* from = get_slots(w, load.buffer)[static_cast<std::size_t>(slot)];
    Value* lanes = w.ir.b.CreateShuffleVector(w.ir.b.CreateLoad(from->getAllocatedType(), from), order);
    if (out) {
      for (std::size_t k = 0; k < at.size(); ++k) {
        order[k] = order[k] == llvm::PoisonMaskElem ? static_cast<int>(k) : width + static_cast<int>(k);
      }
      lanes = w.ir.b.CreateShuffleVector(out, lanes, order);
    }
    out = lanes;
  }
  if (!out) throw CompileError("index out of range of '" + w.kernel.buffers[load.buffer].name + "'");
  return out;
}

}  // namespace fusec::codegen
