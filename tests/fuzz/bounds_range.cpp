// SPDX-License-Identifier: Apache-2.0
// The elements of a Bounded: how they are kept, and the units of their types.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/bounds_internal.h"

namespace fusec::fuzz {

DType storage_of(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

int known_bits_of(DType dtype) {
  return dtype == DType::f64 ? 52 : dtype == DType::f32 ? 23 : dtype == DType::f16 ? 10 : 7;
}

double largest(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::max();
  return dtype == DType::f16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
}

double unit_at(DType dtype, double value) {
  const int lowest = dtype == DType::f64 ? -1022 : dtype == DType::f16 ? -14 : -126;
  const int exponent = value == 0 || !std::isfinite(value) ? lowest : std::max(std::ilogb(value), lowest);
  return std::ldexp(1.0, exponent - known_bits_of(dtype));
}

Range load_range(const Bounded& b, DType dtype, int64_t i) {
  const DType storage = storage_of(dtype);
  const auto offset = i * static_cast<int64_t>(size_of(storage));
  const ir::Number at = ir::load_number(storage, b.at.as<char>() + offset);
  if (b.exact()) return {at, at, at};
  return {ir::load_number(storage, b.lo.as<char>() + offset), at, ir::load_number(storage, b.hi.as<char>() + offset)};
}

void store_range(Bounded& b, DType dtype, int64_t i, const Range& r) {
  const DType storage = storage_of(dtype);
  const auto offset = i * static_cast<int64_t>(size_of(storage));
  ir::store_number(storage, b.lo.as<char>() + offset, r.lo);
  ir::store_number(storage, b.at.as<char>() + offset, r.at);
  ir::store_number(storage, b.hi.as<char>() + offset, r.hi);
}

Result<Bounded> make_bounded(DType dtype, const std::vector<int64_t>& shape, bool exact) {
  FUSEC_ASSIGN(Tensor at, Tensor::make(storage_of(dtype), shape));
  if (exact) return exactly(std::move(at));
  FUSEC_ASSIGN(Tensor lo, Tensor::make(storage_of(dtype), shape));
  FUSEC_ASSIGN(Tensor hi, Tensor::make(storage_of(dtype), shape));
  return Bounded{std::move(lo), std::move(at), std::move(hi), {}};
}

}  // namespace fusec::fuzz
