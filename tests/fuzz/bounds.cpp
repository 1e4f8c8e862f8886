// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ir/ops/cast.h"
#include "tests/fuzz/bounds_internal.h"

namespace fusec::fuzz {
namespace {

using ir::TensorOp;
using Tensors = std::vector<Tensor>;

bool decided(const Bounded& b) { return b.exact() || std::memcmp(b.lo.data(), b.hi.data(), b.lo.bytes()) == 0; }

// Zero where the range has it beside a middle that is not, else a finite value that is not zero, where there is one:
// zeros and infinities alone make NaN of what they meet.
double off_middle(const Range& r) {
  if (!(r.lo.f < r.hi.f)) return r.at.f;
  if (r.at.f != 0) return r.lo.f <= 0 && r.hi.f >= 0 ? 0 : r.at.f;
  for (const double x : {r.hi.f, r.lo.f})
    if (x != 0 && std::isfinite(x)) return x;
  return 1;
}

// One pass through the graph for each point of a float operand's ranges: middle, ends, NaN where it may be one, and a
// number that is zero where the middle is not, or the other way round. As NaN goes through every op that only moves or
// combines, the last but one finds what hangs on such elements.
Result<std::vector<Tensors>> passes(const ir::Graph& graph, const ir::Node& node,
                                    const std::vector<Bounded>& operands) {
  std::vector<Tensors> out(5);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Bounded& b = operands[i];
    out[0].push_back(b.at);
    out[1].push_back(b.lo);
    out[2].push_back(b.hi);
    if (!is_float(graph.type(node.inputs[i]).dtype)) {
      out[3].push_back(b.at);
      out[4].push_back(b.at);
      continue;
    }
    FUSEC_ASSIGN(Tensor probe, mapped(b.at, [&](int64_t k) {
                   return is_anything(DType::f64, load_range(b, DType::f64, k)) ? kNaN : b.at.as<double>()[k];
                 }));
    out[3].push_back(std::move(probe));
    FUSEC_ASSIGN(Tensor other, mapped(b.at, [&](int64_t k) { return off_middle(load_range(b, DType::f64, k)); }));
    out[4].push_back(std::move(other));
  }
  return out;
}

Result<Bounded> joined(DType dtype, const Tensors& results) {
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, results[0].shape(), false));
  for (int64_t i = 0; i < results[0].num_elements(); ++i) {
    ir::Number samples[5];
    for (std::size_t k = 0; k < 5; ++k)
      samples[k] = ir::load_number(results[k].dtype(),
                                   results[k].as<char>() + i * static_cast<int64_t>(size_of(results[k].dtype())));
    store_range(out, dtype, i, hull(dtype, samples, 5, samples[0]));
  }
  return out;
}

// Ops that only move elements, and reductions that rise with each element.
Result<Bounded> monotone(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                         const ir::SymbolBindings& symbols) {
  FUSEC_ASSIGN(const std::vector<Tensors> ins, passes(graph, node, operands));
  Tensors results;
  for (const Tensors& in : ins) {
    FUSEC_ASSIGN(Tensor result, evaluate_wide(graph, node, in, symbols));
    results.push_back(std::move(result));
  }
  return joined(graph.type(node.output).dtype, results);
}

// |at| and, unless `middle`, how far the range goes from it. Infinities count as ones: what they make is decided by
// `at`.
Result<Tensor> magnitude(const Bounded& b, bool middle) {
  return mapped(b.at, [&](int64_t i) {
    const double at = b.at.as<double>()[i], lo = b.lo.as<double>()[i], hi = b.hi.as<double>()[i];
    const double m = std::fabs(at) + (middle ? 0 : std::max(hi - at, at - lo));
    return std::isinf(at) ? 1 : m;
  });
}

Result<Tensor> of_magnitudes(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                             bool middle, const ir::SymbolBindings& symbols) {
  Tensors in;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    in.push_back(operands[i].at);
    if (!is_float(graph.type(node.inputs[i]).dtype)) continue;
    FUSEC_ASSIGN(in.back(), magnitude(operands[i], middle));
  }
  return evaluate_wide(graph, node, in, symbols);
}

