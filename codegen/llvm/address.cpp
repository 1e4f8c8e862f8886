// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/address.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// Of shared buffers; others are laid out as if they had none.
int64_t swizzle_of(const ir::Buffer& buffer) {
  constexpr std::string_view kPrefix = "swizzle ";
  int64_t out = 0;
  if (buffer.space == ir::Space::shared && buffer.layout.starts_with(kPrefix)) {
    std::from_chars(buffer.layout.data() + kPrefix.size(), buffer.layout.data() + buffer.layout.size(), out);
  }
  return out;
}

// False: the lanes stay in a group.
bool lanes_change_places(Writer& w, Swizzle& swizzle, int width) {
  const LaneForm form = lane_form(w, w.index.resolve(swizzle.column)), row = lane_form(w, w.index.resolve(swizzle.row));
  const bool in_group =
      form.step == 1 && !row.varies() && swizzle.group % width == 0 && known_divisor(w, form.base) % width == 0;
  if (in_group) swizzle.column = form.base;
  return !in_group && (form.varies() || row.varies());
}

Swizzle swizzle_at(const ir::Buffer& buffer, const std::vector<Dim>& index) {
  Swizzle out{swizzle_of(buffer), 1, {}, {}};
  if (out.group == 0 || index.size() < 2) return {};
  const Dim& extent = buffer.shape.back();
  out.groups = extent.is_const() && extent.value() % out.group == 0 ? extent.value() / out.group : 0;
  if (!std::has_single_bit(static_cast<uint64_t>(out.groups))) {
    throw UnsupportedKernel("'" + buffer.name + "' has no power of two of groups to swizzle");
  }
  out.row = index[index.size() - 2];
  out.column = index.back();
  return out;
}

// index wrapped when negative, then clamped into 0 .. extent-1; what is outside sets the status word.
Value* clamped(Writer& w, const Dim& index, const Dim& extent) {
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

Value* swizzled(Writer& w, const Swizzle& s) {
  const auto value = [&](const Dim& d) { return w.index.value(w.index.resolve(d)); };
  Value* group = w.ir.b.CreateXor(value(floordiv(s.column, s.group)), value(mod(s.row, s.groups)));
  return w.ir.b.CreateAdd(w.ir.b.CreateMul(group, integer(group, s.group)), value(mod(s.column, s.group)));
}

// The address `linear` elements into the buffer, moved by the clamped axes and the swizzled one.
Value* address_of(Writer& w, const Access& a, const Dim& linear) {
  Value* at = w.index.pointer(base_of(w, a.buffer), a.element, linear);
  if (a.swizzle.group > 0) at = w.ir.b.CreateGEP(a.element, at, swizzled(w, a.swizzle));
  if (a.clamp == 0) return at;
  const Shape strides = strides_of(*a.info);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (!(a.clamp >> axis & 1)) continue;
    Value* i = w.ir.b.CreateTrunc(clamped(w, (*a.index)[axis], a.info->shape[axis]), w.index.type());
    at = w.ir.b.CreateGEP(a.element, at, w.ir.b.CreateMul(i, w.index.value(w.index.resolve(strides[axis]))));
  }
  return at;
}

}  // namespace

Access access_of(Writer& w, ir::BufferId id, const std::vector<Dim>& index, uint32_t clamp, int width) {
  const ir::Buffer& buffer = w.kernel.buffers[id];
  const Shape strides = strides_of(buffer);
  FUSEC_CHECK(index.size() == strides.size()) << "buffer '" << buffer.name << "' has " << strides.size() << " axes";
  Dim linear;
  bool one_row = true;
  Swizzle swizzle = swizzle_at(buffer, index);
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (clamp >> i & 1) {
      one_row &= !lane_form(w, w.index.resolve(index[i])).varies();
    } else if (swizzle.group > 0 && i + 1 == index.size()) {
      const bool varies = lanes_change_places(w, swizzle, width);
      if (!varies && width > 1 && swizzle.column != index[i]) linear += Dim::symbol(ir::kLane);
      one_row &= !varies;
    } else {
      linear += index[i] * strides[i];
    }
  }
  Access a{id,      &buffer, &index, clamp, width, w.index.resolve(linear), {}, memory_type(w.ir, buffer.dtype),
           one_row, swizzle};
  a.form = lane_form(w, a.linear);
  return a;
}

Value* address(Writer& w, const Access& a) { return address_of(w, a, w.index.resolve(a.linear)); }
Value* first_address(Writer& w, const Access& a) { return address_of(w, a, a.form.base); }

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
  const Shape strides = strides_of(*a.info);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (a.clamp >> axis & 1) divides(known_divisor(w, strides[axis]));
  }
  if (a.swizzle.group > 0) divides(a.contiguous() ? a.width : 1);
  return llvm::Align(static_cast<uint64_t>(common));
}

// AVX2's masked stores are slow on some
// processors: good for tails alone.
bool masks_all(const Writer& w) { return w.ir.target.has("avx512bw") && w.ir.target.has("avx512vl"); }
bool masks(const Writer& w, const Access& a) {
  return a.contiguous() && (masks_all(w) || (w.ir.target.has("avx2") && size_of(a.info->dtype) >= 4));
}

}  // namespace fusec::codegen
