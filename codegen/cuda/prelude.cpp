// SPDX-License-Identifier: Apache-2.0
// The table of helper functions in front of generated CUDA C++, and the code that adds those a kernel uses. Results
// must match the op table within its tolerances and, where a part replaces an IEEE operation, bit for bit.

#include <string_view>

#include "codegen/cuda/cluster_prelude.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/spelling.h"
#include "codegen/cuda/task_prelude.h"
#include "ir/support/check.h"

namespace fusec::codegen::cuda {
namespace {

struct Part {
  std::string_view name;
  std::string_view needs;  // names, separated by spaces
  std::string_view text;
  int from_sm = 0;  // among parts of one name, the first that the target supports is used
  bool ptx = false;
};

constexpr std::string_view kTypes = R"(typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define FUNCTION static __device__ __forceinline__
)";

// FUNCTION is `static __device__ __forceinline__`.
constexpr Part kParts[] = {
    // Conversions between halves and f32.
    {"f32_from_f16", "", R"(FUNCTION float f32_from_f16(u16 v) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(v));
  return out;
}
)",
     0, true},
    {"f16_from_f32", "", R"(FUNCTION u16 f16_from_f32(float v) {
  u16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(v));
  return out;
}
)",
     0, true},
    {"bf16_from_f32", "", R"(FUNCTION u16 bf16_from_f32(float v) {
  u16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(v));
  return out;
}
)",
     80, true},
    {"bf16_from_f32", "", R"(FUNCTION u16 bf16_from_f32(float v) {
  const u32 bits = __float_as_uint(v);
  return v != v ? (u16)(bits >> 16 | 0x40) : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
)",
     0, true},
    {"f32_from_bf16", "", R"(FUNCTION float f32_from_bf16(u16 v) { return __uint_as_float((u32)v << 16); }
)"},
    // Rounds to odd, so that a second rounding to a half equals a single rounding.
    {"odd_from_f64", "", R"(FUNCTION float odd_from_f64(double v) {
  const float near = __double2float_rz(v);
  return near == v || v != v ? near : __uint_as_float(__float_as_uint(near) | 1);
}
)"},
    {"odd_from_i64", "", R"(FUNCTION float odd_from_i64(i64 v) {
  const float near = __ll2float_rz(v);
  return (i64)near == v ? near : __uint_as_float(__float_as_uint(near) | 1);
}
)"},
    {"odd_from_u64", "", R"(FUNCTION float odd_from_u64(u64 v) {
  const float near = __ull2float_rz(v);
  return (u64)near == v ? near : __uint_as_float(__float_as_uint(near) | 1);
}
)"},
    // Operations on the bits of halves.
    {"relu_bits", "", R"(FUNCTION u16 relu_bits(u16 v, u16 lowest) {  // what is above -infinity is a NaN with a sign
  return v > lowest ? v : (i16)v < 0 ? (u16)0 : v;
}
)"},
    // Max and min: NaN wins, -0 < +0.
    {"max_f32", "", R"(FUNCTION float max_f32(float a, float b) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
)",
     80, true},
    {"max_f32", "", R"(FUNCTION float max_f32(float a, float b) {
  float out;
  asm("max.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return a != a || b != b ? a + b : out;
}
)",
     0, true},
    {"min_f32", "", R"(FUNCTION float min_f32(float a, float b) {
  float out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
)",
     80, true},
    {"min_f32", "", R"(FUNCTION float min_f32(float a, float b) {
  float out;
  asm("min.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return a != a || b != b ? a + b : out;
}
)",
     0, true},
    {"max_f64", "", R"(FUNCTION double max_f64(double a, double b) {
  double out;
  asm("max.f64 %0, %1, %2;" : "=d"(out) : "d"(a), "d"(b));
  return a != a || b != b ? a + b : out;
}
)",
     0, true},
    {"min_f64", "", R"(FUNCTION double min_f64(double a, double b) {
  double out;
  asm("min.f64 %0, %1, %2;" : "=d"(out) : "d"(a), "d"(b));
  return a != a || b != b ? a + b : out;
}
)",
     0, true},
    // Divisions written in PTX, so that the compiler cannot assume anything about their results.
    {"div_f32", "", R"(FUNCTION float div_f32(float a, float b) {
  float out;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
)",
     0, true},
    {"div_f64", "", R"(FUNCTION double div_f64(double a, double b) {
  double out;
  asm("div.rn.f64 %0, %1, %2;" : "=d"(out) : "d"(a), "d"(b));
  return out;
}
)",
     0, true},
    {"reciprocal_f32", "", R"(FUNCTION float reciprocal_f32(float a) {
  float out;
  asm("rcp.rn.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
}
)",
     0, true},
    {"reciprocal_f64", "", R"(FUNCTION double reciprocal_f64(double a) {
  double out;
  asm("rcp.rn.f64 %0, %1;" : "=d"(out) : "d"(a));
  return out;
}
)",
     0, true},
    {"sign_f32", "",
     R"(FUNCTION float sign_f32(float a) { return a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a == 0.0f ? 0.0f : a; }
)"},
    {"sign_f64", "",
     R"(FUNCTION double sign_f64(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a == 0.0 ? 0.0 : a; }
)"},
    // Adds the divisor to the remainder where their signs differ.
    {"mod_f32", "", R"(FUNCTION float mod_f32(float a, float b) {
  const float r = fmodf(a, b);
  return r == 0.0f ? copysignf(0.0f, b) : (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
)"},
    {"mod_f64", "", R"(FUNCTION double mod_f64(double a, double b) {
  const double r = fmod(a, b);
  return r == 0.0 ? copysign(0.0, b) : (r < 0.0) != (b < 0.0) ? r + b : r;
}
)"},
    // Approximations.
    {"exp2_approx_f32", "", R"(FUNCTION float exp2_approx_f32(float a) {  // 2 ulp; denormal results are 0
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
}
)",
     0, true},
    {"rcp_approx_f32", "", R"(FUNCTION float rcp_approx_f32(float a) {  // 1 ulp
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
}
)",
     0, true},
    // Near its zeros, b*a + c is dominated by rounding error unless it is rounded once.
    {"hard_sigmoid_f32", "max_f32 min_f32", R"(FUNCTION float hard_sigmoid_f32(float a, float b, float c) {
  return max_f32(0.0f, min_f32(1.0f, fmaf(b, a, c)));
}
)"},
    {"hard_sigmoid_f64", "max_f64 min_f64", R"(FUNCTION double hard_sigmoid_f64(double a, double b, double c) {
  return max_f64(0.0, min_f64(1.0, b * a + c));
}
)"},
    // Integers wrap: x / 0 = 0, x mod 0 = x, the lowest value divided by -1 wraps, shifts past the width give 0.
    {"int_div", "", R"(template <class T> FUNCTION T int_div(T a, T b) {
  return b == 0 ? T(0) : T(-1) < T(0) && b == T(-1) ? T(0 - (u64)a) : T(a / b);
}
)"},
    {"int_rem", "", R"(template <class T> FUNCTION T int_rem(T a, T b) {
  return b == 0 ? a : T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
}
)"},
    {"int_mod", "int_rem", R"(template <class T> FUNCTION T int_mod(T a, T b) {
  const T r = int_rem(a, b);
  return r != 0 && b != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
)"},
    {"int_pow", "", R"(template <class T> FUNCTION T int_pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? T(b & 1 ? -1 : 1) : T(0);
  u64 out = 1, base = (u64)a;
  for (u64 n = (u64)b; n != 0; n >>= 1, base *= base) out *= n & 1 ? base : 1;
  return T(out);
}
)"},
    {"int_max", "", R"(template <class T> FUNCTION T int_max(T a, T b) { return a < b ? b : a; }
)"},
    {"int_min", "", R"(template <class T> FUNCTION T int_min(T a, T b) { return b < a ? b : a; }
)"},
    {"int_abs", "", R"(template <class T> FUNCTION T int_abs(T a) { return a < 0 ? T(0 - (u64)a) : a; }
)"},
    {"int_sign", "", R"(template <class T> FUNCTION T int_sign(T a) { return T((a > 0) - (a < 0)); }
)"},
    {"int_shl", "", R"(template <class T> FUNCTION T int_shl(T a, T b) {
  return (u64)b >= 8 * sizeof(T) ? T(0) : T((u64)a << b);
}
)"},
    {"int_shr", "",
     R"(template <class T> FUNCTION T int_shr(T a, T b) { return (u64)b >= 8 * sizeof(T) ? T(0) : T(a >> b); }
)"},
    // Conversions of floats to integers truncate and saturate; NaN gives 0.
    {"saturated", "",
     R"(FUNCTION int saturated(int v, int lowest, int highest) { return v < lowest ? lowest : v > highest ? )"
     R"(highest : v; }
)"},
    {"i8_from_float", "i32_from_float saturated",
     R"(template <class F> FUNCTION i8 i8_from_float(F v) { return (i8)saturated(i32_from_float(v), -128, 127); }
)"},
    {"i16_from_float", "i32_from_float saturated",
     R"(template <class F> FUNCTION i16 i16_from_float(F v) { return (i16)saturated(i32_from_float(v), -32768, 32767); }
)"},
    {"u8_from_float", "i32_from_float saturated",
     R"(template <class F> FUNCTION u8 u8_from_float(F v) { return (u8)saturated(i32_from_float(v), 0, 255); }
)"},
    {"u16_from_float", "i32_from_float saturated",
     R"(template <class F> FUNCTION u16 u16_from_float(F v) { return (u16)saturated(i32_from_float(v), 0, 65535); }
)"},
    // Converts lanes to bytes; ptxas fuses two conversions and their packing into one instruction.
    {"i8_nearest", "", R"(template <int N> FUNCTION void i8_nearest(i8* to, const float* from) {
  #pragma unroll
  for (int i = 0; i < N; i += 4) {
    u32 whole[4], bytes;
    #pragma unroll
    for (int j = 0; j < 4; ++j) asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole[j]) : "f"(from[i + j]));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[3]), "r"(whole[2]), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[1]), "r"(whole[0]), "r"(bytes));
    #pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = (i8)(bytes >> 8 * j);
  }
}
)",
     80, true},
    {"i8_truncated", "", R"(template <int N> FUNCTION void i8_truncated(i8* to, const float* from) {
  #pragma unroll
  for (int i = 0; i < N; i += 4) {
    u32 whole[4], bytes;
    #pragma unroll
    for (int j = 0; j < 4; ++j) asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(whole[j]) : "f"(from[i + j]));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[3]), "r"(whole[2]), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[1]), "r"(whole[0]), "r"(bytes));
    #pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = (i8)(bytes >> 8 * j);
  }
}
)",
     80, true},
    {"u8_nearest", "", R"(template <int N> FUNCTION void u8_nearest(u8* to, const float* from) {
  #pragma unroll
  for (int i = 0; i < N; i += 4) {
    u32 whole[4], bytes;
    #pragma unroll
    for (int j = 0; j < 4; ++j) asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole[j]) : "f"(from[i + j]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[3]), "r"(whole[2]), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[1]), "r"(whole[0]), "r"(bytes));
    #pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = (u8)(bytes >> 8 * j);
  }
}
)",
     80, true},
    {"u8_truncated", "", R"(template <int N> FUNCTION void u8_truncated(u8* to, const float* from) {
  #pragma unroll
  for (int i = 0; i < N; i += 4) {
    u32 whole[4], bytes;
    #pragma unroll
    for (int j = 0; j < 4; ++j) asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(whole[j]) : "f"(from[i + j]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[3]), "r"(whole[2]), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(whole[1]), "r"(whole[0]), "r"(bytes));
    #pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = (u8)(bytes >> 8 * j);
  }
}
)",
     80, true},
    {"i32_from_float", "",
     R"(FUNCTION i32 i32_from_float(float v) { return __float2int_rz(v); }  // cvt.rzi yields 0 for NaN
FUNCTION i32 i32_from_float(double v) { return v != v ? 0 : __double2int_rz(v); }
)"},
    {"u32_from_float", "", R"(FUNCTION u32 u32_from_float(float v) { return __float2uint_rz(v); }
FUNCTION u32 u32_from_float(double v) { return v != v ? 0 : __double2uint_rz(v); }
)"},
    {"i64_from_float", "", R"(FUNCTION i64 i64_from_float(float v) { return v != v ? 0 : __float2ll_rz(v); }
FUNCTION i64 i64_from_float(double v) { return v != v ? 0 : __double2ll_rz(v); }
)"},
    {"u64_from_float", "", R"(FUNCTION u64 u64_from_float(float v) { return v != v ? 0 : __float2ull_rz(v); }
FUNCTION u64 u64_from_float(double v) { return v != v ? 0 : __double2ull_rz(v); }
)"},
    // Index arithmetic. udiv and umod take non-negative operands; a divisor is at least 1.
    {"udiv", "", R"(template <class A, class B> FUNCTION auto udiv(A a, B b) -> decltype(a + b) {
  if (sizeof(A) == 4 && sizeof(B) == 4) return (u32)a / (u32)b;
  return (u64)a / (u64)b;
}
)"},
    {"umod", "", R"(template <class A, class B> FUNCTION auto umod(A a, B b) -> decltype(a + b) {
  if (sizeof(A) == 4 && sizeof(B) == 4) return (u32)a % (u32)b;
  return (u64)a % (u64)b;
}
)"},
    {"floordiv", "",
     R"(template <class A, class B> FUNCTION auto floordiv(A a, B b) -> decltype(a + b) { return a / b - (a % b < 0); }
)"},
    {"floormod", "", R"(template <class A, class B> FUNCTION auto floormod(A a, B b) -> decltype(a + b) {
  const auto r = a % b;
  return r < 0 ? r + b : r;
}
)"},
    {"lesser", "",
     R"(template <class A, class B> FUNCTION auto lesser(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
)"},
    {"greater", "",
     R"(template <class A, class B> FUNCTION auto greater(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
)"},
    // An index from data: wrapped if negative, then clamped to 0 .. n-1. An index out of range sets the status word.
    {"clamped", "", R"(FUNCTION i64 clamped(i64 i, i64 n, int* status) {
  if (i < 0) i += n;
  if (i >= 0 && i < n) return i;
  *status = 1;
  return i < 0 ? 0 : n - 1;
}
)"},
    // Whole-vector accesses, in pieces of type V.
    {"Pieces", "", R"(template <class V, class T> union Pieces {
  V piece;
  T lanes[sizeof(V) / sizeof(T)];
  __device__ Pieces() {}
};
)"},
    {"load_constant", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_constant(R (&to)[n], const T* from) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
    p.piece = __ldg((const V*)(from + i));
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    {"load_vector", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_vector(R (&to)[n], const T* from) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
    p.piece = *(const V*)(from + i);
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    // Uses ld.shared directly. NVRTC's compiler merges and orders long runs of shared loads by the addresses of its own
    // objects, so the same text would give different machine code in different processes.
    {"shared_piece", "",
     R"(template <class V> FUNCTION void shared_piece(V& to, const void* from) { to = *(const V*)from; }
FUNCTION void shared_piece(uint4& to, const void* from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w) : )"
     R"("r"((u32)__cvta_generic_to_shared(from)) : "memory");
}
FUNCTION void shared_piece(uint2& to, const void* from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to.x), "=r"(to.y) : )"
     R"("r"((u32)__cvta_generic_to_shared(from)) : "memory");
}
FUNCTION void shared_piece(u32& to, const void* from) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to) : "r"((u32)__cvta_generic_to_shared(from)) : "memory");
}
)",
     0, true},
    {"load_shared", "Pieces shared_piece",
     R"(template <class V, class R, class T, int n> FUNCTION void load_shared(R (&to)[n], const T* from) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
    shared_piece(p.piece, from + i);
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    // Gives zeros where the condition does not hold. It works on whole pieces; lane by lane, each lane would cost a
    // move.
    {"load_constant_or_zero", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_constant_or_zero(R (&to)[n], )"
     R"(const T* from, bool holds) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
    p.piece = V();
    if (holds) p.piece = __ldg((const V*)(from + i));
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    {"load_vector_or_zero", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_vector_or_zero(R (&to)[n], )"
     R"(const T* from, bool holds) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
    p.piece = V();
    if (holds) p.piece = *(const V*)(from + i);
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    // The same with another value of all lanes.
    {"load_constant_or", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_constant_or(R (&to)[n], )"
     R"(const T* from, bool holds, T otherwise) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
#pragma unroll
    for (int j = 0; j < per; ++j) p.lanes[j] = otherwise;
    if (holds) p.piece = __ldg((const V*)(from + i));
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    {"load_vector_or", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void load_vector_or(R (&to)[n], )"
     R"(const T* from, bool holds, T otherwise) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
#pragma unroll
    for (int j = 0; j < per; ++j) p.lanes[j] = otherwise;
    if (holds) p.piece = *(const V*)(from + i);
#pragma unroll
    for (int j = 0; j < per; ++j) to[i + j] = p.lanes[j];
  }
}
)"},
    {"store_vector", "Pieces",
     R"(template <class V, class R, class T, int n> FUNCTION void store_vector(T* to, const R (&from)[n]) {
  constexpr int per = sizeof(V) / sizeof(T);
#pragma unroll
  for (int i = 0; i < n; i += per) {
    Pieces<V, T> p;
#pragma unroll
    for (int j = 0; j < per; ++j) p.lanes[j] = from[i + j];
    *(V*)(to + i) = p.piece;
  }
}
)"},
    // Shuffles of any type: the value of thread `from` of the warp.
    {"shuffle", "", R"(template <class T> FUNCTION T shuffle(u32 mask, T v, int from) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_sync(mask, (int)v, from);
  else return __shfl_sync(mask, v, from);
}
)"},
    {"shuffle_xor", "", R"(template <class T> FUNCTION T shuffle_xor(u32 mask, T v, int bits) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(mask, (int)v, bits);
  else return __shfl_xor_sync(mask, v, bits);
}
)"},
    // The next launch may start once all blocks of this one have come here. Nothing before this reads or writes memory.
    {"wait_for_launches", "", R"(FUNCTION void wait_for_launches() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
)",
     0, true},
    // From global to shared memory, past the registers and, where 16 bytes are copied, past the first-level cache.
    // Zeros where the condition does not hold: then nothing is read.
    {"copy_async", "", R"(template <int bytes> FUNCTION void copy_async(void* to, const void* from, bool holds) {
  const u32 at = (u32)__cvta_generic_to_shared(to), read = holds ? bytes : 0;
  if (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(at), "l"(from), "r"(read) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(at), "l"(from), "n"(bytes), "r"(read) : "memory");
  }
}
)",
     80, true},
    // Ends a group of copies and waits for all groups but the last ones.
    {"wait_for_copies", "", R"(template <int left> FUNCTION void wait_for_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}
)",
     80, true},
    // Brings the cache line into L2.
    {"prefetch_line", "", R"(FUNCTION void prefetch_line(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(at));
}
)",
     0, true},
    // d += a b^T: the thread's part of 16 x 8 results over 16 terms. Pitches are in elements. Of a, so many terms of a
    // row lie side by side, and the next ones a line further.
    {"mma_f16", "",
     R"(FUNCTION void mma_f16(float (&d)[4], const u16* a, int row_pitch, int width, int line_pitch, const u16* b,
                      int b_pitch) {
  const int lane = threadIdx.x % 32, row = lane / 4, term = lane % 4 * 2;
  const u16 *above = a + row * row_pitch + term / width * line_pitch + term % width;
  const u16 *further = a + row * row_pitch + (term + 8) / width * line_pitch + (term + 8) % width;
  const u16* column = b + row * b_pitch + term;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(*(const u32*)above), "r"(*(const u32*)(above + 8 * row_pitch)), "r"(*(const u32*)further),
                 "r"(*(const u32*)(further + 8 * row_pitch)), "r"(*(const u32*)column), "r"(*(const u32*)(column + 8)));
}
)",
     80, true},
    {"mma_bf16", "",
     R"(FUNCTION void mma_bf16(float (&d)[4], const u16* a, int row_pitch, int width, int line_pitch, const u16* b,
                      int b_pitch) {
  const int lane = threadIdx.x % 32, row = lane / 4, term = lane % 4 * 2;
  const u16 *above = a + row * row_pitch + term / width * line_pitch + term % width;
  const u16 *further = a + row * row_pitch + (term + 8) / width * line_pitch + (term + 8) % width;
  const u16* column = b + row * b_pitch + term;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(*(const u32*)above), "r"(*(const u32*)(above + 8 * row_pitch)), "r"(*(const u32*)further),
                 "r"(*(const u32*)(further + 8 * row_pitch)), "r"(*(const u32*)column), "r"(*(const u32*)(column + 8)));
}
)",
     80, true},
    // For ordered tasks.
    {"take_number", "", kTakeNumber, 0, true},
    {"end_task", "", kEndTask, 70, true},
    {"await_tasks", "", kAwaitTasks, 70, true},
    {"find_task", "", kFindTask},
    // For clusters of thread blocks.
    {"arrive_cluster", "", kArriveCluster, 90, true},
    {"wait_cluster", "", kWaitCluster, 90, true},
    {"begin_cluster", "", kBeginCluster, 90, true},
    {"open_mailbox", "", kOpenMailbox, 90, true},
    {"mail_piece", "", kMailPiece, 90, true},
    {"mail", "Pieces mail_piece", kMail, 90},
    {"await_mail", "", kAwaitMail, 90, true},
    {"in_block", "", kInBlock, 90, true},
    // As descriptors of swizzled rows need it.
    {"aligned_shared", "", R"(extern __shared__ __align__(1024) unsigned char aligned_shared[];
)",
     0, true},
    {"dynamic_shared", "", R"(extern __shared__ __align__(16) unsigned char dynamic_shared[];
)",
     0, true},
};

