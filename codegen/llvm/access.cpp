// SPDX-License-Identifier: Apache-2.0
// Loads, stores, guards and index values.
#include <llvm/IR/Metadata.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/writer.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// A column of row-major (row, column) in "swizzle N": groups of N columns change places by the exclusive or of their number
// and the row's, so that a column of groups lies in different banks. Lanes that stay in a group stay in order: then `column`
// is that of lane 0.
struct Swizzle {
  int64_t group = 0, groups = 1;  // group 0: none
  Dim row, column;
};

// One load or store: its place in memory. `linear` leaves out the axes of `clamp`, which add a multiple of their stride,
// and the swizzled one; with `one_row` these are the same for all lanes.
struct Access {
  ir::BufferId buffer;
  const ir::Buffer* info;
  const std::vector<Dim>* index;
  uint32_t clamp;
  int width;
  Dim linear;
  LaneForm form;
  llvm::Type* element;  // in memory
  bool one_row = true;
  Swizzle swizzle = {};

  bool contiguous() const { return one_row && form.step == 1; }
  bool uniform() const { return one_row && form.step == 0; }
};

// Of shared buffers; others are laid out as if they had none.
int64_t swizzle_of(const ir::Buffer& buffer) {
  constexpr std::string_view kPrefix = "swizzle ";
  int64_t out = 0;
  if (buffer.space == ir::Space::shared && buffer.layout.starts_with(kPrefix)) {
    std::from_chars(buffer.layout.data() + kPrefix.size(), buffer.layout.data() + buffer.layout.size(), out);
  }
  return out;
}

int64_t known_divisor(const Writer& w, const Dim& d) {
  std::map<std::string, Dim> facts;
  for (const auto& [extent, by] : w.kernel.divisible) facts[extent] = Dim::symbol(extent) * by;
  return d.substitute(facts).known_divisor();
}

// False: the lanes stay in a group.
bool lanes_change_places(Writer& w, Swizzle& swizzle, int width) {
  const LaneForm form = lane_form(w, w.index.resolve(swizzle.column)), row = lane_form(w, w.index.resolve(swizzle.row));
  const bool in_group = form.step == 1 && !row.varies() && swizzle.group % width == 0 && known_divisor(w, form.base) % width == 0;
  if (in_group) swizzle.column = form.base;
  return !in_group && (form.varies() || row.varies());
}

Swizzle swizzle_at(const ir::Buffer& buffer, const std::vector<Dim>& index) {
  Swizzle out{swizzle_of(buffer), 1, {}, {}};
  if (out.group == 0 || index.size() < 2) return {};
  const Dim& extent = buffer.shape.back();
  out.groups = extent.is_const() && extent.value() % out.group == 0 ? extent.value() / out.group : 0;
  if (!std::has_single_bit(static_cast<uint64_t>(out.groups))) {
    throw Inexpressible("'" + buffer.name + "' has no power of two of groups to swizzle");
  }
  out.row = index[index.size() - 2];
  out.column = index.back();
  return out;
}

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

