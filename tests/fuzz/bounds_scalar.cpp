// SPDX-License-Identifier: Apache-2.0
// Bounds of scalar ops: the reference at sampled points of the operands' ranges. A definition counts as the expression
// that is compiled for it and, within the op table's bound, as its reference.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/ops/cast.h"
#include "ir/ops/op.h"
#include "tests/fuzz/bounds_internal.h"

namespace fusec::fuzz {
namespace {

using ir::DefNode;
using ir::Number;
using ir::ScalarOp;
using ir::Typing;

constexpr double kInf = std::numeric_limits<double>::infinity();

// -0 is below 0.
bool is_below(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

struct Samples {
  std::array<Number, 7> values;
  std::size_t count = 0;
  void add(double f) { values[count++] = Number{f, 0}; }
};

// Ends, middle, zeros inside, and NaN where the operand may be one.
Samples make_samples(DType dtype, const Range& r) {
  Samples out;
  if (!is_float(dtype)) {
    out.values = {r.at, r.lo, r.hi};
    out.count = r.lo.i == r.hi.i ? 1 : 3;
    return out;
  }
  out.add(r.at.f);
  if (!is_below(r.lo.f, r.hi.f)) return out;
  out.add(r.lo.f);
  out.add(r.hi.f);
  if (r.lo.f <= 0 && r.hi.f >= 0) {
    out.add(0.0);
    out.add(-0.0);
  }
  if (is_anything(dtype, r)) out.add(kNaN);
  return out;
}

// Ops that read the last bit of their operands' dtype get them rounded.
bool reads_rounded(ScalarOp op) {
  const Typing t = info(op).typing;
  return t == Typing::compare || t == Typing::equal || t == Typing::classify || t == Typing::cast;
}

Range rounded_to(DType dtype, const Range& r) {
  if (!is_float(dtype) || is_anything(dtype, r)) return r;
  return {ir::rounded(dtype, r.lo), ir::rounded(dtype, r.at), ir::rounded(dtype, r.hi)};
}

DType wide(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

// Whether the reference between two samples may pass both: it is not monotone, or its inverse jumps.
bool may_bulge(ScalarOp op) { return info(op).ulp > 0 || info(op).gradient.empty() || info(op).is_definition; }

// What the op repeats over: a range that holds more than one period, or the jump between two, takes all of its values.
Range periodic(ScalarOp op, DType dtype, const Range* args, Range out) {
  if (is_anything(dtype, out)) return out;
  if (op == ScalarOp::tan) {  // jumps at pi/2 + k*pi
    const auto period = [&](const Number& x) { return std::floor(x.f / std::numbers::pi - 0.5); };
    return period(args[0].lo) == period(args[0].hi) ? out : anything(dtype);
  }
  if (op == ScalarOp::sin || op == ScalarOp::cos) {
    // Whether the range holds `first` and whole turns.
    const auto holds = [&](double first) {
      const auto turns = [&](const Number& x) { return std::floor((x.f - first) / (2 * std::numbers::pi)); };
      return turns(args[0].lo) != turns(args[0].hi);
    };
    const double top = op == ScalarOp::sin ? std::numbers::pi / 2 : 0;
    if (args[0].hi.f - args[0].lo.f > 0.5) return {{-1, 0}, out.at, {1, 0}};
    return {holds(top + std::numbers::pi) ? Number{-1, 0} : out.lo, out.at, holds(top) ? Number{1, 0} : out.hi};
  }
  if (op != ScalarOp::mod && op != ScalarOp::fmod) return out;
  const Range &x = args[0], &y = args[1];
  if (y.lo.f <= 0 && y.hi.f >= 0) return y.lo.f < y.hi.f ? anything(dtype) : out;
  const double quotients[] = {x.lo.f / y.lo.f, x.lo.f / y.hi.f, x.hi.f / y.lo.f, x.hi.f / y.hi.f};
  const auto [least, most] = std::minmax_element(std::begin(quotients), std::end(quotients));
  if (std::floor(*least) == std::floor(*most) && std::isfinite(*most)) return out;
  const double top = std::max(std::fabs(y.lo.f), std::fabs(y.hi.f));
  return {{std::min(out.lo.f, -top), 0}, out.at, {std::max(out.hi.f, top), 0}};
}

Range reference_range(ScalarOp op, DType operand, DType result, const Range* args, std::size_t count) {
  std::array<Samples, 3> s;
  for (std::size_t i = 0; i < count; ++i) {
    const bool condition = info(op).typing == Typing::select && i == 0;
    s[i] = make_samples(condition ? DType::bool_ : operand, args[i]);
  }
  // Ranges that meet can be equal, though no pair of their samples is.
  if (info(op).typing == Typing::equal && is_float(operand)) {
    const double meet = std::max(args[0].lo.f, args[1].lo.f);
    if (meet <= std::min(args[0].hi.f, args[1].hi.f)) {
      for (std::size_t i = 0; i < 2; ++i)
        if (s[i].count > 1) s[i].add(meet);
    }
  }
  // 1 to the power of NaN is 1.
  if (op == ScalarOp::pow && is_float(operand) && s[0].count > 1 && args[0].lo.f <= 1 && args[0].hi.f >= 1) s[0].add(1);
  const bool casts = info(op).typing == Typing::cast;
  std::array<Number, 343> results;
  std::size_t n = 0;
  Number in[3];
  const std::size_t n1 = count > 1 ? s[1].count : 1, n2 = count > 2 ? s[2].count : 1;
  for (std::size_t i = 0; i < s[0].count; ++i)
    for (std::size_t j = 0; j < n1; ++j)
      for (std::size_t k = 0; k < n2; ++k) {
        in[0] = s[0].values[i];
        in[1] = s[1].values[j];
        in[2] = s[2].values[k];
        results[n++] = ir::apply(op, wide(operand), casts ? result : wide(result), in, count);
      }
  Range out = hull(result, results.data(), n, results[0]);
  if (n > 1 && is_float(result) && may_bulge(op) && !is_anything(result, out)) {
    const double more = (out.hi.f - out.lo.f) / 16;
    if (more > 0) out = {{out.lo.f - more, 0}, out.at, {out.hi.f + more, 0}};
  }
  return n > 1 && is_float(result) ? periodic(op, result, args, out) : out;
}

bool undecided_int(DType dtype, const Range& r) { return is_int(dtype) && r.lo.i != r.hi.i; }

Range number_range(DType dtype, double value) {
  const Number n = is_float(dtype) ? Number{value, 0} : Number{0, static_cast<int64_t>(value)};
  return {n, n, n};
}

Range op_range(ScalarOp op, DType operand, DType result, const Range* args, std::size_t count);

// The tree in the compute type, rounded after each op; its numbers are rounded to that type too.
Range definition_range(const DefNode& node, DType dtype, const Range* args) {
  if (node.kind == DefNode::Kind::operand) return args[node.operand];
  if (node.kind == DefNode::Kind::number)
    return is_float(dtype) ? with_rounding(dtype, 0, number_range(dtype, node.number))
                           : number_range(dtype, node.number);
  std::array<Range, 3> inner;
  for (std::size_t i = 0; i < node.args.size(); ++i) inner[i] = definition_range(node.args[i], dtype, args);
  return op_range(node.op, dtype, result_type(node.op, dtype, dtype), inner.data(), node.args.size());
}

Range joined(DType dtype, const Range& a, const Range& b) {
  const Number ends[] = {a.lo, a.hi, b.lo, b.hi, a.at, b.at};
  return hull(dtype, ends, 6, a.at);
}

// What a library's own form of an activation may be off beside `v`, in units of at least 1/4.
double library_bound(ScalarOp op, DType dtype, double v) {
  return (info(op).ulp + 1) * std::ldexp(std::max(std::fabs(v), 0.25), -known_bits_of(compute_type(dtype)));
}

Range with_library_bound(ScalarOp op, DType dtype, Range r) {
  if (info(op).ulp == 0 || is_anything(dtype, r)) return r;
  if (std::isfinite(r.lo.f)) r.lo.f -= library_bound(op, dtype, r.lo.f);
  if (std::isfinite(r.hi.f)) r.hi.f += library_bound(op, dtype, r.hi.f);
  return r;
}

// Whether the expression, computed in f64, is the reference: else it is a mistake in the table, and only the reference
// counts.
bool agree(ScalarOp op, DType dtype, const Range& reference, const Range& expression) {
  if (is_anything(dtype, expression) || !std::isfinite(reference.at.f) || !std::isfinite(expression.at.f)) return true;
  return std::fabs(reference.at.f - expression.at.f) <= 4 * library_bound(op, dtype, reference.at.f);
}

Range op_range(ScalarOp op, DType operand, DType result, const Range* args, std::size_t count) {
  const ir::ScalarOpInfo& row = info(op);
  std::array<Range, 3> in;
  for (std::size_t i = 0; i < count; ++i) {
    in[i] = reads_rounded(op) ? rounded_to(operand, args[i]) : args[i];
    if (row.typing != Typing::select && undecided_int(operand, in[i])) return anything(result);
  }
  Range out = reference_range(op, operand, result, in.data(), count);
  if (!is_float(result)) {
    return row.is_definition ? joined(result, out, definition_range(ir::definition(op), operand, in.data())) : out;
  }
  if (row.typing == Typing::cast) return out;
  if (op == ScalarOp::relu && out.lo.f == 0) out.lo.f = -0.0;  // a library's is x * 0 for negative x
  const bool inexact = std::any_of(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count),
                                   [](const Range& r) { return is_below(r.lo.f, r.hi.f); });
  // A factor of 0 may be in the filter of what x is a sum of.
  if (op == ScalarOp::mul && inexact && out.lo.f == 0 && out.hi.f == 0) out.lo.f = -0.0, out.hi.f = 0.0;
  // Of f64 the reference rounds where compiled code does, unless that has a filter take what is behind its sum.
  if (compute_type(result) == DType::f64 && inexact && !std::isnan(out.at.f) && !is_anything(result, out)) {
    out.lo.f = std::nextafter(out.lo.f, -kInf);
    out.hi.f = std::nextafter(out.hi.f, kInf);
  }
  if (!row.is_definition) return with_rounding(result, row.ulp, out);
  const Range compiled = definition_range(ir::definition(op), compute_type(result), in.data());
  const Range reference = with_library_bound(op, result, out);
  return with_rounding(result, 0, agree(op, result, out, compiled) ? joined(result, reference, compiled) : reference);
}

// Row-major position in an operand of row-major position i of the result, by numpy's rule.
class Broadcast {
 public:
  Broadcast(const std::vector<int64_t>& from, const std::vector<int64_t>& to) : to_(to), strides_(to.size(), 0) {
    int64_t stride = 1;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const int64_t extent = from[from.size() - 1 - i];
      if (extent != 1) strides_[to.size() - 1 - i] = stride;
      stride *= extent;
    }
  }
  int64_t at(int64_t i) const {
    int64_t position = 0;
    for (std::size_t axis = to_.size(); axis-- > 0; i /= to_[axis]) position += i % to_[axis] * strides_[axis];
    return position;
  }

 private:
  std::vector<int64_t> to_, strides_;
};

}  // namespace

Result<Bounded> scalar_bounds(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                              const std::vector<int64_t>& shape) {
  const ScalarOp op = node.op.scalar();
  const DType result = graph.type(node.output).dtype, operand = graph.type(node.inputs.back()).dtype;
  std::vector<Broadcast> maps;
  for (const Bounded& b : operands) maps.emplace_back(b.at.shape(), shape);
  FUSEC_ASSIGN(Bounded out, make_bounded(result, shape, false));
  bool exact = true;
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    std::array<Range, 3> in;
    for (std::size_t k = 0; k < operands.size(); ++k)
      in[k] = load_range(operands[k], graph.type(node.inputs[k]).dtype, maps[k].at(i));
    const Range r = op_range(op, operand, result, in.data(), operands.size());
    exact = exact && (is_float(result) ? !is_below(r.lo.f, r.hi.f) || std::isnan(r.at.f) : r.lo.i == r.hi.i);
    store_range(out, result, i, r);
  }
  return exact ? exactly(out.at) : out;
}

