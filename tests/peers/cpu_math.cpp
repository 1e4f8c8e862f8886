// SPDX-License-Identifier: Apache-2.0
// Loops with AVX-512 or AVX2 intrinsics, written by hand, that compute what generated kernels compute to the same
// bounds: functions of f32, the same on f16 and bf16, and conversions. The data lies in a first-level cache. Prints a
// line for each: name, core cycles per 16 elements (the least of many trials), the largest error in ulp of its type.
// tests/peers/cpu_math.py builds and runs it and sets fusec's kernels beside it.

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

#if defined(__AVX512F__)
using V = __m512;
constexpr int kWidth = 16;
V set(float x) { return _mm512_set1_ps(x); }
V add(V a, V b) { return _mm512_add_ps(a, b); }
V sub(V a, V b) { return _mm512_sub_ps(a, b); }
V mul(V a, V b) { return _mm512_mul_ps(a, b); }
V div(V a, V b) { return _mm512_div_ps(a, b); }
V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
V lesser(V a, V b) { return _mm512_min_ps(a, b); }   // b where a is NaN
V greater(V a, V b) { return _mm512_max_ps(a, b); }  // b where a is NaN
V absolute(V a) { return _mm512_abs_ps(a); }
V with_sign(V a, V sign) {
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(mask, _mm512_castps_si512(a), _mm512_castps_si512(sign), 0xca));
}
V where_negative(V x, V a, V b) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, set(0), _CMP_LT_OQ), b, a); }
V power(V shifted) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23)); }
// p * 2^n, also where it is denormal or 0
V scaled(V p, V n, V) { return _mm512_scalef_ps(p, n); }
V load(const float* p) { return _mm512_loadu_ps(p); }
void store(float* p, V v) { _mm512_storeu_ps(p, v); }
V load_f16(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
void store_f16(uint16_t* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, 0)); }
V load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
void store_bf16(uint16_t* p, V v) {
  const __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i out = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  out = _mm512_mask_or_epi32(out, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(out));
}
#else
using V = __m256;
constexpr int kWidth = 8;
V set(float x) { return _mm256_set1_ps(x); }
V add(V a, V b) { return _mm256_add_ps(a, b); }
V sub(V a, V b) { return _mm256_sub_ps(a, b); }
V mul(V a, V b) { return _mm256_mul_ps(a, b); }
V div(V a, V b) { return _mm256_div_ps(a, b); }
V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
V lesser(V a, V b) { return _mm256_min_ps(a, b); }
V greater(V a, V b) { return _mm256_max_ps(a, b); }
V absolute(V a) { return _mm256_andnot_ps(set(-0.0f), a); }
V with_sign(V a, V sign) { return _mm256_or_ps(absolute(a), _mm256_and_ps(set(-0.0f), sign)); }
V where_negative(V x, V a, V b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, set(0), _CMP_LT_OQ)); }
V power(V shifted) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23)); }
V scaled(V p, V, V lifted) { return mul(mul(p, lifted), set(0x1p-64f)); }
V load(const float* p) { return _mm256_loadu_ps(p); }
void store(float* p, V v) { _mm256_storeu_ps(p, v); }
V load_f16(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
void store_f16(uint16_t* p, V v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, 0)); }
V load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
void store_bf16(uint16_t* p, V v) {
  const __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i out = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  out = _mm256_blendv_epi8(out, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(out, out), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
#endif

template <class... C>
V polynomial(V x, float last, C... before) {  // the highest coefficient first
  V out = set(last);
  ((out = fma(out, x, set(before))), ...);
  return out;
}

constexpr float kLog2E = 0x1.715476p+0f, kLn2Hi = 0x1.62e4p-1f, kLn2Lo = 0x1.7f7d1cp-20f;
constexpr float kMagic = 0x1.8p23f + 127, kLifted = kMagic + 64;

V expm1_of(V r) {
  const V t = polynomial(r, 0x1.6b9c3ep-10f, 0x1.12253ap-7f, 0x1.5556f2p-5f, 0x1.5554b4p-3f, 0x1.fffffep-2f);
  return fma(mul(r, r), t, r);
}
V reduced(V x, V n) { return fma(n, set(-kLn2Lo), fma(n, set(-kLn2Hi), x)); }

// f32, to 3 or 4 ulp
V exp_negative(V x) {  // 0 >= x
  x = greater(set(-104), x);
  const V shifted = fma(x, set(kLog2E), set(kLifted)), n = sub(shifted, set(kLifted));
  const V e = expm1_of(reduced(x, n));
  return scaled(add(e, set(1)), n, power(shifted));
}
V exp_f32(V x) {
#if defined(__AVX512F__)
  x = lesser(set(89), greater(set(-104), x));
  const V n = sub(fma(x, set(kLog2E), set(kMagic)), set(kMagic));
  return scaled(add(expm1_of(reduced(x, n)), set(1)), n, n);
#else
  if (_mm256_movemask_ps(_mm256_cmp_ps(absolute(x), set(87), _CMP_NLE_UQ)) != 0) [[unlikely]] {
    alignas(32) float lanes[kWidth];
    store(lanes, x);
    for (float& lane : lanes) lane = std::exp(lane);
    return load(lanes);
  }
  const V shifted = fma(x, set(kLog2E), set(kMagic)), n = sub(shifted, set(kMagic));
  return mul(add(expm1_of(reduced(x, n)), set(1)), power(shifted));
#endif
}
V tanh_f32(V x) {
  const V u = mul(lesser(set(9.5f), absolute(x)), set(-2));
  const V shifted = fma(u, set(kLog2E), set(kMagic)), s = power(shifted);
  const V m = fma(s, expm1_of(reduced(u, sub(shifted, set(kMagic)))), sub(s, set(1)));
  return with_sign(div(m, add(m, set(2))), x);
}
V sigmoid_f32(V x) {
  const V e = exp_negative(sub(set(0), absolute(x)));
  return div(where_negative(x, e, set(1)), add(e, set(1)));
}
V silu_f32(V x) { return mul(x, sigmoid_f32(x)); }
V gelu_f32(V x) {  // max(x, 0) - t * Phi(-t)
  const V t = lesser(set(15), absolute(x)), square = mul(t, t), low = fma(t, t, sub(set(0), square));
  const V y = mul(square, set(-0.5f)), shifted = fma(y, set(kLog2E), set(kLifted)), n = sub(shifted, set(kLifted));
  const V e = expm1_of(fma(low, set(-0.5f), reduced(y, n)));
  const V q = div(t, add(t, set(2.5f)));
  const V p =
      mul(q, polynomial(q, -0x1.962a42p-6f, 0x1.b07398p-6f, 0x1.6183ccp-4f, -0x1.e47558p-4f, 0x1.3993acp-6f,
                        -0x1.ae0cbcp-4f, 0x1.775604p-5f, 0x1.2c3bp-2f, 0x1.5b2e68p-3f, -0x1.3e4ed4p+0f, 0x1.4p+0f));
  return sub(greater(x, set(0)), scaled(fma(p, e, p), n, power(shifted)));
}

// f16 and bf16, to an eighth of their ulp
V exp2_short(V y) {
  y = greater(set(-151), y);
  const V shifted = add(y, set(kLifted)), n = sub(shifted, set(kLifted));
  const V p = polynomial(sub(y, n), 0x1.3a02b2p-7f, 0x1.c9fc5p-5f, 0x1.ec0378p-3f, 0x1.62e12cp-1f, 1.0f);
  return scaled(p, n, power(shifted));
}
V inverse_short(V e) {
  return polynomial(e, 0x1.30bd84p-4f, -0x1.5375c4p-2f, 0x1.5b98ecp-1f, -0x1.d1d1ep-1f, 0x1.f98bf6p-1f, -0x1.ffaf2cp-1f,
                    1.0f);
}
V silu_short(V x) {
  const V e = exp2_short(mul(absolute(x), set(-kLog2E)));
  return mul(mul(x, where_negative(x, e, set(1))), inverse_short(e));
}
V gelu_short(V x) {
  const V t = lesser(set(6.2f), absolute(x));
  const V log = polynomial(t, -0x1.e5102ep-20f, 0x1.ff7e64p-15f, -0x1.e4f62cp-11f, 0x1.15fa3p-7f, -0x1.b990b2p-5f,
                           -0x1.d589a8p-2f, -0x1.26b62p+0f, -1.0f);
  return sub(greater(x, set(0)), mul(t, exp2_short(log)));
}
V same(V x) { return x; }

constexpr int kCount = 2048;
alignas(64) float in32[kCount], out32[kCount];
alignas(64) uint16_t in16[kCount], out16[kCount];

double seconds_of(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
double least(const auto& call, int trials) {
  double out = 1e9;
  for (int i = 0; i < trials; ++i) out = std::min(out, seconds_of(call));
  return out;
}
double core_hz() {  // from dependent multiplications, of 3 cycles each
  constexpr int kSteps = 1'000'000;
  return 3.0 * kSteps /
         least(
             [] {
               volatile uint64_t seed = 3;
               uint64_t x = seed;
               for (int i = 0; i < kSteps; ++i) x *= x;
               seed = x;
             },
             9);
}

double widened_f16(uint16_t bits) { return _cvtsh_ss(bits); }
double widened_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

double ulps(double got, double wanted, int digits, int least_exponent) {
  if (wanted == 0) return got == 0 ? 0 : INFINITY;
  const int exponent = std::max(std::ilogb(wanted), least_exponent);
  return std::fabs(got - wanted) / std::ldexp(1.0, exponent - digits + 1);
}

double hz;

enum class Type { f32, f16, bf16 };

template <Type from, Type to, V (*f)(V)>
[[gnu::noinline]] void loop() {
  for (int i = 0; i < kCount; i += kWidth) {
    V x;
    if constexpr (from == Type::f32) x = load(in32 + i);
    if constexpr (from == Type::f16) x = load_f16(in16 + i);
    if constexpr (from == Type::bf16) x = load_bf16(in16 + i);
    const V y = f(x);
    if constexpr (to == Type::f32) store(out32 + i, y);
    if constexpr (to == Type::f16) store_f16(out16 + i, y);
    if constexpr (to == Type::bf16) store_bf16(out16 + i, y);
  }
}

template <Type from, Type to, V (*f)(V)>
void measure(const char* name, double (*reference)(double)) {
  constexpr int kRepeats = 50;
  const double seconds = least(
      [] {
        for (int i = 0; i < kRepeats; ++i) loop<from, to, f>();
      },
      200);
  double worst = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = from == Type::f32 ? in32[i] : from == Type::f16 ? widened_f16(in16[i]) : widened_bf16(in16[i]);
    const double got = to == Type::f32 ? out32[i] : to == Type::f16 ? widened_f16(out16[i]) : widened_bf16(out16[i]);
    worst = std::max(worst, ulps(got, reference(x),
                                 to == Type::f32   ? 24
                                 : to == Type::f16 ? 11
                                                   : 8,
                                 to == Type::f16 ? -14 : -126));
  }
  std::printf("%s %.2f %.2f\n", name, seconds * hz * 16 / (kRepeats * kCount), worst);
}

void fill(Type type) {
  for (int i = 0; i < kCount; ++i) {
    const float x = -4.0f + 8.0f * static_cast<float>((i * 1237) % kCount) / kCount;
    in32[i] = x;
    in16[i] = type == Type::f16 ? _cvtss_sh(x, 0) : static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  }
}

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double identity(double x) { return x; }
double exponential(double x) { return std::exp(x); }
double tangent(double x) { return std::tanh(x); }

}  // namespace

int main() {
  hz = core_hz();
  fill(Type::f16);
  measure<Type::f32, Type::f32, exp_f32>("exp_f32", exponential);
  measure<Type::f32, Type::f32, tanh_f32>("tanh_f32", tangent);
  measure<Type::f32, Type::f32, sigmoid_f32>("sigmoid_f32", sigmoid);
  measure<Type::f32, Type::f32, silu_f32>("silu_f32", silu);
  measure<Type::f32, Type::f32, gelu_f32>("gelu_f32", gelu);
  measure<Type::f16, Type::f16, silu_short>("silu_f16", silu);
  measure<Type::f16, Type::f16, gelu_short>("gelu_f16", gelu);
  measure<Type::f16, Type::f32, same>("cast_f16_f32", identity);
  measure<Type::f32, Type::f16, same>("cast_f32_f16", identity);
  measure<Type::f32, Type::bf16, same>("cast_f32_bf16", identity);
  fill(Type::bf16);
  measure<Type::bf16, Type::bf16, silu_short>("silu_bf16", silu);
  measure<Type::bf16, Type::f32, same>("cast_bf16_f32", identity);
}