// index wrapped when negative, then clamped into 0 .. extent-1; what is outside sets the status word.
Value* clamped(Writer& w, const Dim& index, const Dim& extent) {
  auto& b = w.ir.b;
  Value *i = w.index.wide(w.index.resolve(index)), *n = w.index.wide(w.index.resolve(extent));
  Value* zero = b.getInt64(0);
  i = b.CreateSelect(b.CreateICmpSLT(i, zero), b.CreateAdd(i, n), i);
  branch(w.ir, b.CreateICmpUGE(i, n), [&]() -> Value* {
    b.CreateStore(b.getInt32(1), w.status());
    return nullptr;
  }, [] { return nullptr; });
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

// At the current lane; at lane 0 of an access whose lanes are in one row.
Value* address(Writer& w, const Access& a) { return address_of(w, a, w.index.resolve(a.linear)); }
Value* first_address(Writer& w, const Access& a) { return address_of(w, a, a.form.base); }

// What is proven of the address of lane 0: from the base and the constant that divides the offset, extents' facts used.
llvm::Align alignment(Writer& w, const Access& a) {
  const auto element = static_cast<int64_t>(size_of(a.info->dtype));
  const bool local = a.info->space == ir::Space::reg || a.info->space == ir::Space::shared;
  const int64_t base = local ? w.traits.local_alignment : a.info->alignment;
  if (base <= element || (a.clamp != 0 && !w.traits.needs_alignment)) return llvm::Align(static_cast<uint64_t>(element));
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

// A guard split by whether it is one for all lanes.
struct Condition {
  bool never = false;
  std::vector<Dim> uniform, lanes;
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// base + step*lane >= 0 where all of base but its constant is a multiple of g: base/g + floor((c + step*lane) / g) >= 0.
// The lanes agree when that floor is one for all; which of them is asked does not matter then.
bool lanes_agree(const Writer& w, const LaneForm& form, int width) {
  if (!form.step) return false;
  int64_t constant = 0;
  if (!form.base.is_const() && form.base.terms().front().atoms.empty()) constant = form.base.terms().front().coefficient;
  const int64_t g = form.base.is_const() ? 0 : known_divisor(w, form.base - constant);
  return g > 0 && floor_div(constant, g) == floor_div(constant + *form.step * (width - 1), g);
}

Condition condition_of(Writer& w, const ir::Guard& guard, int width) {
  Condition out;
  for (const Dim& term : guard) {
    const Dim d = w.index.resolve(term);
    if (d.is_const()) {
      out.never |= d.value() < 0;
    } else if (!w.index.proves_nonneg(d)) {
      const LaneForm form = lane_form(w, d);
      if (!form.varies()) out.uniform.push_back(d);
      else if (w.traits.expands_lanes && lanes_agree(w, form, width)) out.uniform.push_back(form.base);
      else out.lanes.push_back(d);
    }
  }
  return out;
}

// Data is no place in memory.
Value* guard_value(Writer& w, const Dim& d) { return w.index.is_floating(d) ? w.index.wide(d) : w.index.value(d); }

Value* nonneg(Writer& w, const Dim& d) {
  Value* v = guard_value(w, d);
  return w.ir.b.CreateICmpSGT(v, integer(v, -1));
}

Value* conjunction(Writer& w, const std::vector<Dim>& terms) {
  Value* out = nullptr;
  for (const Dim& d : terms) {
    Value* holds = nonneg(w, w.index.resolve(d));
    out = out ? w.ir.b.CreateAnd(out, holds) : holds;
  }
  return out;
}

// The vector start, start + step, ... of `type`.
Value* ramp(Writer& w, Value* start, int64_t step, int width) {
  std::vector<llvm::Constant*> steps;
  for (int k = 0; k < width; ++k) steps.push_back(integer(start, step * k));
  return w.ir.b.CreateAdd(splat(w.ir, start, width), llvm::ConstantVector::get(steps));
}

// base + step*lane >= 0, made once per block of instructions.
Value* lane_mask(Writer& w, const Dim& d, int width);

// Only |base| up to |step|*width matters, so it is clamped there and compared in 32 bits.
Value* new_lane_mask(Writer& w, const Dim& d, int width) {
  auto& b = w.ir.b;
  const LaneForm form = lane_form(w, d);
  const int64_t reach = form.step ? std::abs(*form.step) * width : 0;
  if (form.step && reach < (int64_t{1} << 30)) {
    Value* base = guard_value(w, form.base);
    if (base->getType() == b.getInt64Ty()) {
      base = call_intrinsic(w.ir, llvm::Intrinsic::smin, {base, integer(base, reach)});
      base = call_intrinsic(w.ir, llvm::Intrinsic::smax, {base, integer(base, -reach)});
    }
    Value* lanes = ramp(w, b.CreateTrunc(base, b.getInt32Ty()), *form.step, width);
    return b.CreateICmpSGT(lanes, integer(lanes, -1));
  }
  Value* out = llvm::PoisonValue::get(with_width(b.getInt1Ty(), width));
  for (int k = 0; k < width; ++k) {
    Value* holds = with_lane(w, k, [&] { return nonneg(w, w.index.resolve(d)); });
    w.index.bound(ir::kLane, 0, width - 1);
    out = b.CreateInsertElement(out, holds, static_cast<uint64_t>(k));
  }
  return out;
}

Value* lane_mask(Writer& w, const Dim& d, int width) {
  if (!lane_form(w, d).step) return new_lane_mask(w, d, width);
  Value*& mask = w.masks[{w.ir.b.GetInsertBlock(), width, d}];
  if (!mask) mask = new_lane_mask(w, d, width);
  return mask;
}

Value* lane_masks(Writer& w, const std::vector<Dim>& terms, int width) {
  Value* out = nullptr;
  for (const Dim& d : terms) {
    Value* mask = lane_mask(w, d, width);
    out = out ? w.ir.b.CreateAnd(out, mask) : mask;
  }
  return out;
}

// i1: every lane passes.
Value* all_lanes(Writer& w, const std::vector<Dim>& terms, int width) {
  Value* out = nullptr;
  for (const Dim& d : terms) {
    const LaneForm form = lane_form(w, d);
    Value* all = form.step ? nonneg(w, form.base + std::min<int64_t>(0, *form.step * (width - 1)))
                           : w.ir.b.CreateAndReduce(lane_mask(w, d, width));
    out = out ? w.ir.b.CreateAnd(out, all) : all;
  }
  return out;
}

// Runs f at each lane in turn, unrolled.
void each_lane(Writer& w, int width, const std::function<void(int)>& f) {
  for (int k = 0; k < width; ++k) {
    with_lane(w, k, [&] { f(k); return nullptr; });
  }
  w.index.bound(ir::kLane, 0, width - 1);
}

// Whether the target masks loads (stores) of such elements in hardware. AVX2's masked stores are slow on some
// processors: good for tails alone.
bool masks_all(const Writer& w) { return w.ir.target.has("avx512bw") && w.ir.target.has("avx512vl"); }
bool masks(const Writer& w, const Access& a) {
  return a.contiguous() && (masks_all(w) || (w.ir.target.has("avx2") && size_of(a.info->dtype) >= 4));
}

// Loads.

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

// Lane by lane at run time: small code for what is rare.
Value* load_each(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* otherwise) {
  auto& b = w.ir.b;
  llvm::AllocaInst* temporary = stack_slot(w.ir, otherwise->getType());
  b.CreateStore(otherwise, temporary);
  runtime_loop(w.ir, b.getInt64(static_cast<uint64_t>(a.width)), [&](Value* lane) {
    with_lane(w, lane, [&] {
      return branch(w.ir, conjunction(w, lanes), [&]() -> Value* {
        b.CreateStore(b.CreateLoad(a.element, address(w, a)), b.CreateGEP(a.element, temporary, lane));
        return nullptr;
      }, [] { return nullptr; });
    });
  });
  return b.CreateLoad(otherwise->getType(), temporary);
}

// The same in code for each lane.
Value* load_expanded(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* otherwise) {
  auto& b = w.ir.b;
  Value* out = otherwise;
  each_lane(w, a.width, [&](int k) {
    Value* lane = branch(w.ir, conjunction(w, lanes), [&]() -> Value* { return b.CreateLoad(a.element, address(w, a)); },
                         [&] { return b.CreateExtractElement(otherwise, static_cast<uint64_t>(k)); });
    out = b.CreateInsertElement(out, lane, static_cast<uint64_t>(k));
  });
  return out;
}

Value* load_masked(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* otherwise) {
  if (w.traits.expands_lanes) {
    if (!a.contiguous()) return load_expanded(w, a, lanes, otherwise);
    return branch(w.ir, all_lanes(w, lanes, a.width), [&] { return load_lanes(w, a); },
                  [&] { return load_expanded(w, a, lanes, otherwise); });
  }
  if (masks(w, a)) {
    return w.ir.b.CreateMaskedLoad(otherwise->getType(), first_address(w, a), alignment(w, a),
                                   lane_masks(w, lanes, a.width), otherwise);
  }
  return branch(w.ir, all_lanes(w, lanes, a.width), [&] { return load_lanes(w, a); },
                [&] { return load_each(w, a, lanes, otherwise); });
}

// An axis without elements has none to clamp to: every index is out of range there.
Condition clamped_axes_nonempty(Writer& w, const Access& a) {
  ir::Guard extents;
  for (std::size_t axis = 0; axis < a.info->shape.size(); ++axis) {
    if (a.clamp >> axis & 1) extents.push_back(a.info->shape[axis] - 1);
  }
  return condition_of(w, extents, 1);
}

Value* load_clamped(Writer& w, const Access& a, const Condition& c, Value* otherwise) {
  const Condition nonempty = clamped_axes_nonempty(w, a);
  const auto load = [&] { return c.lanes.empty() ? load_lanes(w, a) : load_masked(w, a, c.lanes, otherwise); };
  const auto empty = [&] {
    w.ir.b.CreateStore(w.ir.b.getInt32(1), w.status());
    return otherwise;
  };
  if (nonempty.never) return empty();
  return nonempty.uniform.empty() ? load() : branch(w.ir, conjunction(w, nonempty.uniform), load, empty);
}

Value* load_guarded(Writer& w, const Access& a, const Condition& c, Value* otherwise) {
  if (c.never) return otherwise;
  const auto body = [&] { return load_clamped(w, a, c, otherwise); };
  if (c.uniform.empty()) return body();
  return branch(w.ir, conjunction(w, c.uniform), body, [&] { return otherwise; });
}

// Stores.

void store_lanes(Writer& w, const Access& a, Value* v, bool stream) {
  auto& b = w.ir.b;
  if (a.width > 1 && !a.contiguous()) {
    return each_lane(w, a.width, [&](int k) {
      b.CreateStore(b.CreateExtractElement(v, static_cast<uint64_t>(k)), address(w, a));
    });
  }
  Value* at = a.width == 1 ? address(w, a) : first_address(w, a);
  const llvm::Align align = alignment(w, a);
  llvm::StoreInst* store = w.store(v, at, align);
  const int64_t bytes = static_cast<int64_t>(size_of(a.info->dtype)) * a.width;
  if (!store || !stream || bytes < 16 || align.value() < static_cast<uint64_t>(std::min<int64_t>(bytes, w.ir.target.vector_bytes))) {
    return;
  }
  llvm::LLVMContext& context = b.getContext();
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(b.getInt32(1))));
  w.streams = true;
}

void store_each(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* v) {
  auto& b = w.ir.b;
  llvm::AllocaInst* temporary = stack_slot(w.ir, v->getType());
  b.CreateStore(v, temporary);
  runtime_loop(w.ir, b.getInt64(static_cast<uint64_t>(a.width)), [&](Value* lane) {
    with_lane(w, lane, [&] {
      return branch(w.ir, conjunction(w, lanes), [&]() -> Value* {
        b.CreateStore(b.CreateLoad(a.element, b.CreateGEP(a.element, temporary, lane)), address(w, a));
        return nullptr;
      }, [] { return nullptr; });
    });
  });
}

void store_expanded(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* v) {
  each_lane(w, a.width, [&](int k) {
    branch(w.ir, conjunction(w, lanes), [&]() -> Value* {
      w.ir.b.CreateStore(w.ir.b.CreateExtractElement(v, static_cast<uint64_t>(k)), address(w, a));
      return nullptr;
    }, [] { return nullptr; });
  });
}

// Masked stores cannot stream, and not all are fast, so full vectors get a branch of their own there.
void store_masked(Writer& w, const Access& a, const std::vector<Dim>& lanes, Value* v, bool stream) {
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
  branch(w.ir, all_lanes(w, lanes, a.width), [&]() -> Value* {
    store_lanes(w, a, v, stream);
    return nullptr;
  }, rest);
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
    branch(w.ir, conjunction(w, c.uniform), body, [] { return nullptr; });
  }
}

