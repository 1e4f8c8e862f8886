// SPDX-License-Identifier: Apache-2.0
// The reference of every scalar op, and ref::, the functions that the reference column uses beyond C++. Results that
// ONNX leaves open are fixed here for all targets: x / 0 = 0, x mod 0 = x, the lowest integer divided by -1 wraps,
// shift counts outside the width give 0; min and max propagate NaN and order -0 before +0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "fusec/dtype.h"
#include "ir/ops/op.h"

namespace fusec::ir {

// Truth values are 0 and 1; the condition of `where` is nonzero. `cast` returns its operand: the store converts.
double eval_scalar(ScalarOp op, double a, double b = 0, double c = 0);
// Computes in the width of `dtype`, an integer type, on values as returned by load_int (u64 above 2^63 - 1 as its
// bits).
int64_t eval_scalar(ScalarOp op, DType dtype, int64_t a, int64_t b = 0, int64_t c = 0);
bool eval_scalar(ScalarOp op, bool a, bool b, bool c);

namespace ref {

// An integer whose arithmetic wraps.
template <class T>
struct Wrapping {
  T v = 0;
  Wrapping() = default;
  Wrapping(int64_t value) : v(static_cast<T>(value)) {}  // NOLINT: implicit by design, for the constants in the table
  explicit operator bool() const { return v != 0; }
  static Wrapping bits(uint64_t value) { return Wrapping(static_cast<int64_t>(value)); }
  uint64_t bits() const { return static_cast<uint64_t>(v); }
  friend Wrapping operator+(Wrapping a, Wrapping b) { return bits(a.bits() + b.bits()); }
  friend Wrapping operator-(Wrapping a, Wrapping b) { return bits(a.bits() - b.bits()); }
  friend Wrapping operator*(Wrapping a, Wrapping b) { return bits(a.bits() * b.bits()); }
  friend Wrapping operator&(Wrapping a, Wrapping b) { return bits(a.bits() & b.bits()); }
  friend Wrapping operator|(Wrapping a, Wrapping b) { return bits(a.bits() | b.bits()); }
  friend Wrapping operator^(Wrapping a, Wrapping b) { return bits(a.bits() ^ b.bits()); }
  Wrapping operator~() const { return bits(~bits()); }
  Wrapping operator-() const { return bits(0 - bits()); }
  friend bool operator==(Wrapping a, Wrapping b) { return a.v == b.v; }
  friend auto operator<=>(Wrapping a, Wrapping b) { return a.v <=> b.v; }
};

inline double div(double a, double b) { return a / b; }
inline double fmod(double a, double b) { return std::fmod(a, b); }
inline double mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
inline double min(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
inline double max(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
inline double abs(double a) { return std::fabs(a); }
inline double sign(double a) { return a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a; }
inline double pow(double a, double b) { return std::pow(a, b); }

template <class T>
Wrapping<T> div(Wrapping<T> a, Wrapping<T> b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == -1) return -a;
  return Wrapping<T>::bits(static_cast<uint64_t>(a.v / b.v));
}
template <class T>
Wrapping<T> fmod(Wrapping<T> a, Wrapping<T> b) {
  return a - div(a, b) * b;
}
template <class T>
Wrapping<T> mod(Wrapping<T> a, Wrapping<T> b) {
  const Wrapping<T> r = ref::fmod(a, b);
  return r != 0 && b != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
Wrapping<T> min(Wrapping<T> a, Wrapping<T> b) {
  return b < a ? b : a;
}
template <class T>
Wrapping<T> max(Wrapping<T> a, Wrapping<T> b) {
  return a < b ? b : a;
}
template <class T>
Wrapping<T> abs(Wrapping<T> a) {
  return a < 0 ? -a : a;
}
template <class T>
Wrapping<T> sign(Wrapping<T> a) {
  return int64_t{a > 0} - int64_t{a < 0};
}
// By squaring. For b < 0, the truncated value of 1 / a^-b.
template <class T>
Wrapping<T> pow(Wrapping<T> a, Wrapping<T> b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (std::is_signed_v<T> && a == -1) return (b.v & 1) ? -1 : 1;
    return 0;
  }
  Wrapping<T> result = 1;
  for (uint64_t n = b.bits(); n != 0; n >>= 1) {
    if (n & 1) result = result * a;
    a = a * a;
  }
  return result;
}
template <class T>
bool past_width(Wrapping<T> count) {
  return count.bits() >= 8 * sizeof(T);
}
template <class T>
Wrapping<T> shl(Wrapping<T> a, Wrapping<T> b) {
  return past_width(b) ? Wrapping<T>(0) : Wrapping<T>::bits(a.bits() << b.bits());
}
template <class T>
Wrapping<T> shr(Wrapping<T> a, Wrapping<T> b) {
  return past_width(b) ? Wrapping<T>(0) : Wrapping<T>::bits(static_cast<uint64_t>(a.v >> b.v));
}

// What GPUs compute functions with. The operands are values of f32.

// To odd, so that a second rounding to f32 equals a single one. The product is exact.
inline double fma(double a, double b, double c) {
  const double product = a * b, sum = product + c, part = sum - product;
  const double rest = (product - (sum - part)) + (c - part);
  if (!std::isfinite(sum) || rest == 0 || (std::bit_cast<uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, rest > 0 ? HUGE_VAL : -HUGE_VAL);
}
// An odd sum is on the side of f32's numbers on which the exact one is.
inline double fma_down(double a, double b, double c) {
  const double sum = ref::fma(a, b, c);
  if (sum == 0) return std::signbit(a * b) || std::signbit(c) ? -0.0 : 0.0;  // rounding down, 1 - 1 is -0
  const auto near = static_cast<float>(sum);
  return static_cast<double>(near) > sum ? std::nextafterf(near, -HUGE_VALF) : near;
}
inline double without_denormals(double a) { return std::fabs(a) < 0x1p-126 ? std::copysign(0.0, a) : a; }
inline double exp2_approx(double a) { return without_denormals(std::exp2(without_denormals(a))); }
inline double rcp_approx(double a) { return without_denormals(1 / without_denormals(a)); }
inline double to_bits(double a) { return std::bit_cast<int32_t>(static_cast<float>(a)); }
inline double from_bits(double a) { return std::bit_cast<float>(static_cast<int32_t>(a)); }

template <class R>
R where(R condition, R a, R b) {
  return static_cast<bool>(condition) ? a : b;
}
// lo > hi gives hi.
template <class R>
R clamp(R a, R lo, R hi) {
  if (a != a || lo != lo || hi != hi) return a + lo + hi;
  return min(max(a, lo), hi);
}

}  // namespace ref
}  // namespace fusec::ir
