// SPDX-License-Identifier: Apache-2.0
// Converts single elements between dtypes in software, as the reference for every backend; each conversion rounds once,
// and no f16 or bf16 instructions are used. Arrays of f32 are narrowed with AVX2 and F16C where the CPU has them:
// vector and scalar code must give the same bits, including for NaN and denormals.

#include "ir/ops/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace fusec::ir {
namespace {

// A 16-bit binary float: sign, exponent of `exponent_bits`, then the fraction.
struct Half {
  int exponent_bits;
  int fraction_bits() const { return 15 - exponent_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits(); }
};
constexpr Half kF16{5};
constexpr Half kBf16{8};

constexpr uint64_t kFraction64 = (uint64_t{1} << 52) - 1;

// value >> shift, rounded to nearest even.
uint64_t shift_right_rounded(uint64_t value, int shift) {
  if (shift > 63) return 0;
  const uint64_t kept = value >> shift, lost = value & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
  return kept + (lost > half || (lost == half && (kept & 1)));
}

uint16_t narrow(double value, Half format) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 15;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const int drop = 52 - format.fraction_bits();
  if (exponent == 0x7ff) {
    const uint32_t quiet = 1u << (format.fraction_bits() - 1);
    const uint32_t payload = (bits & kFraction64) ? quiet | static_cast<uint32_t>((bits & kFraction64) >> drop) : 0;
    return static_cast<uint16_t>(sign | format.infinity() | payload);
  }
  if (exponent == 0) return static_cast<uint16_t>(sign);  // f64 denormals are far below half of the smallest Half
  const int target = exponent - 1023 + format.bias();     // biased exponent in the format
  const uint64_t significand = (bits & kFraction64) | (uint64_t{1} << 52);
  // The implicit bit of a normal number adds 1 to the exponent field, as does a rounding carry.
  const uint64_t magnitude = target >= 1 ? shift_right_rounded(significand, drop) +
                                               (static_cast<uint64_t>(target - 1) << format.fraction_bits())
                                         : shift_right_rounded(significand, drop + 1 - target);
  return static_cast<uint16_t>(sign |
                               (magnitude >= format.infinity() ? format.infinity() : static_cast<uint32_t>(magnitude)));
}

// Also handles NaN: the hardware's f32 -> f64 conversion would only set the quiet bit, which is what is wanted here.
float widen_f16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) {
    const uint32_t quiet = fraction ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | fraction << 13);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  // 2^(bits) as a double is the first value above the range; the lowest value is exact.
  const double past = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (value >= past) return std::numeric_limits<T>::max();
  const double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
  if (value <= lowest) return std::numeric_limits<T>::lowest();
  return static_cast<T>(value);
}

}  // namespace

uint16_t f16_from_f32(float value) { return narrow(value, kF16); }
uint16_t bf16_from_f32(float value) { return narrow(value, kBf16); }
uint16_t f16_from_f64(double value) { return narrow(value, kF16); }
uint16_t bf16_from_f64(double value) { return narrow(value, kBf16); }
float f32_from_f16(uint16_t bits) { return widen_f16(bits); }
float f32_from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

int64_t i64_from_f64(double value) { return saturate<int64_t>(value); }
uint64_t u64_from_f64(double value) { return saturate<uint64_t>(value); }

double load_double(DType dtype, const void* at) {
  switch (dtype) {
    case DType::f64:
      return load<double>(at);
    case DType::f32:
      return load<float>(at);
    case DType::f16:
      return f32_from_f16(load<uint16_t>(at));
    case DType::bf16:
      return f32_from_bf16(load<uint16_t>(at));
    case DType::u64:
      return static_cast<double>(load<uint64_t>(at));
    default:
      return static_cast<double>(load_int(dtype, at));
  }
}

void store_double(DType dtype, void* at, double value) {
  switch (dtype) {
    case DType::f64:
      return store(at, value);
    case DType::f32:
      return store(at, f32_from_f64(value));
    case DType::f16:
      return store(at, f16_from_f64(value));
    case DType::bf16:
      return store(at, bf16_from_f64(value));
    case DType::i8:
      return store(at, saturate<int8_t>(value));
    case DType::i16:
      return store(at, saturate<int16_t>(value));
    case DType::i32:
      return store(at, saturate<int32_t>(value));
    case DType::i64:
      return store(at, saturate<int64_t>(value));
    case DType::u8:
      return store(at, saturate<uint8_t>(value));
    case DType::u16:
      return store(at, saturate<uint16_t>(value));
    case DType::u32:
      return store(at, saturate<uint32_t>(value));
    case DType::u64:
      return store(at, saturate<uint64_t>(value));
    case DType::bool_:
      return store(at, static_cast<uint8_t>(value != 0));
  }
}