// The stack slot that an access of a slot buffer means.
llvm::AllocaInst* slot_at(Writer& w, ir::BufferId id, const std::vector<Dim>& index) {
  const LaneForm form = lane_form(w, w.index.resolve(linear_index(w.kernel.buffers[id], index)));
  const LocalBuffer& local = w.locals.buffers.at(id);
  FUSEC_CHECK(form.base.is_const()) << "slot index " << form.base.str();
  const int64_t slot = form.base.value() / local.width;
  if (form.base.value() < 0 || slot >= local.count) {
    throw CompileError("index out of range of '" + w.kernel.buffers[id].name + "'");
  }
  return slots_of(w, id)[static_cast<std::size_t>(slot)];
}

// The element of a slot buffer that each lane reads.
std::vector<int64_t> positions(Writer& w, const Dim& linear, int width) {
  std::vector<int64_t> at;
  each_lane(w, width, [&](int) {
    const Dim d = w.index.resolve(linear);
    FUSEC_CHECK(d.is_const()) << "slot index " << d.str();
    at.push_back(d.value());
  });
  return at;
}

// Lanes of slots in any order, one shuffle for each slot that they come from.
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
    llvm::AllocaInst* from = slots_of(w, load.buffer)[static_cast<std::size_t>(slot)];
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