bool is_scatter(const ir::Node& node) {
  return node.op == ir::Op(TensorOp::scatter_elements) || node.op == ir::Op(TensorOp::scatter_nd);
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Whether a product of some of the elements, in some order, may over- or underflow: per result. Zeros and infinities
// are left out, for what they make is the same in any order as long as nothing else becomes one.
Result<Tensor> may_leave(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                         const ir::SymbolBindings& symbols) {
  const double top = largest(compute_type(graph.type(node.output).dtype)) / 16;
  const auto side = [&](const Bounded& x, bool large) {
    return mapped(x.at, [&](int64_t i) {
      const double a = std::fabs(x.lo.as<double>()[i]), b = std::fabs(x.hi.as<double>()[i]),
                   m = large ? std::max(a, b) : std::min(a, b);
      return m == 0 || !std::isfinite(m) ? 1.0 : large ? std::max(m, 1.0) : std::min(m, 1.0);
    });
  };
  Tensors large, small;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    large.push_back(operands[i].at);
    small.push_back(operands[i].at);
    if (!is_float(graph.type(node.inputs[i]).dtype)) continue;
    FUSEC_ASSIGN(large.back(), side(operands[i], true));
    FUSEC_ASSIGN(small.back(), side(operands[i], false));
  }
  FUSEC_ASSIGN(const Tensor most, evaluate_wide(graph, node, large, symbols));
  FUSEC_ASSIGN(const Tensor least, evaluate_wide(graph, node, small, symbols));
  return mapped(most,
                [&](int64_t i) { return most.as<double>()[i] > top || least.as<double>()[i] < 1 / top ? 1.0 : 0.0; });
}

// Instructions that multiply bf16, or round to it, take denormals for zeros.
Result<Bounded> with_flushed(const Bounded& x) {
  FUSEC_ASSIGN(Bounded out, make_bounded(DType::f64, x.at.shape(), false));
  const double normal = static_cast<double>(std::numeric_limits<float>::min());
  for (int64_t i = 0; i < x.at.num_elements(); ++i) {
    Range r = load_range(x, DType::f64, i);
    if (r.lo.f < normal && r.hi.f > -normal) r = {{std::min(r.lo.f, 0.0), 0}, r.at, {std::max(r.hi.f, 0.0), 0}};
    store_range(out, DType::f64, i, r);
  }
  return out;
}

// The operands with zeros for what is not finite.
Result<std::vector<Bounded>> finite_parts(const std::vector<Bounded>& operands) {
  std::vector<Bounded> out = operands;
  for (Bounded& x : out) {
    if (x.at.dtype() != DType::f64) continue;
    for (Tensor* t : {&x.at, &x.lo, &x.hi}) {
      FUSEC_ASSIGN(
          *t, mapped(*t, [t = *t](int64_t i) { return std::isfinite(t.as<double>()[i]) ? t.as<double>()[i] : 0.0; }));
    }
  }
  return out;
}

bool all_finite(const Tensor& t) {
  return std::all_of(t.as<double>(), t.as<double>() + t.num_elements(), [](double x) { return std::isfinite(x); });
}

// NaN for each result that hangs on an element that may be anything. Where results are NaN at both ends of a range, one
// that such an element takes part in need not be NaN between them: the ends of two elements may cancel.
Result<Tensor> hanging(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                       const ir::SymbolBindings& symbols) {
  Tensors in;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Bounded& x = operands[i];
    in.push_back(x.at);
    if (!is_float(graph.type(node.inputs[i]).dtype)) continue;
    FUSEC_ASSIGN(in.back(), mapped(x.at, [&](int64_t k) {
                   return is_anything(DType::f64, load_range(x, DType::f64, k)) ? kNaN : 1.0;
                 }));
  }
  return evaluate_wide(graph, node, in, symbols);
}

// Libraries leave padding out, the evaluator multiplies zeros with what the filter has there.
bool pads_meet_specials(const ir::Node& node, const std::vector<Bounded>& operands) {
  if (!(node.op == ir::Op(TensorOp::conv))) return false;
  const std::vector<int64_t>& pads = node.attrs.ints("pads");
  return std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }) && !all_finite(operands[1].at);
}

