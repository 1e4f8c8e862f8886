// SPDX-License-Identifier: Apache-2.0
// Values against their bounds: what is asked of an element, and whether it is met.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/cast.h"
#include "tests/fuzz/bounds_internal.h"

namespace fusec::fuzz {

namespace {

// A range of more than this share of the tensor's magnitude says little.
double little(DType dtype) { return std::max(1e-2, std::ldexp(64.0, -known_bits_of(dtype))); }

double compute_magnitude(const Bounded& value) {
  double squares = 0, count = 0;
  for (int64_t i = 0; i < value.at.num_elements(); ++i) {
    const double x = value.at.as<double>()[i];
    if (!std::isfinite(x) || std::fabs(x) > 1e150) continue;
    squares += x * x;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / count);
}

bool is_undecided(DType dtype, const Range& r, double magnitude) {
  if (is_anything(dtype, r)) return true;
  if (!is_float(dtype) || std::isnan(r.at.f) || r.lo.f == r.hi.f) return false;
  const double scale = std::max(std::fabs(r.at.f), magnitude);
  return !(r.hi.f - r.lo.f <= little(dtype) * scale + 1e-30);
}

// The bounds of an output and one rounding to its type: what is stored was rounded once more than the bounds count
// where the graph keeps a value in f32.
Range allowed(DType dtype, const Range& r) {
  if (!is_float(dtype) || is_anything(dtype, r) || std::isnan(r.at.f)) return r;
  return with_rounding(dtype, 0, r);
}

bool fits(DType dtype, const ir::Number& got, const Range& want) {
  if (is_anything(dtype, want)) return true;
  if (!is_float(dtype)) return got.i == want.at.i;
  if (std::isnan(got.f) || std::isnan(want.at.f)) return std::isnan(got.f) && std::isnan(want.at.f);
  return got.f >= want.lo.f && got.f <= want.hi.f;
}

std::string text(DType dtype, const ir::Number& n) {
  return is_float(dtype) ? fmt::format("{:.9g}", n.f) : fmt::format("{}", n.i);
}

}  // namespace

std::vector<bool> undecided(const Bounded& value, DType dtype) {
  const double magnitude = is_float(dtype) ? compute_magnitude(value) : 0;
  std::vector<bool> out;
  for (int64_t i = 0; i < value.at.num_elements(); ++i)
    out.push_back(is_undecided(dtype, load_range(value, dtype, i), magnitude));
  return out;
}

int64_t count_undecided(const Bounded& value, DType dtype) {
  const std::vector<bool> all = undecided(value, dtype);
  return std::count(all.begin(), all.end(), true);
}

// A zero whose sign is certain.
bool is_signed_zero(const Range& r) {
  const bool negative = std::signbit(r.at.f);
  return r.lo.f == 0 && r.hi.f == 0 && std::signbit(r.lo.f) == negative && std::signbit(r.hi.f) == negative;
}

ComparisonResult compare(const Tensor& got, const Bounded& want) {
  const DType dtype = got.dtype();
  ComparisonResult result;
  result.elements = got.num_elements();
  result.undecided = count_undecided(want, dtype);
  for (int64_t i = 0; i < result.elements; ++i) {
    const ir::Number value = ir::load_number(dtype, got.as<char>() + i * static_cast<int64_t>(size_of(dtype)));
    Range range = load_range(want, dtype, i);
    const bool other_zero =
        is_float(dtype) && is_signed_zero(range) && value.f == 0 && std::signbit(value.f) != std::signbit(range.at.f);
    range = allowed(dtype, range);
    if ((fits(dtype, value, range) && !other_zero) || result.wrong++ > 0) continue;
    result.first_wrong = i;
    result.message = fmt::format("element {} is {}, expected {} in [{}, {}]", i, text(dtype, value),
                                 text(dtype, range.at), text(dtype, range.lo), text(dtype, range.hi));
  }
  return result;
}

}  // namespace fusec::fuzz
