// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/scalar_inputs.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/ops/cast.h"

namespace fusec::codegen_test {

void put_bits(Tensor& t, int64_t i, uint64_t bits) {
  if (t.dtype() == DType::bool_) bits &= 1;
  std::memcpy(t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())), &bits, size_of(t.dtype()));
}

std::vector<uint64_t> special_bits(DType dtype) {
  std::vector<uint64_t> out;
  const auto add = [&](double f, int64_t v) {
    uint64_t bits = 0;
    if (is_float(dtype)) {
      ir::store_double(dtype, &bits, f);
    } else {
      ir::store_int(dtype, &bits, v);
    }
    out.push_back(bits);
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double f :
       {0.0,    1.0,    2.0,   3.0,   0.5,     0.625,          0.9,     1.5,     2.5,     7.99,    88.7,   89.0,
        103.9,  105.0,  127.0, 128.0, 255.0,   256.0,          32768.0, 65504.0, 65520.0, 65536.0, 0x1p31, 0x1p32,
        0x1p63, 0x1p64, 3e38,  1e-40, 1.4e-45, 1.17549435e-38, 6e-8,    1e-7,    1e300,   kInf}) {
    add(f, 0), add(-f, 0);
    if (!is_float(dtype)) out.resize(out.size() - 2);
  }
  if (is_float(dtype)) {
    add(std::numeric_limits<double>::quiet_NaN(), 0);
  } else {
    for (int64_t v : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 32767, 65535})
      add(0, v), add(0, -v);
    for (int64_t v :
         {int64_t{1} << 31, int64_t{1} << 24, (int64_t{1} << 24) + 1, int64_t{1} << 53, (int64_t{1} << 53) + 1,
          std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      for (const int64_t near : {0, -1, 2})
        add(0, static_cast<int64_t>(static_cast<uint64_t>(v) + static_cast<uint64_t>(near)));
    }
  }
  return out;
}

double compute_error(DType dtype, const char* got, double want) {
  const double g = ir::load_double(dtype, got);
  char rounded[8];
  ir::store_double(dtype, rounded, want);
  const double w = ir::load_double(dtype, rounded);
  if (std::isnan(w) || std::isnan(g)) return std::isnan(w) && std::isnan(g) ? 0 : INFINITY;
  if (g == w) return std::signbit(g) == std::signbit(w) ? 0 : INFINITY;
  const int digits = dtype == DType::f64 ? 52 : dtype == DType::f32 ? 23 : dtype == DType::f16 ? 10 : 7;
  const int lowest = dtype == DType::f64 ? -1022 : dtype == DType::f16 ? -14 : -126;
  // An infinity where the largest number is right, or the reverse, counts as one unit.
  if (std::isinf(g) || std::isinf(w))
    return std::isinf(g) && std::isinf(w) ? INFINITY : std::fabs(std::isinf(g) ? w : g) > 3e38 ? 1 : INFINITY;
  const int exponent = w == 0 ? lowest : std::max(std::ilogb(w), lowest);
  return std::fabs(g - want) / std::ldexp(1.0, exponent - digits);
}

std::vector<ir::ScalarOp> primitives() {
  std::vector<ir::ScalarOp> out;
  for (const auto& row : ir::all_scalar_ops()) {
    if (!row.is_definition && row.name != "cast") out.push_back(*ir::find_scalar_op(row.name));
  }
  return out;
}

}  // namespace fusec::codegen_test
