// SPDX-License-Identifier: Apache-2.0
// Random nodes: one row of the op tables after another, on values that are there or made for it.
#include "tests/fuzz/generate.h"

#include <algorithm>

#include "ir/support/check.h"
#include "tests/fuzz/grow.h"

namespace fusec::fuzz {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using ir::Type;
using ir::Typing;

const std::vector<DType> kDTypes = {DType::f64, DType::f32, DType::f16,  DType::bf16, DType::i8,
                                    DType::i16, DType::i32, DType::i64,  DType::u8,   DType::u16,
                                    DType::u32, DType::u64, DType::bool_};

bool broadcasts_to(const Shape& from, const Shape& to) {
  const auto both = ir::broadcast_shapes(from, to);
  return both.ok() && *both == to;
}

// A shape that broadcasts to `shape`: leading axes left out, others of extent 1.
Shape narrowed(Random& random, const Shape& shape) {
  Shape out(shape.begin() + random.below(random.chance(0.4) ? static_cast<int64_t>(shape.size()) + 1 : 1), shape.end());
  for (Dim& d : out)
    if (random.chance(0.25)) d = 1;
  return out;
}

// Another operand beside `x`: from the pool, a number, or a new leaf.
ValueId partner(Maker& m, ValueId x, DType dtype) {
  const Shape shape = m.shape(x);
  const double way = m.random.uniform();
  if (way < 0.2 && dtype != DType::bool_)
    return m.number(dtype, m.random.pick({0.5, 1.0, 2.0, -1.0, 3.0, 0.25, 1.7, 6.0}));
  if (way < 0.75) {
    const ValueId same = m.find([&](const Type& t) { return t.dtype == dtype && t.shape == shape; });
    const ValueId other =
        m.find([&](const Type& t) { return t.dtype == dtype && ir::broadcast_shapes(t.shape, shape).ok(); });
    if (m.random.chance(0.5) && same.valid()) return same;
    if (other.valid()) return other;
  }
  return m.leaf(dtype, narrowed(m.random, shape));
}

ValueId condition(Maker& m, ValueId like) {
  const Shape shape = m.shape(like);
  const ValueId found = m.find([&](const Type& t) { return t.dtype == DType::bool_ && broadcasts_to(t.shape, shape); });
  if (found.valid() && m.random.chance(0.6)) return found;
  const DType dtype = m.type(like).dtype;
  if (dtype != DType::bool_ && m.random.chance(0.6))
    return m.scalar(m.random.pick({ScalarOp::lt, ScalarOp::ge, ScalarOp::gt, ScalarOp::ne}),
                    {like, partner(m, like, dtype)});
  return m.leaf(DType::bool_, narrowed(m.random, shape));
}

// Operands of ops that are tested on a narrow domain are mostly brought there.
ValueId into_domain(Maker& m, ValueId v, const ir::ScalarOpInfo& row) {
  const DType dtype = m.type(v).dtype;
  if ((row.domain_lo <= -4 && row.domain_hi >= 4) || !is_float(dtype) || m.random.chance(0.15)) return v;
  const double mid = (row.domain_lo + row.domain_hi) / 2, half = (row.domain_hi - row.domain_lo) / 2;
  if (m.random.chance(0.5))
    return m.scalar(ScalarOp::clamp, {v, m.number(dtype, row.domain_lo), m.number(dtype, row.domain_hi)});
  return m.scalar(
      ScalarOp::add,
      {m.scalar(ScalarOp::mul, {m.scalar(ScalarOp::tanh, {v}), m.number(dtype, half * 0.98)}), m.number(dtype, mid)});
}

}  // namespace

ValueId any_value(Maker& m, int least_rank, int most_rank) {
  const ValueId v = m.find([&](const Type& t) { return t.rank() >= least_rank && t.rank() <= most_rank; });
  if (v.valid() && !m.random.chance(0.05)) return v;
  const int usual = static_cast<int>(m.random.weighted({0.04, 0.14, 0.28, 0.26, 0.16, 0.06, 0.02, 0.02, 0.02}));
  return m.leaf(m.number_type(), m.new_shape(std::clamp(usual, least_rank, most_rank)));
}

