// SPDX-License-Identifier: Apache-2.0
// Compares an output with its reference, as a whole by relative L2 error and element by element: NaN and infinity must
// be in the same places, and a constant or vanishing reference fails because it checks nothing. The reference evaluator
// runs a model's graph as imported and does not use the compiler's later stages.

#include "runtime/tool/measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/eval/graph.h"
#include "ir/ops/element.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {
namespace {

constexpr int64_t kChunk = 4096;
constexpr double kVanishing = 1e-6;

struct FloatFormat {
  int digits, min_exponent;  // of the significand; of the smallest normal number as std::ilogb says
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {53, -1022};
    case DType::f16:
      return {11, -14};
    case DType::bf16:
      return {8, -126};
    default:
      return {24, -126};
  }
}

// The distance of neighbouring numbers at x.
double unit_in_last_place(double x, const FloatFormat& format) {
  const int exponent = x == 0 ? format.min_exponent : std::max(std::ilogb(x), format.min_exponent);
  return std::ldexp(1.0, exponent - format.digits + 1);
}

struct Sums {
  double difference = 0, reference = 0;
  int64_t misplaced = 0;  // NaN or Inf on one side alone, or of other sign
  int64_t unequal = 0;
  bool constant = true;
};

void add_float(double got, double ref, const FloatFormat& format, Sums& sums, OutputDiff& diff) {
  if (!std::isfinite(ref) || !std::isfinite(got)) {
    const bool same = std::isnan(ref) ? std::isnan(got) : got == ref;
    sums.misplaced += !same;
    return;
  }
  const double delta = std::abs(got - ref);
  sums.difference += delta * delta;
  sums.reference += ref * ref;
  diff.max_abs = std::max(diff.max_abs, delta);
  if (delta != 0) diff.max_ulp = std::max(diff.max_ulp, delta / unit_in_last_place(ref, format));
}

template <class T>
Sums sum_up(const Tensor& got, const Tensor& reference, OutputDiff& diff) {
  Sums sums;
  const FloatFormat format = format_of(reference.dtype());
  const int64_t n = reference.num_elements();
  T a[kChunk], b[kChunk], first{};
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    ir::load_elements(got.dtype(), got.data(), begin, 1, count, a);
    ir::load_elements(reference.dtype(), reference.data(), begin, 1, count, b);
    if (begin == 0) first = b[0];
    for (int64_t i = 0; i < count; ++i) {
      sums.constant &= std::memcmp(&b[i], &first, sizeof first) == 0;
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      if constexpr (std::is_floating_point_v<T>) {
        add_float(x, y, format, sums, diff);
      } else if (a[i] != b[i]) {
        ++sums.unequal;
        sums.difference += (x - y) * (x - y);
        diff.max_abs = std::max(diff.max_abs, std::max(1.0, std::abs(x - y)));
      }
      if (!std::is_floating_point_v<T>) sums.reference += y * y;
    }
  }
  if (!std::is_floating_point_v<T>) diff.max_ulp = diff.max_abs;
  return sums;
}

std::string type_text(const Tensor& tensor) {
  std::string out = to_string(tensor.dtype());
  for (const int64_t extent : tensor.shape()) out += fmt::format("{}{}", out.back() == ']' ? "" : " ", extent);
  return out;
}

std::string broken_rule(const Tensor& reference, const Sums& sums, const OutputDiff& diff, double tolerance) {
  if (sums.misplaced > 0) return fmt::format("NaN or Inf differ in {} places", sums.misplaced);
  if (sums.unequal > 0) return fmt::format("{} of {} elements differ", sums.unequal, reference.num_elements());
  if (!(diff.rel_l2 <= tolerance)) return fmt::format("rel_l2 {:.3g} > {:.3g}", diff.rel_l2, tolerance);
  if (reference.num_elements() > 1 && sums.constant) return "the reference is constant: it checks nothing";
  if (is_float(reference.dtype()) && diff.ref_rms < kVanishing)
    return "the reference vanishes (RMS < 1e-6): it checks nothing";
  return {};
}

template <class T>
ElementDiff worst_element(const Tensor& got, const Tensor& reference, double rtol, double atol, double half_ulps) {
  ElementDiff diff;
  const FloatFormat format = format_of(reference.dtype());
  const bool is_16_bit_float = reference.dtype() == DType::f16 || reference.dtype() == DType::bf16;
  for (int64_t i = 0; i < reference.num_elements(); ++i) {
    T a, b;
    ir::load_elements(got.dtype(), got.data(), i, 1, 1, &a);
    ir::load_elements(reference.dtype(), reference.data(), i, 1, 1, &b);
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    bool near = a == b || (std::isnan(x) && std::isnan(y));
    if (std::is_floating_point_v<T> && !near && std::isfinite(x) && std::isfinite(y)) {
      const double ulps = std::abs(x - y) / unit_in_last_place(y, format);
      near = std::abs(x - y) <= atol + rtol * std::abs(y) || (is_16_bit_float && ulps <= half_ulps);
      diff.max_ulp = std::max(diff.max_ulp, ulps);
    }
    if (!near && diff.why.empty()) diff.why = fmt::format("element {} is {}, expected {}", i, x, y);
  }
  return diff;
}

}  // namespace

ElementDiff compare_elements(const Tensor& got, const Tensor& reference, double rtol, double atol, double half_ulps) {
  if (got.dtype() != reference.dtype() || got.shape() != reference.shape()) {
    return {fmt::format("it is {}, expected {}", type_text(got), type_text(reference))};
  }
  return ir::visit_compute(reference.dtype(),
                           [&]<class T>(T) { return worst_element<T>(got, reference, rtol, atol, half_ulps); });
}

double default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 5e-3;
    case DType::bf16:
      return 4e-2;
    default:
      return 0;
  }
}

OutputDiff compare(std::string name, const Tensor& got, const Tensor& reference, std::optional<double> tolerance) {
  OutputDiff diff;
  diff.name = std::move(name);
  if (got.dtype() != reference.dtype() || got.shape() != reference.shape()) {
    diff.ok = false;
    diff.why = fmt::format("it is {}, the reference is {}", type_text(got), type_text(reference));
    return diff;
  }
  if (reference.num_elements() == 0) return diff;
  const Sums sums = ir::visit_compute(reference.dtype(), [&]<class T>(T) { return sum_up<T>(got, reference, diff); });
  diff.ref_rms = std::sqrt(sums.reference / static_cast<double>(reference.num_elements()));
  if (sums.difference > 0) {
    diff.rel_l2 =
        sums.reference > 0 ? std::sqrt(sums.difference / sums.reference) : std::numeric_limits<double>::infinity();
  }
  diff.why = broken_rule(reference, sums, diff, tolerance.value_or(default_tolerance(reference.dtype())));
  diff.ok = diff.why.empty();
  return diff;
}

Result<std::vector<Tensor>> evaluate_model(const Model& model, const std::vector<Tensor>& inputs, bool wide) {
  if (!model.graph)
    return Status(StatusCode::invalid_argument, "a package has no graph to evaluate: name the model itself");
  const Progress progress("evaluating the reference");
  ir::EvalOptions options;
  options.threads = 0;
  options.wide = wide;
  return ir::evaluate(*model.graph, inputs, options);
}

}  // namespace fusec::tool
