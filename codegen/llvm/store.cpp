// SPDX-License-Identifier: Apache-2.0
// Writes stores as LLVM IR: plain, streaming, masked or lane by lane. A store with a guard must not touch memory in the
// lanes that the guard switches off.

#include <llvm/IR/Metadata.h>

#include <algorithm>
#include <utility>

#include "codegen/llvm/access.h"
#include "ir/kernel/mailbox.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

void store_lanes(Writer& w, const Access& a, Value* v, bool stream) {
  auto& b = w.ir.b;
  if (a.width > 1 && !a.contiguous()) {
    return each_lane(w, a.width,
                     [&](int k) { b.CreateStore(b.CreateExtractElement(v, static_cast<uint64_t>(k)), address(w, a)); });
  }
  Value* at = a.width == 1 ? address(w, a) : first_address(w, a);
  const llvm::Align align = alignment(w, a);
  llvm::StoreInst* store = w.store(v, at, align);
  const int64_t bytes = static_cast<int64_t>(size_of(a.info->dtype)) * a.width;
  if (!store || !stream || bytes < 16 ||
      align.value() < static_cast<uint64_t>(std::min<int64_t>(bytes, w.ir.target.vector_bytes))) {
    return;
  }
  llvm::LLVMContext& context = b.getContext();
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(b.getInt32(1))));
  w.streams = true;
}

void store_each(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* v) {
  auto& b = w.ir.b;
  llvm::AllocaInst* temporary = stack_slot(w.ir, v->getType());
  b.CreateStore(v, temporary);
  runtime_loop(w.ir, b.getInt64(static_cast<uint64_t>(a.width)), [&](Value* lane) {
    with_lane(w, lane, [&] {
      return branch(
          w.ir, all_terms_hold(w, lanes),
          [&]() -> Value* {
            b.CreateStore(b.CreateLoad(a.element, b.CreateGEP(a.element, temporary, lane)), address(w, a));
            return nullptr;
          },
          [] { return nullptr; });
    });
  });
}

void store_expanded(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* v) {
  each_lane(w, a.width, [&](int k) {
    branch(
        w.ir, all_terms_hold(w, lanes),
        [&]() -> Value* {
          w.ir.b.CreateStore(w.ir.b.CreateExtractElement(v, static_cast<uint64_t>(k)), address(w, a));
          return nullptr;
        },
        [] { return nullptr; });
  });
}

// Masked stores cannot stream and are not fast on every target, so full vectors take a separate branch there.
void store_masked(Writer& w, const Access& a, const std::vector<IndexExpr>& lanes, Value* v, bool stream) {
  const bool masked = masks(w, a);
  if (w.traits.expands_lanes && !a.contiguous()) return store_expanded(w, a, lanes, v);
  const auto rest = [&]() -> Value* {
    if (w.traits.expands_lanes) {
      store_expanded(w, a, lanes, v);
    } else if (masked) {
      w.ir.b.CreateMaskedStore(v, first_address(w, a), alignment(w, a), lane_masks(w, lanes, a.width));
    } else {
      store_each(w, a, lanes, v);
    }
    return nullptr;
  };
  if (masked && masks_all(w) && !stream) {
    rest();
    return;
  }
  branch(
      w.ir, all_lanes(w, lanes, a.width),
      [&]() -> Value* {
        store_lanes(w, a, v, stream);
        return nullptr;
      },
      rest);
}

void store_guarded(Writer& w, const Access& a, const Condition& c, Value* v, bool stream) {
  if (c.never) return;
  const auto body = [&]() -> Value* {
    if (c.lanes.empty()) {
      store_lanes(w, a, v, stream);
    } else {
      store_masked(w, a, c.lanes, v, stream);
    }
    return nullptr;
  };
  if (c.uniform.empty()) {
    body();
  } else {
    branch(w.ir, all_terms_hold(w, c.uniform), body, [] { return nullptr; });
  }
}

}  // namespace

void write_store(Writer& w, const ir::Store& store) {
  Value* v = raw_operand(w, store.value);
  const int width = width_of(v);
  if (in_slots(w, store.buffer)) {
    Value* mask = guard_mask(w, store.guard, width);
    const LaneScope scope(w, width);
    llvm::AllocaInst* slot = slot_at(w, store.buffer, store.index);
    if (mask) v = w.ir.b.CreateSelect(mask, v, w.ir.b.CreateLoad(v->getType(), slot));
    w.ir.b.CreateStore(v, slot);
    return;
  }
  const LaneScope scope(w, width);
  Access a = make_access(w, store.buffer, store.index, 0, width);
  w.accesses_memory = true;
  Value* stored = to_memory(w.ir, a.info->dtype, v);
  if (ir::is_mailbox(*a.info)) {
    const IndexExpr block = *std::exchange(a.block, std::nullopt);
    return w.mail(store.buffer, address(w, a), stored, block);
  }
  store_guarded(w, a, make_condition(w, store.guard, width), stored, store.hint == ir::StoreHint::stream);
}

}  // namespace fusec::codegen
