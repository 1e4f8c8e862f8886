// SPDX-License-Identifier: Apache-2.0
// Emits resizing in the import stage, one axis after another: the position of each result among the operand's elements
// (in f64), the elements it takes from there, and their weights. Positions and weights are constants where extents are.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

namespace {

std::size_t at(int64_t axis) { return static_cast<std::size_t>(axis); }

// An extent in f64, rank 0.
Val make_number(Builder& b, const Dim& d) {
  if (d.is_const()) return b.scalar(DType::f64, static_cast<double>(d.value()));
  return cast(b, b.integers(DType::i64, {}, {d}), DType::f64);
}

// Emits 0, 1, ... in f64. A short sequence is a constant, so that positions computed from it are folded.
Val counted(Builder& b, const Dim& n) {
  constexpr int64_t kMaxKnown = 16384;
  if (!n.is_const() || n.value() > kMaxKnown) return iota(b, {n}, 0, DType::f64);
  Tensor values = make_tensor(DType::f64, {n.value()});
  for (int64_t i = 0; i < n.value(); ++i) store_f64(values, i, static_cast<double>(i));
  return b.constant(std::move(values));
}

// x / scale
Val unscaled(Builder& b, const ResizedAxis& a, Val x) {
  return a.scale ? div(b, x, b.scalar(DType::f64, *a.scale))
                 : div(b, mul(b, x, make_number(b, a.in)), make_number(b, a.out));
}

// The result length in * scale, which need not be an integer.
Val length(Builder& b, const ResizedAxis& a) {
  return a.scale ? mul(b, make_number(b, a.in), *a.scale) : make_number(b, a.out);
}

Val longer_than_one(Builder& b, const ResizedAxis& a, Val then, Val otherwise) {
  return b.emit(ScalarOp::where, {binary(b, ScalarOp::gt, length(b, a), b.scalar(DType::f64, 1)), then, otherwise});
}

// Position i of the result among those of the operand; l: length of the operand, n: of the result, s: n / l.
//
//   align_corners         n == 1 ? 0 : i (l-1) / (n-1)
//   asymmetric            i / s
//   tf_half_pixel_for_nn  (i + 1/2) / s
//   half_pixel            (i + 1/2) / s - 1/2
//   pytorch_half_pixel    n > 1 ? (i + 1/2) / s - 1/2 : 0
//   half_pixel_symmetric  l/2 (1 - floor(n)/n) + (i + 1/2) / s - 1/2
//   tf_crop_and_resize    n > 1 ? (start (n-1-i) + end i) (l-1) / (n-1) : (start+end) (l-1) / 2
Val position(Builder& b, const ResizedAxis& a, const std::string& mode) {
  Val i = counted(b, a.out), zero = b.scalar(DType::f64, 0), last = add(b, make_number(b, a.in), -1);
  if (mode == "asymmetric") return unscaled(b, a, i);
  if (mode == "align_corners" || mode == "tf_crop_and_resize") {
    const bool crops = mode == "tf_crop_and_resize";
    const Val steps = add(b, length(b, a), -1);
    if (!crops) {
      const Val is_one = binary(b, ScalarOp::eq, steps, zero);
      return b.emit(ScalarOp::where, {is_one, zero, div(b, mul(b, i, last), steps)});
    }
    // This order of operations makes start and end themselves exact.
    const Val mixed = add(b, mul(b, sub(b, steps, i), a.start), mul(b, i, a.end));
    return longer_than_one(b, a, div(b, mul(b, mixed, last), steps), mul(b, last, (a.start + a.end) / 2));
  }
  const Val middle = unscaled(b, a, add(b, i, 0.5));
  if (mode == "tf_half_pixel_for_nn") return middle;
  const Val half_pixel = add(b, middle, -0.5);
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return longer_than_one(b, a, half_pixel, zero);
  if (mode == "half_pixel_symmetric") {
    if (!a.scale) return half_pixel;
    const Val excess = sub(b, b.scalar(DType::f64, 1), div(b, make_number(b, a.out), length(b, a)));
    return add(b, mul(b, mul(b, make_number(b, a.in), 0.5), excess), half_pixel);
  }
  fail_invalid(fmt::format("coordinate_transformation_mode '{}'", mode));
}

// Clamps a position to the operand and casts it to an index.
Val clamped(Builder& b, const ResizedAxis& a, Val x) {
  const Val last = add(b, make_number(b, a.in), -1);
  x = binary(b, ScalarOp::max, binary(b, ScalarOp::min, x, last), b.scalar(DType::f64, 0));
  return cast(b, x, DType::i64);
}

Val nearest_index(Builder& b, const ResizedAxis& a, const ResizeRules& rules, Val x) {
  const std::string& mode = rules.nearest;
  if (mode == "round_prefer_floor") return clamped(b, a, unary(b, ScalarOp::ceil, add(b, x, -0.5)));
  if (mode == "round_prefer_ceil") return clamped(b, a, unary(b, ScalarOp::floor, add(b, x, 0.5)));
  if (mode == "floor") return clamped(b, a, unary(b, ScalarOp::floor, x));
  if (mode == "ceil") return clamped(b, a, unary(b, ScalarOp::ceil, x));
  fail_invalid(fmt::format("nearest_mode '{}'", mode));
}

// Returns s if nearest resizing only repeats each element s times. For asymmetric positions, i / s rounded down is i
// div s. For half pixels, the centers of the s parts of an element lie less than 1/2 from its own center.
std::optional<int64_t> repetition(const ResizedAxis& a, const ResizeRules& rules) {
  std::optional<Dim> factor = a.out.exact_div(a.in);
  if (!factor || !factor->is_const() || factor->value() < 1) return std::nullopt;
  const int64_t s = factor->value();
  if (a.scale && *a.scale != static_cast<double>(s)) return std::nullopt;
  const bool rounds = rules.nearest == "round_prefer_floor" || rules.nearest == "round_prefer_ceil";
  const std::string& mode = rules.coordinates;
  if (mode == "asymmetric" && rules.nearest == "floor") return s;
  if ((mode == "half_pixel" || mode == "half_pixel_symmetric") && rounds) return s;
  return mode == "tf_half_pixel_for_nn" && rules.nearest == "floor" ? std::optional(s) : std::nullopt;
}

Val repeated(Builder& b, Val x, int64_t axis, int64_t times) {
  Shape split = b.shape(x), wide = split, result = split;
  result[at(axis)] = result[at(axis)] * times;
  split.insert(split.begin() + axis + 1, Dim(1));
  wide.insert(wide.begin() + axis + 1, Dim(times));
  return reshape(b, broadcast(b, reshape(b, x, split), wide), result);
}

// x[..., index[i], ...], as a slice where the indices are known and evenly spaced.
Val picked(Builder& b, Val x, int64_t axis, Val index) {
  if (const Tensor* known = b.data(index); known != nullptr && known->num_elements() > 0) {
    const int64_t n = known->num_elements(), first = load_i64(*known, 0),
                  step = n > 1 ? load_i64(*known, 1) - first : 1;
    bool even = step > 0;
    for (int64_t i = 0; i < n && even; ++i) even = load_i64(*known, i) == first + i * step;
    if (even) return slice(b, x, axis, first, n, step);
  }
  return b.emit(TensorOp::gather, {x, index}, {{"axis", axis}});
}

// For each result, the index and weight of one element of the operand.
struct Tap {
  Val index, weight;
};

// The cubic convolution kernel of parameter a at a distance from 0 to 2 (Keys 1981, equation 4).
//   |d| <= 1: (a+2)|d|^3 - (a+3)|d|^2 + 1;  else a (|d|^3 - 5|d|^2 + 8|d| - 4), by Horner
Val cubic_weight(Builder& b, Val d, double a) {
  const Val near = add(b, mul(b, mul(b, d, d), add(b, mul(b, d, a + 2), -(a + 3))), 1);
  const Val far = mul(b, add(b, mul(b, add(b, mul(b, add(b, d, -5), d), 8), d), -4), a);
  const Val zero = b.scalar(DType::f64, 0), one = b.scalar(DType::f64, 1), two = b.scalar(DType::f64, 2);
  const Val outer = b.emit(ScalarOp::where, {binary(b, ScalarOp::lt, d, two), far, zero});
  return b.emit(ScalarOp::where, {binary(b, ScalarOp::le, d, one), near, outer});
}

// 1 - |d|, 0 beyond 1.
Val linear_weight(Builder& b, Val d) {
  const Val weight = sub(b, b.scalar(DType::f64, 1), d);
  return binary(b, ScalarOp::max, weight, b.scalar(DType::f64, 0));
}

// The scale by which filters are stretched: below 1 only with antialias.
double filter_scale(const ResizedAxis& a, const ResizeRules& rules) {
  if (!rules.antialias) return 1;
  if (a.scale) return std::min(1.0, *a.scale);
  if (!a.in.is_const() || !a.out.is_const()) fail_unsupported("antialias where extents are not known");
  return std::min(1.0, static_cast<double>(a.out.value()) / static_cast<double>(a.in.value()));
}

// The elements within the filter around x, each weighted by its distance.
std::vector<Tap> taps_around(Builder& b, const ResizedAxis& a, const ResizeRules& rules, Val x) {
  constexpr int64_t kMaxTaps = 4096;
  const bool cubic = rules.mode == "cubic";
  const double scale = filter_scale(a, rules), reach = std::ceil((cubic ? 2 : 1) / scale);
  if (!(2 * reach <= kMaxTaps)) fail_unsupported(fmt::format("antialias over {} elements", 2 * reach));
  const Val below = unary(b, ScalarOp::floor, x), beyond = sub(b, x, below), last = add(b, make_number(b, a.in), -1);
  const Val zero = b.scalar(DType::f64, 0);
  std::vector<Tap> taps;
  Val sum;
  for (double offset = 1 - reach; offset <= reach; ++offset) {
    const Val where = add(b, below, offset);
    Val distance = unary(b, ScalarOp::abs, sub(b, b.scalar(DType::f64, offset), beyond));
    if (scale < 1) distance = mul(b, distance, scale);
    Val weight = cubic ? cubic_weight(b, distance, rules.cubic_a) : linear_weight(b, distance);
    if (rules.exclude_outside) {
      const Val inside =
          binary(b, ScalarOp::and_, binary(b, ScalarOp::ge, where, zero), binary(b, ScalarOp::le, where, last));
      weight = b.emit(ScalarOp::where, {inside, weight, zero});
    }
    sum = sum.valid() ? add(b, sum, weight) : weight;
    taps.push_back({clamped(b, a, where), weight});
  }
  if (!rules.exclude_outside && scale == 1) return taps;  // the weights add up to 1
  for (Tap& tap : taps) tap.weight = div(b, tap.weight, sum);
  return taps;
}

// The sum of weight * x[index] in `dtype`. The gathered elements keep their own type, so that they need not be stored
// wider.
Val interpolated(Builder& b, Val x, int64_t axis, const std::vector<Tap>& taps, DType dtype) {
  constexpr std::size_t kMaxUnrolled = 8;
  const int64_t rank = b.rank(x);
  if (taps.size() <= kMaxUnrolled) {
    Val sum;
    for (const Tap& tap : taps) {
      const Val weight = along_axis(b, cast(b, tap.weight, dtype), axis, rank);
      const Val part = mul(b, cast(b, picked(b, x, axis, tap.index), dtype), weight);
      sum = sum.valid() ? add(b, sum, part) : part;
    }
    return sum;
  }
  std::vector<Val> indices, weights;
  const Dim n = b.shape(taps[0].index)[0];
  for (const Tap& tap : taps) {
    indices.push_back(reshape(b, tap.index, {n, 1}));
    weights.push_back(reshape(b, cast(b, tap.weight, dtype), {n, 1}));
  }
  Shape spread(at(rank - axis + 1), Dim(1));
  spread[0] = n;
  spread[1] = static_cast<int64_t>(taps.size());
  const Val parts = b.emit(TensorOp::gather, {x, concat(b, indices, 1)}, {{"axis", axis}});
  return reduce(b, TensorOp::reduce_sum, mul(b, cast(b, parts, dtype), reshape(b, concat(b, weights, 1), spread)),
                {axis + 1}, false);
}

bool stays(const ResizedAxis& a, const ResizeRules& rules) {
  return a.in == a.out && (!a.scale || *a.scale == 1) && (!rules.crops() || (a.start == 0 && a.end == 1));
}

// The interpolating modes compute in f64 for integers, which are rounded at the end.
DType resize_type(DType dtype, const ResizeRules& rules) {
  if (rules.mode == "nearest") return dtype;
  return is_float(dtype) ? compute_type(dtype) : DType::f64;
}

Val resized(Builder& b, Val x, const ResizedAxis& a, const ResizeRules& rules, Val where, DType dtype) {
  if (rules.mode != "nearest") return interpolated(b, x, a.axis, taps_around(b, a, rules, where), dtype);
  if (std::optional<int64_t> times = repetition(a, rules)) return repeated(b, x, a.axis, *times);
  return picked(b, x, a.axis, nearest_index(b, a, rules, where));
}

}  // namespace

