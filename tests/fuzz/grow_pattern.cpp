// SPDX-License-Identifier: Apache-2.0
// What models are made of, spelled out as exporters do.
#include <limits>
#include <numeric>

#include "tests/fuzz/grow.h"

namespace fusec::fuzz {
namespace {

using ir::ScalarOp;
using ir::TensorOp;

// Arithmetic on values; numbers take the dtype of the other side.
struct Term {
  Maker* m = nullptr;
  ValueId id;
  DType dtype() const { return id.valid() ? m->type(id).dtype : DType::f32; }
  const Shape& shape() const { return m->shape(id); }
};
Term op(ScalarOp o, Term a) { return {a.m, a.m->scalar(o, {a.id})}; }
Term op(ScalarOp o, Term a, Term b) { return {a.m, a.m->scalar(o, {a.id, b.id})}; }
Term op(ScalarOp o, Term a, double b) { return {a.m, a.m->scalar(o, {a.id, a.m->number(a.dtype(), b)})}; }
Term operator+(Term a, Term b) { return op(ScalarOp::add, a, b); }
Term operator-(Term a, Term b) { return op(ScalarOp::sub, a, b); }
Term operator*(Term a, Term b) { return op(ScalarOp::mul, a, b); }
Term operator/(Term a, Term b) { return op(ScalarOp::div, a, b); }
Term operator+(Term a, double b) { return op(ScalarOp::add, a, b); }
Term operator*(Term a, double b) { return op(ScalarOp::mul, a, b); }
Term operator/(Term a, double b) { return op(ScalarOp::div, a, b); }
Term reduce(TensorOp o, Term a, std::vector<int64_t> axes) {
  return {a.m, a.m->reduce(o, a.id, std::move(axes), true)};
}

Term value(Maker& m, int least_rank, int most_rank) { return {&m, float_value(m, least_rank, most_rank)}; }
bool good(const Term& t, int least_rank) { return t.id.valid() && t.m->rank(t.id) >= least_rank; }
int64_t last(const Term& t) { return t.m->rank(t.id) - 1; }
int64_t any_axis(const Term& t) { return t.m->random.chance(0.7) ? last(t) : t.m->random.below(last(t) + 1); }

Term softmax(Maker& m) {
  const Term x = value(m, 1, 5);
  if (!good(x, 1)) return {};
  const int64_t axis = any_axis(x);
  const Term shifted = x - reduce(TensorOp::reduce_max, x, {axis});
  if (m.random.chance(0.2) && shifted.id.valid())
    return shifted - op(ScalarOp::log, reduce(TensorOp::reduce_sum, op(ScalarOp::exp, shifted), {axis}));
  if (!shifted.id.valid()) return {};
  const Term e = op(ScalarOp::exp, shifted);
  return e.id.valid() ? e / reduce(TensorOp::reduce_sum, e, {axis}) : e;
}

Term layer_norm(Maker& m) {
  const Term x = value(m, 1, 5);
  if (!good(x, 1)) return {};
  std::vector<int64_t> axes = {any_axis(x)};
  if (last(x) > 1 && axes[0] == last(x) && m.random.chance(0.25)) axes = {last(x) - 1, last(x)};
  const Term centered = x - reduce(TensorOp::reduce_mean, x, axes);
  if (!centered.id.valid()) return {};
  Term variance;
  if (m.random.chance(0.2)) {  // E[x^2] - E[x]^2
    const Term mean = reduce(TensorOp::reduce_mean, x, axes);
    variance = op(ScalarOp::relu, reduce(TensorOp::reduce_mean, x * x, axes) - mean * mean);
  } else {
    variance = reduce(TensorOp::reduce_mean,
                      m.random.chance(0.5) ? centered * centered : op(ScalarOp::pow, centered, 2), axes);
  }
  if (!variance.id.valid()) return {};
  Term y = centered / op(ScalarOp::sqrt, variance + 0.01);
  if (!y.id.valid() || m.random.chance(0.3)) return y;
  y = y * Term{&m, m.leaf(x.dtype(), {x.shape().back()})};
  return y.id.valid() ? y + Term{&m, m.leaf(x.dtype(), {x.shape().back()})} : y;
}

Term rms_norm(Maker& m) {
  const Term x = value(m, 1, 4);
  if (!good(x, 1)) return {};
  const bool widened = x.dtype() != DType::f32 && m.random.chance(0.5);
  const Term w = widened ? Term{&m, m.cast(x.id, DType::f32)} : x;
  if (!w.id.valid()) return {};
  Term y = w * op(ScalarOp::rsqrt, reduce(TensorOp::reduce_mean, w * w, {last(w)}) + 0.01);
  if (widened && y.id.valid()) y = {&m, m.cast(y.id, x.dtype())};
  return y.id.valid() ? y * Term{&m, m.leaf(x.dtype(), {x.shape().back()})} : y;
}

Term activation(Maker& m) {
  const Term x = value(m, 0, 5);
  if (!good(x, 0)) return {};
  switch (m.random.below(6)) {
    case 0:
      return x * 0.5 * (op(ScalarOp::erf, x / 1.4142135623730951) + 1);
    case 1:
      return x * 0.5 * (op(ScalarOp::tanh, (x + x * x * x * 0.044715) * 0.7978845608028654) + 1);
    case 2:
      return x * Term{&m, m.scalar(ScalarOp::clamp, {(x + 3).id, m.number(x.dtype(), 0), m.number(x.dtype(), 6)})} / 6;
    case 3:
      return x * op(ScalarOp::sigmoid, x);
    case 4:
      return x * op(ScalarOp::tanh, op(ScalarOp::softplus, x));
    default:
      return op(ScalarOp::min, op(ScalarOp::max, x, 0), 6);
  }
}

// [b, s, h * d] -> [b, h, s, d], and back.
Term heads(Maker& m) {
  const Term x = value(m, 2, 4);
  if (!good(x, 2)) return {};
  Shape split = x.shape();
  for (const int64_t h : {2, 4, 3, 8}) {
    const auto d = split.back().exact_div(h);
    if (!d) continue;
    split.back() = h;
    split.push_back(*d);
    break;
  }
  const ValueId parts = m.reshape(x.id, split);
  if (!parts.valid() || split.size() < 3) return {};
  std::vector<int64_t> perm(split.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 3]);
  Term y{&m, m.transpose(parts, perm)};
  if (m.random.chance(0.5) || !y.id.valid()) return y;
  y = op(m.random.pick({ScalarOp::relu, ScalarOp::tanh, ScalarOp::neg}), y);
  const ValueId back = y.id.valid() ? m.transpose(y.id, perm) : ValueId{};
  return {&m, back.valid() ? m.reshape(back, x.shape()) : back};
}

// concat(-x[half:], x[:half]) * sin + x * cos
Term rotate_half(Maker& m) {
  const Term x = value(m, 1, 4);
  if (!good(x, 1)) return {};
  const auto axis = static_cast<std::size_t>(any_axis(x));
  const auto half = x.shape()[axis].exact_div(2);
  if (!half) return {};
  const ValueId low = m.slice(x.id, axis, 0, *half), high = m.slice(x.id, axis, *half, *half);
  if (!low.valid() || !high.valid()) return {};
  const Term turned{
      &m, m.node(TensorOp::concat, {m.scalar(ScalarOp::neg, {high}), low}, {{"axis", static_cast<int64_t>(axis)}})};
  if (!turned.id.valid()) return {};
  const Shape table(x.shape().end() - 1, x.shape().end());
  return turned * Term{&m, m.leaf(x.dtype(), table)} + x * Term{&m, m.leaf(x.dtype(), table)};
}

// Halves of one axis: silu(a) * b.
Term swiglu(Maker& m) {
  const Term x = value(m, 1, 4);
  if (!good(x, 1)) return {};
  const auto axis = static_cast<std::size_t>(any_axis(x));
  const auto half = x.shape()[axis].exact_div(2);
  if (!half) return {};
  const Term a{&m, m.slice(x.id, axis, 0, *half)}, b{&m, m.slice(x.id, axis, *half, *half)};
  if (!a.id.valid() || !b.id.valid()) return {};
  return a * op(ScalarOp::sigmoid, a) * b;
}

// where(i + stored >= j, x, low): of two iotas along the last two axes.
Term causal(Maker& m, const Term& x, double low, const Dim& stored = 0) {
  const Shape matrix(x.shape().end() - 2, x.shape().end());
  const auto iota = [&](int64_t axis) {
    return m.node(TensorOp::iota, {}, {{"shape", matrix}, {"axis", axis}, {"dtype", DType::i64}});
  };
  ValueId row = iota(0);
  if (!stored.is(0)) row = m.scalar(ScalarOp::add, {row, m.number(DType::i64, static_cast<double>(stored.value()))});
  const ValueId keep = m.scalar(ScalarOp::ge, {row, iota(1)});
  return {&m, m.scalar(ScalarOp::where, {keep, x.id, m.number(x.dtype(), low)})};
}

Term causal_mask(Maker& m) {
  const Term x = value(m, 2, 4);
  return good(x, 2) ? causal(m, x, -50) : Term{};
}

Term one_hot(Maker& m) {
  const ValueId index = m.indices(DType::i64, m.new_shape(1), 7);
  if (!index.valid()) return {};
  const ValueId column = m.reshape(index, {m.shape(index)[0], 1});
  if (!column.valid()) return {};
  const ValueId classes =
      m.node(TensorOp::iota, {}, {{"shape", Shape{7}}, {"axis", int64_t{0}}, {"dtype", DType::i64}});
  return {&m, m.cast(m.scalar(ScalarOp::eq, {column, classes}), DType::f32)};
}

// Scale and shift of one value per channel.
Term batch_norm(Maker& m) {
  const Term x = value(m, 3, 5);
  if (!good(x, 3)) return {};
  Shape channel(x.shape().size() - 1, Dim(1));
  channel[0] = x.shape()[1];
  const auto leaf = [&] { return Term{&m, m.leaf(x.dtype(), channel)}; };
  Term y = (x - leaf()) * leaf();
  return y.id.valid() ? op(ScalarOp::relu, y + leaf()) : y;
}

Term group_norm(Maker& m) {
  const Term x = value(m, 3, 4);
  if (!good(x, 3)) return {};
  const auto per = x.shape()[1].exact_div(2);
  if (!per) return {};
  Shape shape = {x.shape()[0], 2, *per};
  shape.insert(shape.end(), x.shape().begin() + 2, x.shape().end());
  const Term g{&m, m.reshape(x.id, shape)};
  if (!g.id.valid()) return {};
  std::vector<int64_t> axes(shape.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const Term centered = g - reduce(TensorOp::reduce_mean, g, axes);
  if (!centered.id.valid()) return {};
  const Term y = centered / op(ScalarOp::sqrt, reduce(TensorOp::reduce_mean, centered * centered, axes) + 0.01);
  return {&m, y.id.valid() ? m.reshape(y.id, x.shape()) : y.id};
}

// Round to eighths and saturate to a byte, and back.
Term quantize(Maker& m) {
  const Term x = value(m, 0, 4);
  if (!good(x, 0)) return {};
  const DType to = m.random.pick({DType::i8, DType::u8});
  const Term scaled = op(ScalarOp::round, x * 8);
  if (!scaled.id.valid()) return {};
  const double lo = to == DType::i8 ? -128 : 0, hi = to == DType::i8 ? 127 : 255;
  const ValueId q =
      m.cast(m.scalar(ScalarOp::clamp, {scaled.id, m.number(x.dtype(), lo), m.number(x.dtype(), hi)}), to);
  if (m.random.chance(0.4) || !q.valid()) return {&m, q};
  return Term{&m, m.cast(q, x.dtype())} * 0.125;
}

Term product(const Term& a, const Term& b, bool transposed) {
  return {a.m, a.m->node(TensorOp::matmul, {a.id, b.id},
                         {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}})};
}

Term softmax_of(const Term& s) {
  const Term shifted = s.id.valid() ? s - reduce(TensorOp::reduce_max, s, {last(s)}) : s;
  if (!shifted.id.valid()) return {};
  const Term e = op(ScalarOp::exp, shifted);
  return e.id.valid() ? e / reduce(TensorOp::reduce_sum, e, {last(e)}) : e;
}

Term self_attention(Maker& m) {
  const Term x = value(m, 2, 4);
  if (!good(x, 2)) return {};
  const Term scores = product(x, x, true);
  if (!scores.id.valid()) return {};
  const Term p = softmax_of(scores * 0.25);
  return p.id.valid() ? product(p, x, false) : p;
}

// Heads of `channels` channels that a projection has written side by side: [N, positions, heads * channels].
Term projected(Maker& m, DType dtype, const Dim& n, const Dim& positions, int64_t heads, int64_t channels) {
  const ValueId x = m.leaf(dtype, {n, positions, Dim(heads * channels)});
  return {&m, m.transpose(m.reshape(x, {n, positions, Dim(heads), Dim(channels)}), {0, 2, 1, 3})};
}

// Each head `times` times in a row.
Term repeated(const Term& x, int64_t times) {
  if (times == 1 || !x.id.valid()) return x;
  const Shape s = x.shape();
  const ValueId one = x.m->reshape(x.id, {s[0], s[1], 1, s[2], s[3]});
  const ValueId all = x.m->node(TensorOp::broadcast, {one}, {{"shape", Shape{s[0], s[1], Dim(times), s[2], s[3]}}});
  return {x.m, x.m->reshape(all, {s[0], s[1] * Dim(times), s[2], s[3]})};
}

// As a library or a kernel takes it, by chance: with a scale at the queries or the scores, a mask, which may be causal,
// heads that share keys.
Term attention(Maker& m) {
  if (m.random.chance(0.4)) return self_attention(m);
  const DType dtype = m.random.pick({DType::f16, DType::bf16, DType::f16, DType::f32});
  const int64_t channels = m.random.pick({8, 16, 12, 33}), shared = m.random.pick({1, 2}),
                times = m.random.pick({1, 2});
  const int64_t most = m.random.chance(0.2) ? 80 : 12;  // of positions: tiles and blocks of keys have 32 and more
  const Dim n = m.new_shape(1)[0], queries(1 + m.random.below(most));
  const Dim keys = m.random.chance(0.4) ? queries : Dim(1 + m.random.below(most));
  Term q = projected(m, dtype, n, queries, shared * times, channels);
  const Term k = repeated(projected(m, dtype, n, keys, shared, channels), times);
  const Term v = repeated(projected(m, dtype, n, keys, shared, channels), times);
  if (!q.id.valid() || !k.id.valid() || !v.id.valid()) return {};
  const bool early = m.random.chance(0.5);
  if (early) q = q * 0.25;
  if (!q.id.valid()) return {};
  Term scores = product(q, k, true);
  if (scores.id.valid() && !early) scores = scores * 0.25;
  const Dim stored = keys - queries;
  if (scores.id.valid() && stored.value() >= 0 && m.random.chance(0.7)) {
    scores = causal(m, scores, -std::numeric_limits<double>::infinity(), stored);
  } else if (scores.id.valid() && m.random.chance(0.5)) {
    scores = scores + Term{&m, m.leaf(dtype, {m.random.chance(0.5) ? n : Dim(1), 1, queries, keys})};
  }
  const Term p = softmax_of(scores);
  if (!p.id.valid()) return {};
  const Term y = product(p, v, false);
  if (!y.id.valid() || m.random.chance(0.3)) return y;
  return {&m, m.reshape(m.transpose(y.id, {0, 2, 1, 3}), {n, queries, Dim(shared * times * channels)})};
}

using Pattern = Term (*)(Maker&);
constexpr Pattern kPatterns[] = {softmax,     layer_norm, rms_norm,   activation, heads,    rotate_half, swiglu,
                                 causal_mask, one_hot,    batch_norm, group_norm, quantize, attention};

}  // namespace

ValueId pattern(Maker& m) { return kPatterns[m.random.below(std::size(kPatterns))](m).id; }

}  // namespace fusec::fuzz
