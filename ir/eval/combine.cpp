// SPDX-License-Identifier: Apache-2.0
// Evaluates combiners and the combination tree, the reference for the bits of every reduction. It is written for
// clarity, not speed.

#include "ir/eval/combine.h"

#include <bit>
#include <cmath>
#include <optional>

#include "ir/kernel/combiner.h"
#include "ir/ops/cast.h"
#include "ir/ops/reference.h"

namespace fusec::ir {
namespace {

// a op b in one dtype, rounded.
Number arithmetic(ScalarOp op, DType dtype, const Number& a, const Number& b) {
  const Number args[] = {a, b};
  return apply(op, dtype, dtype, args, 2);
}

bool is_nan(DType dtype, const Number& a) { return is_float(dtype) && std::isnan(a.f); }

bool less(DType dtype, const Number& a, const Number& b) {
  if (is_float(dtype)) return a.f < b.f;
  return dtype == DType::u64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i) : a.i < b.i;
}

// Whether the pair (value, index) b replaces a.
bool wins(Combiner combiner, const TupleTypes& types, const Tuple& a, const Tuple& b) {
  const bool a_nan = is_nan(types[0], a[0]), b_nan = is_nan(types[0], b[0]);
  if (a_nan != b_nan) return b_nan;
  const bool greatest = combiner == Combiner::argmax || combiner == Combiner::argmax_last;
  if (!a_nan && less(types[0], a[0], b[0])) return greatest;
  if (!a_nan && less(types[0], b[0], a[0])) return !greatest;
  const bool last = combiner == Combiner::argmax_last || combiner == Combiner::argmin_last;
  return last ? less(types[1], a[1], b[1]) : less(types[1], b[1], a[1]);
}

Tuple combine_welford(const TupleTypes& types, const Tuple& a, const Tuple& b) {
  if (a[2].f == 0) return b;
  if (b[2].f == 0) return a;
  const DType t = types[0];
  const Number n = arithmetic(ScalarOp::add, t, a[2], b[2]);
  const Number w = arithmetic(ScalarOp::div, t, b[2], n);
  const Number d = arithmetic(ScalarOp::sub, t, b[0], a[0]);
  const Number mean = arithmetic(ScalarOp::add, t, a[0], arithmetic(ScalarOp::mul, t, d, w));
  const Number spread =
      arithmetic(ScalarOp::mul, t, arithmetic(ScalarOp::mul, t, d, d), arithmetic(ScalarOp::mul, t, a[2], w));
  const Number m2 = arithmetic(ScalarOp::add, t, arithmetic(ScalarOp::add, t, a[1], b[1]), spread);
  return {mean, m2, n};
}

Tuple combine_max_sum(const TupleTypes& types, const Tuple& a, const Tuple& b) {
  const DType t = types[0];
  const Number m = arithmetic(ScalarOp::max, t, a[0], b[0]);
  const auto factor = [&](const Number& x) {
    if (x.f == m.f) return Number{1, 0};
    const Number difference = arithmetic(ScalarOp::sub, t, x, m);
    return apply(ScalarOp::exp, t, t, &difference, 1);
  };
  const Number left = arithmetic(ScalarOp::mul, t, a[1], factor(a[0]));
  const Number right = arithmetic(ScalarOp::mul, t, b[1], factor(b[0]));
  return {m, arithmetic(ScalarOp::add, t, left, right), Number()};
}

}  // namespace

Number load_number(DType dtype, const void* at) {
  return is_float(dtype) ? Number{load_double(dtype, at), 0} : Number{0, load_int(dtype, at)};
}

void store_number(DType dtype, void* at, const Number& value) {
  if (is_float(dtype)) {
    store_double(dtype, at, value.f);
  } else {
    store_int(dtype, at, value.i);
  }
}

Number rounded(DType dtype, const Number& value) {
  if (dtype == DType::f64) return value;
  if (dtype == DType::f32) return {static_cast<double>(static_cast<float>(value.f)), 0};
  char bytes[8] = {};
  store_number(dtype, bytes, value);
  return load_number(dtype, bytes);
}

Number cast_number(DType from, DType to, const Number& value) {
  char bytes[8] = {};
  if (is_float(from)) {
    store_double(to, bytes, value.f);
  } else if (from == DType::u64 && value.i < 0 && is_float(to)) {
    // Above 2^63: converts half of the value, with a sticky lowest bit so that it rounds the same way, and doubles it
    // exactly.
    const uint64_t v = static_cast<uint64_t>(value.i);
    store_int(to, bytes, static_cast<int64_t>(v >> 1 | (v & 1)));
    store_double(to, bytes, 2 * load_double(to, bytes));
  } else {
    store_int(to, bytes, value.i);
  }
  return load_number(to, bytes);
}