bool in_slots(const Writer& w, ir::BufferId id) {
  const auto at = w.locals.buffers.find(id);
  return at != w.locals.buffers.end() && at->second.slots;
}

}  // namespace

Value* guard_mask(Writer& w, const ir::Guard& guard, int width) {
  const LaneScope scope(w, width);
  const Condition c = condition_of(w, guard, width);
  if (c.never) return llvm::Constant::getNullValue(with_width(w.ir.b.getInt1Ty(), width));
  Value* uniform = conjunction(w, c.uniform);
  Value* lanes = lane_masks(w, c.lanes, width);
  if (!uniform) return lanes;
  uniform = splat(w.ir, uniform, width);
  return lanes ? w.ir.b.CreateAnd(uniform, lanes) : uniform;
}

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
    }
    return define(w, load.dst, mask ? w.ir.b.CreateSelect(mask, v, otherwise) : v);
  }
  const LaneScope scope(w, width);
  const Access a = access_of(w, load.buffer, load.index, load.clamp, width);
  const Condition c = condition_of(w, load.guard, width);
  define(w, load.dst, from_memory(w.ir, dtype, load_guarded(w, a, c, to_memory(w.ir, dtype, otherwise))));
}

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
  const Access a = access_of(w, store.buffer, store.index, 0, width);
  Value* stored = to_memory(w.ir, a.info->dtype, v);
  const auto write = [&]() -> Value* {
    store_guarded(w, a, condition_of(w, store.guard, width), stored, store.hint == ir::StoreHint::stream);
    return nullptr;
  };
  if (Value* mine = w.may_store(store.buffer)) {
    branch(w.ir, mine, write, [] { return nullptr; });
  } else {
    write();
  }
}