namespace {

// Elements of an operand that jump, or that are undecided integers; empty: none.
std::vector<bool> jumps_in(const Bounded& operand, DType dtype) {
  std::vector<bool> out = operand.jumps;
  if (is_float(dtype) || operand.exact()) return out;
  out.resize(static_cast<std::size_t>(operand.at.num_elements()));
  for (std::size_t i = 0; i < out.size(); ++i)
    if (is_anything(dtype, load_range(operand, dtype, static_cast<int64_t>(i)))) out[i] = true;
  return out;
}

bool any(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }

// Flat between its steps or on one side of one, as floor, sign and shrink, or without a gradient, as mod.
bool has_steps(const ir::Op& op) {
  if (!op.is_scalar()) return false;
  const std::string_view gradient = info(op.scalar()).gradient;
  return gradient.empty() || gradient.find("0*dy") != std::string_view::npos;
}

}  // namespace

std::vector<bool> find_jumps(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                             const Bounded& result) {
  const DType dtype = graph.type(node.output).dtype;
  std::vector<bool> out(static_cast<std::size_t>(result.at.num_elements()));
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::vector<bool> in = jumps_in(operands[k], graph.type(node.inputs[k]).dtype);
    if (!any(in)) continue;
    if (!node.op.is_scalar()) return std::vector<bool>(out.size(), true);
    const Broadcast from(operands[k].at.shape(), result.at.shape());
    for (std::size_t i = 0; i < out.size(); ++i)
      if (in[static_cast<std::size_t>(from.at(static_cast<int64_t>(i)))]) out[i] = true;
  }
  if (has_steps(node.op) && is_float(dtype) && !result.exact()) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Range r = load_range(result, dtype, static_cast<int64_t>(i));
      if (r.lo.f < r.hi.f) out[i] = true;
    }
  }
  return any(out) ? out : std::vector<bool>();
}