Number make_number(const Constant& constant) { return rounded(constant.dtype, {constant.f, constant.i}); }

namespace {

// What the formulas of f64 do with f64 and its bits, an i64: the references of these ops are those of f32.
std::optional<Number> apply_wide(ScalarOp op, DType operand, const Number (&in)[3]) {
  if (op == ScalarOp::from_bits && operand == DType::i64) return Number{std::bit_cast<double>(in[0].i), 0};
  if (op == ScalarOp::to_bits && operand == DType::f64) return Number{0, std::bit_cast<int64_t>(in[0].f)};
  if (op == ScalarOp::fma && operand == DType::f64) return Number{std::fma(in[0].f, in[1].f, in[2].f), 0};
  return std::nullopt;
}

}  // namespace

Number apply(ScalarOp op, DType operand, DType result, const Number* args, std::size_t count) {
  if (op == ScalarOp::cast) return cast_number(operand, result, args[0]);
  Number in[3];
  for (std::size_t i = 0; i < count && i < 3; ++i) in[i] = args[i];
  if (const auto wide = apply_wide(op, operand, in)) return *wide;
  if (op == ScalarOp::from_bits) return {eval_scalar(op, static_cast<double>(in[0].i)), 0};
  if (!is_float(operand)) {
    const int64_t value = operand == DType::bool_ ? eval_scalar(op, in[0].i != 0, in[1].i != 0, in[2].i != 0)
                                                  : eval_scalar(op, operand, in[0].i, in[1].i, in[2].i);
    return rounded(result, {0, value});
  }
  if (op == ScalarOp::where) in[0].f = in[0].i != 0;
  const double value = eval_scalar(op, in[0].f, in[1].f, in[2].f);
  if (op == ScalarOp::to_bits) return {0, static_cast<int64_t>(value)};
  if (op == ScalarOp::round_cast) return cast_number(operand, result, {value, 0});
  return is_float(result) ? rounded(result, {value, 0}) : Number{0, value != 0};
}

Tuple identity(Combiner combiner, const TupleTypes& types) {
  Tuple out;
  std::size_t part = 0;
  for (const Constant& c : identity_constants(combiner, types)) out[part++] = make_number(c);
  return out;
}

Tuple combine(Combiner combiner, const TupleTypes& types, const Tuple& a, const Tuple& b) {
  switch (combiner) {
    case Combiner::argmax:
    case Combiner::argmin:
    case Combiner::argmax_last:
    case Combiner::argmin_last:
      return wins(combiner, types, a, b) ? b : a;
    case Combiner::welford:
      return combine_welford(types, a, b);
    case Combiner::max_sum:
      return combine_max_sum(types, a, b);
    default:
      return {arithmetic(combining_op(combiner), types[0], a[0], b[0])};
  }
}

TreeCombiner::TreeCombiner(Combiner combiner, const TupleTypes& types, Tree tree, int64_t count)
    : combiner_(combiner),
      types_(types),
      lane_count_(tree.lanes > 0 ? tree.lanes
                                 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count > 0 ? count : 1)))),
      chunk_size_(tree.chunk > 0 ? tree.chunk : (count > 0 ? count : 1)),
      count_(count),
      lanes_(static_cast<std::size_t>(lane_count_), identity(combiner, types)) {}

void TreeCombiner::add(int64_t index, const Tuple& element) {
  close_chunks_before(index / chunk_size_);
  Tuple& lane = lanes_[static_cast<std::size_t>(index % lane_count_)];
  lane = combine(combiner_, types_, lane, element);
}

void TreeCombiner::close_chunks_before(int64_t chunk) {
  while (static_cast<int64_t>(chunks_.size()) < chunk) {
    chunks_.push_back(fold_pairs(lanes_));
    lanes_.assign(lanes_.size(), identity(combiner_, types_));
  }
}

Tuple TreeCombiner::fold_pairs(std::vector<Tuple> items) const {
  while (items.size() > 1) {
    const std::size_t half = items.size() / 2;
    for (std::size_t i = 0; i < half; ++i) items[i] = combine(combiner_, types_, items[2 * i], items[2 * i + 1]);
    if (items.size() % 2) items[half] = items.back();
    items.resize(half + items.size() % 2);
  }
  return items[0];
}

Tuple TreeCombiner::finish() {
  if (count_ <= 0) return identity(combiner_, types_);
  close_chunks_before((count_ + chunk_size_ - 1) / chunk_size_);
  return fold_pairs(chunks_);
}

}  // namespace fusec::ir
