// SPDX-License-Identifier: Apache-2.0
// Builds guards as i1 values and lane masks in LLVM IR. Drops the terms that ranges prove, and keeps terms on which all
// lanes agree scalar.

#include <algorithm>

#include "codegen/llvm/access.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Tests base + step*lane >= 0, where every term of base but its constant is a multiple of g. That is base/g + floor((c
// + step*lane) / g) >= 0. The lanes agree if the floor is equal for all of them; then lane 0 answers for all.
bool lanes_agree(const Writer& w, const LaneForm& form, int width) {
  if (!form.step) return false;
  int64_t constant = 0;
  if (!form.base.is_const() && form.base.terms().front().atoms.empty())
    constant = form.base.terms().front().coefficient;
  const int64_t g = form.base.is_const() ? 0 : known_divisor(w, form.base - constant);
  return g > 0 && floor_div(constant, g) == floor_div(constant + *form.step * (width - 1), g);
}

// Values from data are not bounded like memory offsets, so they need 64 bits.
Value* guard_value(Writer& w, const IndexExpr& d) {
  return w.index.is_floating(d) ? w.index.wide(d) : w.index.value(d);
}

Value* nonneg(Writer& w, const IndexExpr& d) {
  Value* v = guard_value(w, d);
  return w.ir.b.CreateICmpSGT(v, integer(v, -1));
}

// Only |base| up to |step|*width matters, so base is clamped there and compared in 32 bits.
Value* new_lane_mask(Writer& w, const IndexExpr& d, int width) {
  auto& b = w.ir.b;
  const LaneForm form = lane_form(w, d);
  const int64_t reach = form.step ? std::abs(*form.step) * width : 0;
  if (form.step && reach < (int64_t{1} << 30)) {
    Value* base = guard_value(w, form.base);
    if (base->getType() == b.getInt64Ty()) {
      base = call_intrinsic(w.ir, llvm::Intrinsic::smin, {base, integer(base, reach)});
      base = call_intrinsic(w.ir, llvm::Intrinsic::smax, {base, integer(base, -reach)});
    }
    Value* lanes = ramp(w.ir, b.CreateTrunc(base, b.getInt32Ty()), *form.step, width);
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

// base + step*lane >= 0, made once per basic block.
Value* lane_mask(Writer& w, const IndexExpr& d, int width) {
  if (!lane_form(w, d).step) return new_lane_mask(w, d, width);
  Value*& mask = w.masks[{w.ir.b.GetInsertBlock(), width, d}];
  if (!mask) mask = new_lane_mask(w, d, width);
  return mask;
}

}  // namespace

Condition make_condition(Writer& w, const ir::Guard& guard, int width) {
  Condition out;
  for (const IndexExpr& term : guard) {
    const IndexExpr d = w.index.resolve(term);
    if (d.is_const()) {
      out.never |= d.value() < 0;
    } else if (!w.index.proves_nonneg(d)) {
      const LaneForm form = lane_form(w, d);
      if (!form.varies())
        out.uniform.push_back(d);
      else if (w.traits.expands_lanes && lanes_agree(w, form, width))
        out.uniform.push_back(form.base);
      else
        out.lanes.push_back(d);
    }
  }
  return out;
}

Value* all_terms_hold(Writer& w, const std::vector<IndexExpr>& terms) {
  Value* out = nullptr;
  for (const IndexExpr& d : terms) {
    Value* holds = nonneg(w, w.index.resolve(d));
    out = out ? w.ir.b.CreateAnd(out, holds) : holds;
  }
  return out;
}

Value* lane_masks(Writer& w, const std::vector<IndexExpr>& terms, int width) {
  Value* out = nullptr;
  for (const IndexExpr& d : terms) {
    Value* mask = lane_mask(w, d, width);
    out = out ? w.ir.b.CreateAnd(out, mask) : mask;
  }
  return out;
}

Value* all_lanes(Writer& w, const std::vector<IndexExpr>& terms, int width) {
  Value* out = nullptr;
  for (const IndexExpr& d : terms) {
    const LaneForm form = lane_form(w, d);
    Value* all = form.step ? nonneg(w, form.base + std::min<int64_t>(0, *form.step * (width - 1)))
                           : w.ir.b.CreateAndReduce(lane_mask(w, d, width));
    out = out ? w.ir.b.CreateAnd(out, all) : all;
  }
  return out;
}

Value* guard_mask(Writer& w, const ir::Guard& guard, int width) {
  const LaneScope scope(w, width);
  const Condition c = make_condition(w, guard, width);
  if (c.never) return llvm::Constant::getNullValue(with_width(w.ir.b.getInt1Ty(), width));
  Value* uniform = all_terms_hold(w, c.uniform);
  Value* lanes = lane_masks(w, c.lanes, width);
  if (!uniform) return lanes;
  uniform = splat(w.ir, uniform, width);
  return lanes ? w.ir.b.CreateAnd(uniform, lanes) : uniform;
}

}  // namespace fusec::codegen