int64_t load_int(DType dtype, const void* at) {
  switch (dtype) {
    case DType::i8:
      return load<int8_t>(at);
    case DType::i16:
      return load<int16_t>(at);
    case DType::i32:
      return load<int32_t>(at);
    case DType::i64:
      return load<int64_t>(at);
    case DType::u8:
      return load<uint8_t>(at);
    case DType::u16:
      return load<uint16_t>(at);
    case DType::u32:
      return load<uint32_t>(at);
    case DType::u64:
      return static_cast<int64_t>(load<uint64_t>(at));
    case DType::bool_:
      return load<uint8_t>(at) != 0;
    default:
      return i64_from_f64(load_double(dtype, at));
  }
}

void store_int(DType dtype, void* at, int64_t value) {
  switch (dtype) {
    case DType::f64:
      return store(at, static_cast<double>(value));
    case DType::f32:
      return store(at, static_cast<float>(value));
    // f16 overflows for |value| > 2^53 anyway. For bf16, a sticky bit keeps the single rounding correct.
    case DType::f16:
      return store(at, f16_from_f64(static_cast<double>(value)));
    case DType::bf16: {
      const bool wide = value > (int64_t{1} << 53) || value < -(int64_t{1} << 53);
      return store(at, bf16_from_f64(static_cast<double>(wide ? (value >> 11 | (value & 2047 ? 1 : 0)) : value) *
                                     (wide ? 2048.0 : 1.0)));
    }
    case DType::bool_:
      return store(at, static_cast<uint8_t>(value != 0));
    case DType::i8:
    case DType::u8:
      return store(at, static_cast<uint8_t>(value));
    case DType::i16:
    case DType::u16:
      return store(at, static_cast<uint16_t>(value));
    case DType::i32:
    case DType::u32:
      return store(at, static_cast<uint32_t>(value));
    case DType::i64:
    case DType::u64:
      return store(at, value);
  }
}

namespace {

constexpr float kLargestF16 = 65504, kLargestBf16 = 0x1.FEp127F;

uint16_t narrowed(DType to, float value, Beyond beyond) {
  const float largest = to == DType::bf16 ? kLargestBf16 : kLargestF16;
  if (beyond == Beyond::largest && std::isfinite(value)) value = std::clamp(value, -largest, largest);
  return to == DType::bf16 ? bf16_from_f32(value) : f16_from_f32(value);
}

#if defined(__x86_64__)
constexpr int64_t kLanes = 8;

bool has_vectors() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0 && __builtin_cpu_supports("avx2");  // bit 29: F16C
}

// Finite numbers between -largest and largest, others as they are.
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline __m256 held(__m256 x, float largest) {
  const __m256 sign = _mm256_set1_ps(-0.0F), infinity = _mm256_set1_ps(INFINITY);
  const __m256 finite = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), infinity, _CMP_LT_OQ);
  const __m256 within = _mm256_max_ps(_mm256_min_ps(x, _mm256_set1_ps(largest)), _mm256_set1_ps(-largest));
  return _mm256_blendv_ps(x, within, finite);
}

// Both convert the largest prefix whose length is a multiple of kLanes and return its length.
[[gnu::target("avx2,f16c")]] int64_t f16_by_vectors(const float* from, int64_t count, Beyond beyond, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __m256 x = _mm256_loadu_ps(from + i);
    if (beyond == Beyond::largest) x = held(x, kLargestF16);
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}

// Takes the upper half of the bits, after adding 0x7fff and the upper half's lowest bit (round to nearest even). For
// NaN it takes the upper half and makes it quiet.
[[gnu::target("avx2,f16c")]] int64_t bf16_by_vectors(const float* from, int64_t count, Beyond beyond, uint16_t* out) {
  const __m256i one = _mm256_set1_epi32(1), below_half = _mm256_set1_epi32(0x7fff), quiet = _mm256_set1_epi32(0x40);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __m256 x = _mm256_loadu_ps(from + i);
    if (beyond == Beyond::largest) x = held(x, kLargestBf16);
    const __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
    const __m256i carry = _mm256_add_epi32(below_half, _mm256_and_si256(upper, one));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, carry), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, quiet), nan);
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}
#endif

}  // namespace

void narrow_f32_plain(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = narrowed(to, from[i], beyond);
}

void narrow_f32(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out) {
  int64_t done = 0;
#if defined(__x86_64__)
  static const bool vectors = has_vectors();
  if (vectors) done = (to == DType::f16 ? f16_by_vectors : bf16_by_vectors)(from, count, beyond, out);
#endif
  narrow_f32_plain(to, from + done, count - done, beyond, out + done);
}

}  // namespace fusec::ir