Range anything(DType dtype) {
  if (is_float(dtype)) return {{-kInf, 0}, {0, 0}, {kInf, 0}};
  const ir::TupleTypes types = {dtype, dtype, dtype};
  if (dtype == DType::bool_) return {{0, 0}, {0, 0}, {0, 1}};
  return {ir::identity(ir::Combiner::max, types)[0], {0, 0}, ir::identity(ir::Combiner::min, types)[0]};
}

bool is_anything(DType dtype, const Range& r) {
  return is_float(dtype) ? r.lo.f == -kInf && r.hi.f == kInf : r.lo.i != r.hi.i;
}

Range hull(DType dtype, const Number* samples, std::size_t count, const Number& at) {
  Range r{at, at, at};
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_float(dtype)) {
      if (samples[i].i != at.i) return anything(dtype);
      continue;
    }
    if (std::isnan(samples[i].f) != std::isnan(at.f)) return anything(dtype);
    if (is_below(samples[i].f, r.lo.f)) r.lo.f = samples[i].f;
    if (is_below(r.hi.f, samples[i].f)) r.hi.f = samples[i].f;
  }
  return r;
}

Range with_rounding(DType dtype, double ulp, Range r) {
  if (!is_float(dtype) || std::isnan(r.at.f) || is_anything(dtype, r)) return r;
  const DType compute = compute_type(dtype);
  if (ulp > 0) {
    // One more unit of f64 for the reference itself.
    const double units = ulp + 1;
    if (std::isfinite(r.lo.f)) r.lo.f -= units * unit_at(compute, r.lo.f);
    if (std::isfinite(r.hi.f)) r.hi.f += units * unit_at(compute, r.hi.f);
  }
  for (const DType to : {compute, dtype}) {
    r.lo.f = std::min(r.lo.f, ir::rounded(to, r.lo).f);
    r.hi.f = std::max(r.hi.f, ir::rounded(to, r.hi).f);
  }
  return r;
}

}  // namespace fusec::fuzz
