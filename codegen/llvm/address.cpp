// SPDX-License-Identifier: Apache-2.0
// Computes the addresses, alignment and lane structure of loads and stores as LLVM IR, for the host and NVPTX emitters.
// Clamps indices from data.

#include <algorithm>

#include "codegen/llvm/access.h"
#include "ir/kernel/mailbox.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// The index, wrapped if negative, then clamped to 0 .. extent-1. An index out of range sets the status word.
Value* clamped(Writer& w, const IndexExpr& index, const IndexExpr& extent) {
  auto& b = w.ir.b;
  Value *i = w.index.wide(w.index.resolve(index)), *n = w.index.wide(w.index.resolve(extent));
  Value* zero = b.getInt64(0);
  i = b.CreateSelect(b.CreateICmpSLT(i, zero), b.CreateAdd(i, n), i);
  branch(
      w.ir, b.CreateICmpUGE(i, n),
      [&]() -> Value* {
        b.CreateStore(b.getInt32(1), w.status());
        return nullptr;
      },
      [] { return nullptr; });
  i = call_intrinsic(w.ir, llvm::Intrinsic::smin, {i, b.CreateSub(n, b.getInt64(1))});
  return call_intrinsic(w.ir, llvm::Intrinsic::smax, {i, zero});
}

// The address `linear` elements into the buffer, plus the offsets of the clamped axes.
Value* compute_address(Writer& w, const Access& a, const IndexExpr& linear) {
  Value* at = w.index.pointer(get_base_address(w, a.buffer), a.element, linear);
  if (a.block) return w.in_block(at, *a.block);
  if (a.clamp == 0) return at;
  const ir::IndexShape strides = compute_strides(*a.info);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (!(a.clamp >> axis & 1)) continue;
    Value* i = w.ir.b.CreateTrunc(clamped(w, (*a.index)[axis], a.info->shape[axis]), w.index.type());
    at = w.ir.b.CreateGEP(a.element, at, w.ir.b.CreateMul(i, w.index.value(w.index.resolve(strides[axis]))));
  }
  return at;
}

}  // namespace

Access make_access(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index, uint32_t clamp, int width) {
  const ir::Buffer& buffer = w.kernel.buffers[id];
  const ir::IndexShape strides = compute_strides(buffer);
  FUSEC_CHECK(index.size() == strides.size()) << "buffer '" << buffer.name << "' has " << strides.size() << " axes";
  IndexExpr linear;
  bool one_row = true;
  const bool spread = w.cluster > 1 && buffer.space == ir::Space::shared;
  for (std::size_t i = spread ? 1 : 0; i < index.size(); ++i) {
    if (clamp >> i & 1) {
      one_row &= !lane_form(w, w.index.resolve(index[i])).varies();
    } else {
      linear += index[i] * strides[i];
    }
  }
  Access a{id, &buffer, &index, clamp, width, w.index.resolve(linear), {}, memory_type(w.ir, buffer.dtype), one_row};
  a.form = lane_form(w, a.linear);
  const IndexExpr own = w.index.resolve(floordiv(IndexExpr::symbol(ir::kThread), w.threads));
  if (spread && (ir::is_mailbox(buffer) || w.index.resolve(index[0]) != own)) a.block = w.index.resolve(index[0]);
  return a;
}

Value* address(Writer& w, const Access& a) { return compute_address(w, a, w.index.resolve(a.linear)); }
Value* first_address(Writer& w, const Access& a) { return compute_address(w, a, a.form.base); }

llvm::Align alignment(Writer& w, const Access& a) {
  const auto element = static_cast<int64_t>(size_of(a.info->dtype));
  const bool local = a.info->space == ir::Space::reg || a.info->space == ir::Space::shared;
  const int64_t base = local ? w.traits.local_alignment : a.info->alignment;
  if (base <= element || (a.clamp != 0 && !w.traits.needs_alignment))
    return llvm::Align(static_cast<uint64_t>(element));
  int64_t common = base;
  const auto divides = [&](int64_t elements) {
    const int64_t offset = elements * element;
    if (offset != 0) common = std::min(common, offset & -offset);
  };
  divides(known_divisor(w, a.form.base));
  const ir::IndexShape strides = compute_strides(*a.info);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (a.clamp >> axis & 1) divides(known_divisor(w, strides[axis]));
  }
  return llvm::Align(static_cast<uint64_t>(common));
}

// AVX2's masked stores are slow on some processors, so they are only used for tails.
bool masks_all(const Writer& w) { return w.ir.target.has("avx512bw") && w.ir.target.has("avx512vl"); }
bool masks(const Writer& w, const Access& a) {
  return a.contiguous() && (masks_all(w) || (w.ir.target.has("avx2") && size_of(a.info->dtype) >= 4));
}

}  // namespace fusec::codegen