// Tiles of bf16 (AMX) multiply what lies beside a window with zeros: NaN where that is infinite. `tiled` below.
//
// Sums and products of float elements in any order, in the compute type. With |x| <= m for the elements' magnitudes m,
// the operation f changes by at most f(m) - f(|at|) within the ranges and by terms * u * f(m) through rounding (Higham,
// Accuracy and Stability, 3.1 and 4.2).
Result<Bounded> combination(const ir::Graph& graph, const ir::Node& node, std::vector<Bounded> operands,
                            const ir::SymbolBindings& symbols) {
  const DType dtype = graph.type(node.output).dtype, compute = compute_type(dtype);
  const bool multiplies = node.op.tensor() == TensorOp::conv || node.op.tensor() == TensorOp::matmul;
  if (multiplies && dtype == DType::bf16)
    for (std::size_t i = 0; i < 2; ++i) {
      FUSEC_ASSIGN(operands[i], with_flushed(operands[i]));
    }
  FUSEC_ASSIGN(const std::vector<Tensors> ins, passes(graph, node, operands));
  FUSEC_ASSIGN(const Tensor at, evaluate_wide(graph, node, ins[0], symbols));
  FUSEC_ASSIGN(const Tensor low, evaluate_wide(graph, node, ins[1], symbols));
  FUSEC_ASSIGN(const Tensor high, evaluate_wide(graph, node, ins[2], symbols));
  FUSEC_ASSIGN(const Tensor probe, evaluate_wide(graph, node, ins[3], symbols));
  FUSEC_ASSIGN(const Tensor beside, evaluate_wide(graph, node, ins[4], symbols));
  FUSEC_ASSIGN(const Tensor most, of_magnitudes(graph, node, operands, false, symbols));
  FUSEC_ASSIGN(const Tensor middle, of_magnitudes(graph, node, operands, true, symbols));
  // In f64 the evaluator itself may overflow, to a NaN where an infinity of the other sign comes later.
  FUSEC_ASSIGN(const std::vector<Bounded> finite, finite_parts(operands));
  FUSEC_ASSIGN(const Tensor finite_most, of_magnitudes(graph, node, finite, false, symbols));
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, at.shape(), false));
  const double n = terms(graph, node, operands), u = std::ldexp(1.0, -known_bits_of(compute));
  // A factor behind a convolution goes into its 16-bit filter, which is then rounded once more (fold_affine).
  const bool refolds = dtype != compute && node.op.tensor() == TensorOp::conv && graph.is_constant(node.inputs[1]);
  const double filter = refolds ? std::ldexp(1.0, -known_bits_of(dtype)) : 0;
  const bool divides = node.op.tensor() == TensorOp::reduce_mean || node.op.tensor() == TensorOp::avg_pool;
  const bool loose_nan = pads_meet_specials(node, operands);
  const bool tiled = node.op.tensor() == TensorOp::conv && dtype == DType::bf16 && !all_finite(operands[0].at);
  Tensor leaves;
  if (node.op.tensor() == TensorOp::reduce_prod || (is_scatter(node) && node.attrs.s("reduction") == "mul")) {
    FUSEC_ASSIGN(leaves, may_leave(graph, node, operands, symbols));
  }
  FUSEC_ASSIGN(const Tensor hangs, all_finite(at) ? Result<Tensor>(at) : hanging(graph, node, operands, symbols));
  for (int64_t i = 0; i < at.num_elements(); ++i) {
    const double value = at.as<double>()[i], m = most.as<double>()[i];
    Range r{{value, 0}, {value, 0}, {value, 0}};
    const double radius = m - middle.as<double>()[i] + ((n + 2) * u + filter) * m + n * unit_at(compute, 0);
    const bool partial = leaves.data() != nullptr && leaves.as<double>()[i] != 0;
    const bool steady = same(value, low.as<double>()[i]) && same(value, high.as<double>()[i]) &&
                        (std::isfinite(value) || same(value, beside.as<double>()[i]));
    const bool overflows = !((divides ? n : 1) * finite_most.as<double>()[i] < largest(compute));
    const bool open = tiled || partial ||
                      (std::isnan(value) ? loose_nan || !steady || overflows || std::isnan(hangs.as<double>()[i])
                                         : (std::isinf(value) && !steady) || std::isnan(probe.as<double>()[i]) ||
                                               !((divides ? n : 1) * m < largest(compute)));
    if (open) {
      r = anything(dtype);
    } else if (value == 0 && radius == 0) {
      r = {{-0.0, 0}, {value, 0}, {0.0, 0}};  // sums may start at either zero
    } else if (std::isfinite(value) && n > 0) {
      r = with_rounding(dtype, 0, {{value - radius, 0}, {value, 0}, {value + radius, 0}});
    }
    store_range(out, dtype, i, r);
  }
  return out;
}

