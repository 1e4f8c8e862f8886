// SPDX-License-Identifier: Apache-2.0
// Narrows arrays of f32 to f16 or bf16, with AVX2 and F16C where the CPU has them. Vector and scalar code must give the
// same bits, including for NaN and denormals.

#include "ir/ops/narrow.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/cast.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace fusec::ir {
namespace {

constexpr float kLargestF16 = 65504;

uint16_t narrowed(DType to, float value, Beyond beyond) {
  if (to == DType::bf16) return bf16_from_f32(value);
  const bool held = beyond == Beyond::largest && std::isfinite(value);
  return f16_from_f32(held ? std::clamp(value, -kLargestF16, kLargestF16) : value);
}

#if defined(__x86_64__)
constexpr int64_t kLanes = 8;

bool has_vectors() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0 && __builtin_cpu_supports("avx2");  // bit 29: F16C
}

// Both convert the largest prefix whose length is a multiple of kLanes and return its length.
[[gnu::target("avx2,f16c")]] int64_t f16_by_vectors(const float* from, int64_t count, Beyond beyond, uint16_t* out) {
  const __m256 top = _mm256_set1_ps(kLargestF16), bottom = _mm256_set1_ps(-kLargestF16), sign = _mm256_set1_ps(-0.0F);
  const __m256 infinity = _mm256_set1_ps(INFINITY);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __m256 x = _mm256_loadu_ps(from + i);
    if (beyond == Beyond::largest) {
      const __m256 finite = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), infinity, _CMP_LT_OQ);
      x = _mm256_blendv_ps(x, _mm256_max_ps(_mm256_min_ps(x, top), bottom), finite);
    }
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}

// Takes the upper half of the bits, after adding 0x7fff and the upper half's lowest bit (round to nearest even). For
// NaN it takes the upper half and makes it quiet.
[[gnu::target("avx2,f16c")]] int64_t bf16_by_vectors(const float* from, int64_t count, uint16_t* out) {
  const __m256i one = _mm256_set1_epi32(1), below_half = _mm256_set1_epi32(0x7fff), quiet = _mm256_set1_epi32(0x40);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(from + i);
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
  if (vectors) done = to == DType::f16 ? f16_by_vectors(from, count, beyond, out) : bf16_by_vectors(from, count, out);
#endif
  narrow_f32_plain(to, from + done, count - done, beyond, out + done);
}

}  // namespace fusec::ir