ValueId float_value(Maker& m, int least_rank, int most_rank) {
  const ValueId v =
      m.find([&](const Type& t) { return is_float(t.dtype) && t.rank() >= least_rank && t.rank() <= most_rank; });
  if (v.valid() && !m.random.chance(0.05)) return v;
  const DType dtype = m.number_type();
  return m.leaf(is_float(dtype) ? dtype : DType::f32,
                m.new_shape(static_cast<int>(m.random.between(least_rank, std::min(most_rank, 4)))));
}

ValueId scalar_node(Maker& m) {
  const auto rows = ir::all_scalar_ops();
  // Common ops more often than the table's share.
  static const std::vector<ScalarOp> common = {ScalarOp::add,  ScalarOp::sub, ScalarOp::mul, ScalarOp::div,
                                               ScalarOp::max,  ScalarOp::min, ScalarOp::exp, ScalarOp::where,
                                               ScalarOp::cast, ScalarOp::relu};
  const ScalarOp op = m.random.chance(0.5) ? m.random.pick(common)
                                           : static_cast<ScalarOp>(m.random.below(static_cast<int64_t>(rows.size())));
  const ir::ScalarOpInfo& row = ir::info(op);
  ValueId x = m.find([&](const Type& t) { return accepts(op, t.dtype); });
  if (!x.valid()) {
    std::vector<DType> able;
    std::copy_if(kDTypes.begin(), kDTypes.end(), std::back_inserter(able), [&](DType t) { return accepts(op, t); });
    x = m.leaf(m.random.pick(able), m.new_shape(static_cast<int>(m.random.between(1, 4))));
  }
  if (!x.valid()) return {};
  if (row.typing == Typing::cast) return m.cast(x, m.random.chance(0.6) ? m.number_type() : m.random.pick(kDTypes));
  if (row.typing == Typing::select) return m.scalar(op, {condition(m, x), x, partner(m, x, m.type(x).dtype)});
  std::vector<ValueId> operands = {into_domain(m, x, row)};
  if (!operands[0].valid()) return {};
  while (static_cast<int>(operands.size()) < row.arity) {
    // Parameters of activations are numbers.
    const bool parameter = row.is_definition && m.random.chance(0.8);
    // Numbers that rewrites of expressions look for.
    const bool special = !parameter && m.random.chance(0.1);
    const DType dtype = m.type(x).dtype;
    const ValueId other = parameter ? m.number(dtype, m.random.pick({0.1, 0.5, 1.0, 2.0}))
                          : special ? m.number(dtype, m.random.pick({0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5}))
                                    : partner(m, x, dtype);
    if (!other.valid()) return {};
    operands.push_back(parameter || special ? other : into_domain(m, other, row));
  }
  if (row.arity == 2 && m.random.chance(0.3)) std::swap(operands[0], operands[1]);
  return m.scalar(op, operands);
}

Case generate(uint64_t seed) {
  Maker m(seed);
  static const std::vector<Choice> choices = {{10, scalar_node},     {6, index_map_node}, {2.5, reduction_node},
                                              {0.5, composite_node}, {0.4, anchor_node},  {2.5, pattern}};
  std::vector<double> weights;
  for (const Choice& c : choices) weights.push_back(c.weight);
  // Some cases lean to one kind.
  weights[static_cast<std::size_t>(m.random.below(static_cast<int64_t>(weights.size())))] *=
      m.random.pick({1.0, 1.0, 3.0, 8.0});
  const std::size_t size = static_cast<std::size_t>(m.random.chance(0.5)   ? m.random.between(2, 10)
                                                    : m.random.chance(0.7) ? m.random.between(8, 24)
                                                                           : m.random.between(20, 60));
  for (int64_t n = m.random.between(1, 3); n > 0; --n) {
    const int rank = static_cast<int>(m.random.weighted({0.03, 0.12, 0.28, 0.28, 0.17, 0.06, 0.02, 0.02, 0.02}));
    m.input(m.number_type(), m.new_shape(rank));
  }
  for (std::size_t tries = 0; m.size() < size && tries < 8 * size + 20; ++tries)
    choices[m.random.weighted(weights)].grow(m);
  return m.finish();
}

}  // namespace fusec::fuzz