// The index of an extreme holds when the other elements cannot reach it.
Result<Bounded> arg_extreme(const ir::Graph& graph, const ir::Node& node, const Bounded& x,
                            const ir::SymbolBindings& symbols) {
  FUSEC_ASSIGN(const Tensor at, evaluate_wide(graph, node, {x.at}, symbols));
  if (decided(x)) return exactly(at);
  const bool largest_wins = node.op.tensor() == TensorOp::argmax;
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const auto axis = static_cast<std::size_t>(node.attrs.i("axis"));
  int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.at.shape().size(); ++i) inner *= x.at.shape()[i];
  const int64_t extent = x.at.shape()[axis];
  FUSEC_ASSIGN(Bounded out, make_bounded(DType::i64, at.shape(), false));
  for (int64_t i = 0; i < at.num_elements(); ++i) {
    const int64_t best = at.as<int64_t>()[i], first = i / inner * extent * inner + i % inner;
    bool holds = true;
    const Range top = load_range(x, dtype, first + best * inner);
    for (int64_t k = 0; k < extent && holds; ++k) {
      const Range other = load_range(x, dtype, first + k * inner);
      if (k == best || (other.lo.f == other.hi.f && top.lo.f == top.hi.f && is_float(dtype))) continue;
      if (!is_float(dtype)) {
        holds = other.lo.i == other.hi.i && top.lo.i == top.hi.i;
      } else if (is_anything(dtype, other) || is_anything(dtype, top)) {
        holds = false;
      } else if (!std::isnan(top.at.f) && !std::isnan(other.at.f)) {
        holds = largest_wins ? ir::rounded(dtype, top.lo).f > ir::rounded(dtype, other.hi).f
                             : ir::rounded(dtype, top.hi).f < ir::rounded(dtype, other.lo).f;
      }
    }
    const ir::Number n{0, best};
    store_range(out, DType::i64, i, holds ? Range{n, n, n} : anything(DType::i64));
  }
  return out;
}

// Whether it is certain which of two elements is the greater one, or that they are equal.
bool is_order_certain(DType dtype, const Range& a, const Range& b) {
  if (!is_float(dtype)) return a.lo.i == a.hi.i && b.lo.i == b.hi.i;
  if (is_anything(dtype, a) || is_anything(dtype, b)) return false;
  if (std::isnan(a.at.f) || std::isnan(b.at.f) || (a.lo.f == a.hi.f && b.lo.f == b.hi.f)) return true;
  return ir::rounded(dtype, a.lo).f > ir::rounded(dtype, b.hi).f ||
         ir::rounded(dtype, a.hi).f < ir::rounded(dtype, b.lo).f;
}

// A place in order holds when every other element is certain to come before or after.
Result<Bounded> topk(const ir::Graph& graph, const ir::Node& node, const Bounded& x,
                     const ir::SymbolBindings& symbols) {
  FUSEC_ASSIGN(const Tensor at, evaluate_wide(graph, node, {x.at}, symbols));
  if (decided(x)) return exactly(at);
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const auto axis = static_cast<std::size_t>(node.attrs.i("axis"));
  const int64_t extent = x.at.shape()[axis], k = at.shape()[axis];
  int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.at.shape().size(); ++i) inner *= x.at.shape()[i];
  FUSEC_ASSIGN(Bounded out, make_bounded(DType::i64, at.shape(), false));
  for (int64_t i = 0; i < at.num_elements(); ++i) {
    const int64_t own = at.as<int64_t>()[i], first = i / inner / k * extent * inner + i % inner;
    const Range self = load_range(x, dtype, first + own * inner);
    bool holds = true;
    for (int64_t j = 0; j < extent && holds; ++j)
      holds = j == own || is_order_certain(dtype, self, load_range(x, dtype, first + j * inner));
    const ir::Number n{0, own};
    store_range(out, DType::i64, i, holds ? Range{n, n, n} : anything(DType::i64));
  }
  return out;
}

bool is_combination(const ir::Node& node) {
  const TensorOp op = node.op.tensor();
  if (is_scatter(node)) return node.attrs.s("reduction") == "add" || node.attrs.s("reduction") == "mul";
  return op == TensorOp::reduce_sum || op == TensorOp::reduce_mean || op == TensorOp::reduce_prod ||
         op == TensorOp::cumsum || op == TensorOp::conv || op == TensorOp::matmul || op == TensorOp::avg_pool;
}

Result<Bounded> everything(DType dtype, const std::vector<int64_t>& shape) {
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, shape, false));
  for (int64_t i = 0; i < out.at.num_elements(); ++i) store_range(out, dtype, i, anything(dtype));
  return out;
}

