// SPDX-License-Identifier: Apache-2.0
// Builds the identity and the combination step of each reduction combiner as LLVM IR, and pairwise folds over values
// and lanes. The order of operations must match ir/eval/combine.cpp, because results must be bit-identical.

#include <bit>

#include "codegen/llvm/values.h"
#include "ir/kernel/combiner.h"

namespace fusec::codegen {
namespace {

using ir::Combiner;
using ir::ScalarOp;
using llvm::Value;

Value* arithmetic(Ir& ir, ScalarOp op, DType type, Value* a, Value* b = nullptr) {
  return build_raw(ir, op, {type, widen(ir, type, a), b ? widen(ir, type, b) : nullptr}, type);
}

Value* compare(Ir& ir, ScalarOp op, DType type, Value* a, Value* b) {
  return build_op(ir, op, {type, widen(ir, type, a), widen(ir, type, b)});
}

// Whether the pair (value, index) b replaces a: NaN wins over numbers, then the better value, then the preferred index.
Value* wins(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b) {
  const DType t = op.types[0];
  const bool greatest = op.combiner == Combiner::argmax || op.combiner == Combiner::argmax_last;
  const bool last = op.combiner == Combiner::argmax_last || op.combiner == Combiner::argmin_last;
  Value* better = compare(ir, greatest ? ScalarOp::lt : ScalarOp::gt, t, a[0], b[0]);
  Value* worse = compare(ir, greatest ? ScalarOp::gt : ScalarOp::lt, t, a[0], b[0]);
  Value* index = compare(ir, last ? ScalarOp::lt : ScalarOp::gt, op.types[1], a[1], b[1]);
  Value* out = ir.b.CreateOr(better, ir.b.CreateAnd(ir.b.CreateNot(worse), index));
  if (!is_float(t)) return out;
  Value *fa = widen(ir, t, a[0]), *fb = widen(ir, t, b[0]);
  Value *a_nan = ir.b.CreateFCmpUNO(fa, fa), *b_nan = ir.b.CreateFCmpUNO(fb, fb);
  return ir.b.CreateSelect(ir.b.CreateXor(a_nan, b_nan), b_nan, out);
}

Parts select(Ir& ir, Value* condition, const Parts& a, const Parts& b) {
  Parts out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(ir.b.CreateSelect(condition, a[i], b[i]));
  return out;
}

Parts combine_welford(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b) {
  const DType t = op.types[0];
  const auto apply = [&](ScalarOp o, Value* x, Value* y) { return arithmetic(ir, o, t, x, y); };
  Value* n = apply(ScalarOp::add, a[2], b[2]);
  Value* w = apply(ScalarOp::div, b[2], n);
  Value* d = apply(ScalarOp::sub, b[0], a[0]);
  Value* mean = apply(ScalarOp::add, a[0], apply(ScalarOp::mul, d, w));
  Value* spread = apply(ScalarOp::mul, apply(ScalarOp::mul, d, d), apply(ScalarOp::mul, a[2], w));
  Value* m2 = apply(ScalarOp::add, apply(ScalarOp::add, a[1], b[1]), spread);
  Value* zero = llvm::Constant::getNullValue(a[2]->getType());
  const Parts both = select(ir, compare(ir, ScalarOp::eq, t, b[2], zero), a, {mean, m2, n});
  return select(ir, compare(ir, ScalarOp::eq, t, a[2], zero), b, both);
}

Parts combine_max_sum(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b) {
  const DType t = op.types[0];
  Value* m = arithmetic(ir, ScalarOp::max, t, a[0], b[0]);
  Value* one = splat(ir, constant(ir, {t, 1, 0}), width_of(m));
  const auto term = [&](const Parts& p) {
    Value* factor = arithmetic(ir, ScalarOp::exp, t, arithmetic(ir, ScalarOp::sub, t, p[0], m));
    factor = ir.b.CreateSelect(compare(ir, ScalarOp::eq, t, p[0], m), one, factor);
    return arithmetic(ir, ScalarOp::mul, t, p[1], factor);
  };
  Value *left = term(a), *right = term(b);
  return {m, arithmetic(ir, ScalarOp::add, t, left, right)};
}

// Every second lane of the concatenation of a and b (null: of a alone), from lane `first`.
Value* stride_two(Ir& ir, Value* a, Value* b, int first) {
  const int n = width_of(a), total = b ? 2 * n : n;
  if (total == 2 && !b) return ir.b.CreateExtractElement(a, static_cast<uint64_t>(first));
  std::vector<int> lanes;
  for (int k = first; k < total; k += 2) lanes.push_back(k);
  return b ? ir.b.CreateShuffleVector(a, b, lanes) : ir.b.CreateShuffleVector(a, lanes);
}

Parts combine_neighbours(Ir& ir, const CombineOp& op, const Parts& a, const Parts* b) {
  Parts even, odd;
  for (std::size_t i = 0; i < a.size(); ++i) {
    even.push_back(stride_two(ir, a[i], b ? (*b)[i] : nullptr, 0));
    odd.push_back(stride_two(ir, a[i], b ? (*b)[i] : nullptr, 1));
  }
  return combine(ir, op, even, odd);
}

}  // namespace

Parts identity(Ir& ir, const CombineOp& op, int width) {
  Parts out;
  for (const ir::Constant& c : identity_constants(op.combiner, op.types))
    out.push_back(splat(ir, constant(ir, c), width));
  return out;
}

Parts combine(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b) {
  switch (op.combiner) {
    case Combiner::argmax:
    case Combiner::argmin:
    case Combiner::argmax_last:
    case Combiner::argmin_last:
      return select(ir, wins(ir, op, a, b), b, a);
    case Combiner::welford:
      return combine_welford(ir, op, a, b);
    case Combiner::max_sum:
      return combine_max_sum(ir, op, a, b);
    default:
      return {arithmetic(ir, combining_op(op.combiner), op.types[0], a[0], b[0])};
  }
}

Parts combine_masked(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b, Value* mask) {
  const Parts both = combine(ir, op, a, b);
  return mask ? select(ir, mask, both, a) : both;
}

Parts fold_pairs(Ir& ir, const CombineOp& op, std::vector<Parts> items) {
  while (items.size() > 1) {
    std::vector<Parts> next;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) next.push_back(combine(ir, op, items[i], items[i + 1]));
    if (items.size() % 2) next.push_back(items.back());
    items = std::move(next);
  }
  return items[0];
}