// Whether the table has a part named before + name + after.
constexpr bool has_part(std::string_view before, std::string_view name, std::string_view after) {
  for (const Part& part : kParts) {
    if (part.name.size() == before.size() + name.size() + after.size() && part.name.starts_with(before) &&
        part.name.ends_with(after) && part.name.substr(before.size(), name.size()) == name) {
      return true;
    }
  }
  return false;
}

const Part& part_named(const std::string& name, int sm) {
  for (const Part& part : kParts) {
    if (part.name == name && part.from_sm <= sm) return part;
  }
  FUSEC_CHECK(false) << "no part " << name << " of the CUDA prelude";
  return kParts[0];
}

}  // namespace

namespace spell {

#define SCALAR_OP(name, arity, typing, reference, cuda, ...)     \
  static_assert(is_complete(cuda, ir::Typing::typing, has_part), \
                "the op " #name " has no CUDA text, or one with a function that the prelude lacks");
#define SCALAR_FN(name, reference, cuda, ...) SCALAR_OP(name, 1, float_, reference, cuda)
#define SCALAR_DEF(...)
#include "ir/ops/scalar_ops.def"
#define KERNEL_OP(name, arity, typing, reference, cuda, ...)     \
  static_assert(is_complete(cuda, ir::Typing::typing, has_part), \
                "the op " #name " has no CUDA text, or one with a function that the prelude lacks");
#include "ir/ops/kernel_ops.def"

}  // namespace spell

std::string Prelude::use(const std::string& name) {
  if (!present_.insert(name).second) return name;
  if (name == "LANES") return name;
  const Part& part = part_named(name, sm_);
  for (std::string_view rest = part.needs; !rest.empty();) {
    const std::size_t end = rest.find(' ');
    use(std::string(rest.substr(0, end)));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  (part.ptx ? ptx_ : text_) += part.text;
  return name;
}

void Prelude::define(const std::string& name, const std::string& text) {
  if (present_.insert(name).second) text_ += text;
}

void Prelude::define_ptx(const std::string& name, const std::string& text) {
  if (present_.insert(name).second) ptx_ += text;
}

std::string Prelude::str() const {
  std::string out(kTypes);
  if (present_.contains("LANES")) {
    out += "#define LANES(n) _Pragma(\"unroll\") for (" + index_type_ + " lane = 0; lane < n; ++lane)\n";
  }
  if (!ptx_.empty()) out += "\n#ifndef FUSEC_CUDA_EMULATION\n" + ptx_ + "#endif\n";
  if (!text_.empty()) out += "\n" + text_;
  return out;
}

}  // namespace fusec::codegen::cuda
