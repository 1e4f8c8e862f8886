// SPDX-License-Identifier: Apache-2.0
// Writes loads and prefetches as LLVM IR. Guarded loads become masked loads where the target has fast ones, else a
// branch with a per-lane fallback; a guarded-off lane must not touch memory.

#include "codegen/llvm/access.h"
#include "ir/kernel/mailbox.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

Value* load_lanes(Writer& w, const Access& a) {
  auto& b = w.ir.b;
  llvm::Type* type = with_width(a.element, a.width);
  if (a.width == 1) return w.load(type, address(w, a), alignment(w, a));
  if (a.contiguous()) return w.load(type, first_address(w, a), alignment(w, a));
  if (a.uniform()) return splat(w.ir, b.CreateLoad(a.element, first_address(w, a)), a.width);
  Value* out = llvm::PoisonValue::get(type);
  each_lane(w, a.width, [&](int k) {
    out = b.CreateInsertElement(out, b.CreateLoad(a.element, address(w, a)), static_cast<uint64_t>(k));
  });
  return out;
}

// Loads lane by lane at run time: small code for a rare case.
Value* load_each(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* otherwise) {
  auto& b = w.ir.b;
  llvm::AllocaInst* temporary = stack_slot(w.ir, otherwise->getType());
  b.CreateStore(otherwise, temporary);
  runtime_loop(w.ir, b.getInt64(static_cast<uint64_t>(a.width)), [&](Value* lane) {
    with_lane(w, lane, [&] {
      return branch(
          w.ir, all_terms_hold(w, lanes),
          [&]() -> Value* {
            b.CreateStore(b.CreateLoad(a.element, address(w, a)), b.CreateGEP(a.element, temporary, lane));
            return nullptr;
          },
          [] { return nullptr; });
    });
  });
  return b.CreateLoad(otherwise->getType(), temporary);
}

// The same, expanded for each lane.
Value* load_expanded(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* otherwise) {
  auto& b = w.ir.b;
  Value* out = otherwise;
  each_lane(w, a.width, [&](int k) {
    Value* lane = branch(
        w.ir, all_terms_hold(w, lanes), [&]() -> Value* { return b.CreateLoad(a.element, address(w, a)); },
        [&] { return b.CreateExtractElement(otherwise, static_cast<uint64_t>(k)); });
    out = b.CreateInsertElement(out, lane, static_cast<uint64_t>(k));
  });
  return out;
}

Value* load_masked(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* otherwise) {
  if (w.traits.expands_lanes) {
    if (!a.contiguous()) return load_expanded(w, a, lanes, otherwise);
    return branch(
        w.ir, all_lanes(w, lanes, a.width), [&] { return load_lanes(w, a); },
        [&] { return load_expanded(w, a, lanes, otherwise); });
  }
  if (masks(w, a)) {
    return w.ir.b.CreateMaskedLoad(otherwise->getType(), first_address(w, a), alignment(w, a),
                                   lane_masks(w, lanes, a.width), otherwise);
  }
  return branch(
      w.ir, all_lanes(w, lanes, a.width), [&] { return load_lanes(w, a); },
      [&] { return load_each(w, a, lanes, otherwise); });
}

// An axis without elements has none to clamp to, so every index is out of range there.
Condition clamped_axes_nonempty(Writer& w, const Access& a) {
  ir::Guard extents;
  for (std::size_t axis = 0; axis < a.info->shape.size(); ++axis) {
    if (a.clamp >> axis & 1) extents.push_back(a.info->shape[axis] - 1);
  }
  return make_condition(w, extents, 1);
}

Value* load_clamped(Writer& w, const Access& a, const Condition& c, Value* otherwise) {
  const Condition nonempty = clamped_axes_nonempty(w, a);
  const auto load = [&] { return c.lanes.empty() ? load_lanes(w, a) : load_masked(w, a, c.lanes, otherwise); };
  const auto empty = [&] {
    w.ir.b.CreateStore(w.ir.b.getInt32(1), w.status());
    return otherwise;
  };
  if (nonempty.never) return empty();
  return nonempty.uniform.empty() ? load() : branch(w.ir, all_terms_hold(w, nonempty.uniform), load, empty);
}

// Pairs of 16-bit lanes as words, in which a GPU holds them: where branches meet, halves would be taken apart.
llvm::Type* word_type(const Ir& ir, llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (ir.target.kind != TargetKind::cuda || vector == nullptr || vector->getScalarSizeInBits() != 16 ||
      vector->getNumElements() % 2 != 0)
    return type;
  return with_width(ir.b.getInt32Ty(), static_cast<int>(vector->getNumElements() / 2));
}

Value* load_guarded(Writer& w, const Access& a, const Condition& c, Value* otherwise) {
  if (c.never) return otherwise;
  const auto body = [&] { return load_clamped(w, a, c, otherwise); };
  if (c.uniform.empty()) return body();
  llvm::Type* words = word_type(w.ir, otherwise->getType());
  Value* loaded = branch(
      w.ir, all_terms_hold(w, c.uniform), [&] { return w.ir.b.CreateBitCast(body(), words); },
      [&] { return w.ir.b.CreateBitCast(otherwise, words); });
  return w.ir.b.CreateBitCast(loaded, otherwise->getType());
}

}  // namespace

void write_load(Writer& w, const ir::Load& load) {
  const int width = w.kernel.regs[load.dst].width;
  const DType dtype = w.kernel.buffers[load.buffer].dtype;
  Value* otherwise = splat(w.ir, constant(w.ir, load.otherwise), width);
  if (in_slots(w, load.buffer)) {
    Value* mask = guard_mask(w, load.guard, width);
    const LaneScope scope(w, width);
    const LaneForm form = lane_form(w, w.index.resolve(linear_index(w.kernel.buffers[load.buffer], load.index)));
    Value* v = nullptr;
    if (width > 1 && form.step != 1) {
      v = pick_lanes(w, load, width);
    } else {
      llvm::AllocaInst* slot = slot_at(w, load.buffer, load.index);
      v = w.ir.b.CreateLoad(slot->getAllocatedType(), slot);
      const int in_slot = w.locals.buffers.at(load.buffer).width;
      if (width == 1 && in_slot > 1)
        v = w.ir.b.CreateExtractElement(v, static_cast<uint64_t>(form.base.value() % in_slot));
    }
    return define(w, load.dst, mask ? w.ir.b.CreateSelect(mask, v, otherwise) : v);
  }
  const LaneScope scope(w, width);
  Access a = make_access(w, load.buffer, load.index, load.clamp, width);
  w.accesses_memory = true;
  if (ir::is_mailbox(*a.info)) w.await_mail(load.buffer), a.block.reset();
  const Condition c = make_condition(w, load.guard, width);
  define(w, load.dst, from_memory(w.ir, dtype, load_guarded(w, a, c, to_memory(w.ir, dtype, otherwise))));
}

void write_prefetch(Writer& w, const ir::Prefetch& prefetch) {
  const LaneScope scope(w, 1);
  w.prefetch(address(w, make_access(w, prefetch.buffer, prefetch.index, 0, 1)));
}

}  // namespace fusec::codegen