void write_prefetch(Writer& w, const ir::Prefetch& prefetch) {
  auto& b = w.ir.b;
  const LaneScope scope(w, 1);
  if (!w.traits.prefetches) return;
  const Access a = access_of(w, prefetch.buffer, prefetch.index, 0, 1);
  // Read, second-level cache and up (what is a page away would push out what is used now), data.
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                    {address(w, a), b.getInt32(0), b.getInt32(2), b.getInt32(1)});
}

void write_index_value(Writer& w, const ir::IndexValue& stmt) {
  auto& b = w.ir.b;
  const ir::RegInfo& info = w.kernel.regs[stmt.dst];
  const LaneScope scope(w, info.width);
  const Dim value = w.index.resolve(stmt.value);
  const LaneForm form = lane_form(w, value);
  Value* out = nullptr;
  if (form.step) {
    Value* base = w.index.wide(form.base);
    if (is_int(info.dtype)) base = convert(w.ir, DType::i64, info.dtype, base);
    out = form.varies() ? ramp(w, base, *form.step, info.width) : base;
  } else {
    out = llvm::PoisonValue::get(with_width(b.getInt64Ty(), info.width));
    each_lane(w, info.width, [&](int k) {
      out = b.CreateInsertElement(out, w.index.wide(w.index.resolve(value)), static_cast<uint64_t>(k));
    });
    if (is_int(info.dtype)) out = convert(w.ir, DType::i64, info.dtype, out);
  }
  define(w, stmt.dst, is_int(info.dtype) ? out : convert(w.ir, DType::i64, info.dtype, out));
}

}  // namespace fusec::codegen