Result<Bounded> tensor_bounds(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                              const ir::SymbolBindings& symbols, const Tensor& at) {
  const DType dtype = graph.type(node.output).dtype;
  const TensorOp op = node.op.tensor();
  const bool moves = info(op).kind == ir::OpPattern::index_map;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    // Undecided indices may point anywhere, undecided integers may sum up to anything.
    const bool index = moves && i > 0 && op != TensorOp::pad && op != TensorOp::concat;
    if (is_float(graph.type(node.inputs[i]).dtype) || decided(operands[i]) || (moves && !index)) continue;
    return everything(dtype, at.shape());
  }
  if (op == TensorOp::argmax || op == TensorOp::argmin) return arg_extreme(graph, node, operands[0], symbols);
  if (op == TensorOp::topk) return topk(graph, node, operands[0], symbols);
  if (is_combination(node) && is_float(dtype)) return combination(graph, node, operands, symbols);
  if (std::all_of(operands.begin(), operands.end(), decided)) {
    const bool makes_digits = !moves && !is_scatter(node) && is_float(dtype);
    if (!makes_digits && op != TensorOp::iota && op != TensorOp::dim) return exactly(at);
  }
  if (operands.empty()) {  // numbers of an index, perhaps past the digits of the dtype
    FUSEC_ASSIGN(Bounded out, make_bounded(dtype, at.shape(), false));
    for (int64_t i = 0; i < at.num_elements(); ++i)
      store_range(out, dtype, i, with_rounding(dtype, 0, load_range(exactly(at), dtype, i)));
    return out;
  }
  FUSEC_ASSIGN(Bounded out, monotone(graph, node, operands, symbols));
  if (op != TensorOp::max_pool || !is_float(dtype)) return out;
  for (int64_t i = 0; i < at.num_elements(); ++i) {  // a library may take either zero
    Range r = load_range(out, dtype, i);
    if (r.lo.f == 0 && r.hi.f == 0) store_range(out, dtype, i, {{-0.0, 0}, r.at, {0.0, 0}});
  }
  return out;
}

}  // namespace

Bounded exactly(Tensor value) { return {value, value, value, {}}; }

double terms(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands) {
  const std::vector<int64_t>& x = operands[0].at.shape();
  const auto count = [](const std::vector<int64_t>& shape) {
    double n = 1;
    for (const int64_t e : shape) n *= static_cast<double>(e);
    return n;
  };
  if (node.op.tensor() == TensorOp::conv) {
    const std::vector<int64_t>& filter = operands[1].at.shape();
    return count(filter) / static_cast<double>(std::max<int64_t>(filter[0], 1)) + 1;
  }
  if (node.op.tensor() == TensorOp::matmul) {
    const bool first = node.attrs.i("transpose_a") == 1 && x.size() > 1;
    return static_cast<double>(first ? x[x.size() - 2] : x.back());
  }
  double n = 1;
  if (is_scatter(node)) {
    n += count(operands[1].at.shape());
  } else if (node.attrs.find("axes") != nullptr) {
    for (const int64_t a : node.attrs.ints("axes")) n *= static_cast<double>(x[static_cast<std::size_t>(a)]);
  } else if (node.attrs.find("axis") != nullptr) {
    n = static_cast<double>(x[static_cast<std::size_t>(node.attrs.i("axis"))]);
  } else {
    for (const int64_t k : node.attrs.ints("kernel")) n *= static_cast<double>(k);
  }
  (void)graph;
  return n;
}