Val resize(Builder& b, Val x, const std::vector<ResizedAxis>& axes, const ResizeRules& rules) {
  const DType dtype = b.dtype(x);
  Val y = x;
  std::vector<std::pair<int64_t, Val>> outside;
  for (const ResizedAxis& a : axes) {
    if (stays(a, rules)) continue;
    if (a.in.is(0) && !a.out.is(0))
      fail_invalid(fmt::format("axis {} has no elements to make {} of", a.axis, a.out.str()));
    const Val where = position(b, a, rules.coordinates);
    y = resized(b, y, a, rules, where, resize_type(dtype, rules));
    if (!rules.crops()) continue;
    const Val last = add(b, make_number(b, a.in), -1);
    outside.emplace_back(a.axis, binary(b, ScalarOp::or_, binary(b, ScalarOp::lt, where, b.scalar(DType::f64, 0)),
                                        binary(b, ScalarOp::gt, where, last)));
  }
  if (b.dtype(y) != dtype) y = cast(b, is_float(dtype) ? y : unary(b, ScalarOp::round, y), dtype);
  for (const auto& [axis, mask] : outside) {
    y = b.emit(ScalarOp::where, {along_axis(b, mask, axis, b.rank(y)), b.scalar(dtype, rules.extrapolation), y});
  }
  return y;
}

}  // namespace fusec::importer