Parts fold_lanes(Ir& ir, const CombineOp& op, std::vector<Parts> items) {
  const int width = width_of(items[0][0]);
  if (width == 1) return fold_pairs(ir, op, std::move(items));
  if (!std::has_single_bit(static_cast<unsigned>(width)) || !std::has_single_bit(items.size())) {
    std::vector<Parts> scalars;
    for (const Parts& item : items) {
      for (int k = 0; k < width; ++k) {
        Parts& lane = scalars.emplace_back();
        for (Value* part : item) lane.push_back(ir.b.CreateExtractElement(part, static_cast<uint64_t>(k)));
      }
    }
    return fold_pairs(ir, op, std::move(scalars));
  }
  while (items.size() > 1) {
    std::vector<Parts> next;
    for (std::size_t i = 0; i < items.size(); i += 2)
      next.push_back(combine_neighbours(ir, op, items[i], &items[i + 1]));
    items = std::move(next);
  }
  while (width_of(items[0][0]) > 1) items[0] = combine_neighbours(ir, op, items[0], nullptr);
  return items[0];
}

Value* extract_lanes(Ir& ir, Value* v, int from, int count) {
  if (count == width_of(v)) return v;
  if (count == 1) return ir.b.CreateExtractElement(v, static_cast<uint64_t>(from));
  std::vector<int> lanes;
  for (int k = 0; k < count; ++k) lanes.push_back(from + k);
  return ir.b.CreateShuffleVector(v, lanes);
}

}  // namespace fusec::codegen