bool is_behind(const ir::Graph& graph, ir::ValueId from, const std::vector<ir::Op>& ops) {
  std::set<ir::ValueId> seen;
  std::vector<ir::ValueId> open = {from};
  while (!open.empty()) {
    const ir::ValueId v = open.back();
    open.pop_back();
    const ir::Node* node = graph.producer(v);
    if (node == nullptr || !seen.insert(v).second) continue;
    if (std::find(ops.begin(), ops.end(), node->op) != ops.end()) return true;
    const bool is_view =
        !node->op.is_scalar() && (node->op.tensor() == TensorOp::reshape || node->op.tensor() == TensorOp::transpose);
    if (node->op.is_scalar() || is_view) open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return false;
}

bool is_behind_product(const ir::Graph& graph, ir::ValueId from) {
  return is_behind(graph, from, {ir::Op(TensorOp::conv), ir::Op(TensorOp::matmul)});
}

namespace {

bool is_known(const ir::Graph& graph, ir::ValueId v) {
  const ir::Node* node = graph.producer(v);
  return node != nullptr &&
         std::all_of(node->inputs.begin(), node->inputs.end(), [&](ir::ValueId in) { return is_known(graph, in); });
}

// A constant that is added behind a convolution or product goes into its bias, and what the sum is multiplied with goes
// there, too (fold_affine): the product of both is rounded before the sum.
Result<Bounded> with_rounded_bias(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                                  Bounded sum, const ir::SymbolBindings& symbols) {
  const DType dtype = graph.type(node.output).dtype;
  if (!is_float(dtype) || (node.op != ir::Op(ir::ScalarOp::add) && node.op != ir::Op(ir::ScalarOp::sub))) return sum;
  const bool first = is_known(graph, node.inputs[0]), second = is_known(graph, node.inputs[1]);
  if (first == second || !is_behind_product(graph, node.inputs[first ? 1 : 0])) return sum;
  std::vector<Tensor> without{operands[0].at, operands[1].at};
  Tensor& product = without[first ? 1 : 0];
  FUSEC_ASSIGN(product, mapped(product, [](int64_t) { return 0.0; }));
  FUSEC_ASSIGN(const Tensor bias, evaluate_wide(graph, node, without, symbols));
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, sum.at.shape(), false));
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(sum, dtype, i);
    const double more = std::ldexp(std::fabs(bias.as<double>()[i]), -known_bits_of(dtype) - 1);
    if (std::isfinite(r.at.f) && !is_anything(dtype, r)) r = {{r.lo.f - more, 0}, r.at, {r.hi.f + more, 0}};
    store_range(out, dtype, i, r);
  }
  return out;
}

}  // namespace

Result<Bounded> evaluate_bounds(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                                const ir::SymbolBindings& symbols) {
  Tensors middle;
  for (const Bounded& b : operands) middle.push_back(b.at);
  FUSEC_ASSIGN(const Tensor at, evaluate_wide(graph, node, middle, symbols));
  if (node.op == ir::Op(TensorOp::constant)) return exactly(at);
  if (node.op.is_scalar()) {
    FUSEC_ASSIGN(Bounded out, scalar_bounds(graph, node, operands, at.shape()));
    FUSEC_ASSIGN(out, with_rounded_bias(graph, node, operands, std::move(out), symbols));
    // oneDNN computes sigmoids from exp(-|x|), which it makes 0 below the smallest normal number.
    const DType dtype = graph.type(node.output).dtype;
    const bool is_sigmoid = node.op == ir::Op(ir::ScalarOp::sigmoid) || node.op == ir::Op(ir::ScalarOp::silu);
    const bool flushes = dtype == DType::bf16 || (dtype == DType::f32 && is_sigmoid);
    return flushes && is_behind_product(graph, node.output) ? with_flushed(out) : out;
  }
  return tensor_bounds(graph, node, operands, symbols, at);
}

Result<Bounded> input_bounds(const Tensor& input) {
  FUSEC_ASSIGN(Tensor dense, ir::contiguous(input));
  FUSEC_ASSIGN(Tensor stored, ir::round_to(dense, storage_of(dense.dtype())));
  return exactly(std::move(stored));
}

Result<std::vector<Bounded>> evaluate_bounds(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                             Numerics numerics, bool on_gpu) {
  FUSEC_ASSIGN(const ir::SymbolBindings symbols, ir::bind_symbols(graph, inputs));
  ir::IdVector<ir::ValueId, Bounded> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    FUSEC_ASSIGN(values[graph.inputs[i]], input_bounds(inputs[i]));
  }
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.nodes[id];
    std::vector<Bounded> operands;
    for (const ir::ValueId v : node.inputs) operands.push_back(values[v]);
    FUSEC_ASSIGN(values[node.output], evaluate_bounds(graph, node, operands, symbols));
    FUSEC_ASSIGN(values[node.output],
                 with_library(graph, node, operands, numerics, on_gpu, symbols, std::move(values[node.output])));
    values[node.output].jumps = find_jumps(graph, node, operands, values[node.output]);
  }
  std::vector<Bounded> out;
  for (const ir::ValueId v : graph.outputs) out.push_back(values[v]);
  return out;
}

Result<Tensor> evaluate_wide(const ir::Graph& graph, const ir::Node& node, const std::vector<Tensor>& operands,
                             const ir::SymbolBindings& symbols) {
  ir::EvalOptions options;
  options.wide = true;
  options.symbols = symbols;
  return ir::evaluate_node(graph, node, operands, options);
}

}  // namespace fusec::fuzz
