// SPDX-License-Identifier: Apache-2.0
// Loops, loads, stores and guards of generated host code against the evaluator, bit for bit.
#include <gtest/gtest.h>

#include "tests/codegen/differential.h"

namespace fusec::codegen_test {
namespace {

constexpr const char* kHardSwish = R"(kernel @hswish(%x: in f32[n], %y: out f32[n]) {
  grid b in floordiv(n + 255, 256) {
    seq i in 4 {
      unroll u in 4 {
        v0: f32.16 = load x[256*b + 64*i + 16*u + lane] guard(n - 1 - 256*b - 64*i - 16*u - lane) else 0
        v1: f32.16 = add v0, 3
        v2: f32.16 = max v1, 0
        v3: f32.16 = min v2, 6
        v4: f32.16 = mul v0, v3
        v5: f32.16 = div v4, 6
        store y[256*b + 64*i + 16*u + lane], v5 guard(n - 1 - 256*b - 64*i - 16*u - lane)
      }
    }
  }
}
)";

TEST(Pointwise, FlatWithTail) {
  for (const int64_t n : {0, 1, 15, 16, 17, 255, 256, 257, 1000}) expect_like_evaluator(kHardSwish, {{"n", n}});
}

TEST(Pointwise, StreamingStoresWhereAligned) {
  expect_like_evaluator(R"(kernel @copy(%x: in f32[n] align 64, %y: out f32[n] align 64) {
  grid b in floordiv(n + 31, 32) {
    unroll u in 2 {
      v0: f32.16 = load x[32*b + 16*u + lane] guard(n - 1 - 32*b - 16*u - lane) else 0
      prefetch x[32*b + 1024]
      store.stream y[32*b + 16*u + lane], v0 guard(n - 1 - 32*b - 16*u - lane)
    }
  }
}
)",
                        {{"n", 100}});
}

TEST(Pointwise, GridOfThreeLoopsWithBroadcasts) {
  expect_like_evaluator(R"(kernel @bias(%x: in f32[a, b, c], %s: in f32[b], %r: in f32[c], %y: out f32[a, b, c]) {
  grid i in a {
    grid j in b {
      grid k in floordiv(c + 7, 8) {
        v0: f32.8 = load x[i, j, 8*k + lane] guard(c - 1 - 8*k - lane) else 0
        v1: f32 = load s[j]
        v2: f32.8 = load r[8*k + lane] guard(c - 1 - 8*k - lane) else 0
        v3: f32.8 = mul v0, v1
        v4: f32.8 = add v3, v2
        store y[i, j, 8*k + lane], v4 guard(c - 1 - 8*k - lane)
      }
    }
  }
}
)",
                        {{"a", 3}, {"b", 5}, {"c", 29}});
}

TEST(Pointwise, StridedReversedAndComputedIndices) {
  expect_like_evaluator(R"(kernel @strided(%x: in f32[4*n], %y: out f32[n], %z: out f32[n]) {
  grid b in floordiv(n + 7, 8) {
    v0: f32.8 = load x[32*b + 4*lane + 3] guard(n - 1 - 8*b - lane) else -1
    store y[8*b + lane], v0 guard(n - 1 - 8*b - lane)
    v1: f32.8 = load x[n - 1 - 8*b - lane] guard(n - 1 - 8*b - lane) else 2
    v2: f32.8 = load x[floordiv(8*b + lane, 3)] guard(n - 1 - 8*b - lane) else 2
    v3: f32.8 = load x[mod(8*b + lane, n)]
    v4: f32.8 = add v1, v2
    v5: f32.8 = add v4, v3
    store z[n - 1 - 8*b - lane], v5 guard(n - 1 - 8*b - lane)
  }
}
)",
                        {{"n", 43}});
}

TEST(Pointwise, LaneFreeGuards) {
  expect_like_evaluator(R"(kernel @pad(%x: in f32[n, 16], %y: out f32[n + 4, 16]) {
  grid i in n + 4 {
    v0: f32.16 = load x[i - 2, lane] guard(i - 2, n + 1 - i) else 9.5
    store y[i, lane], v0
    v1: f32 = load x[i - 2, 3] guard(i - 2, n + 1 - i) else 1.5
    store y[i, 3], v1 guard(i - 3)
  }
}
)",
                        {{"n", 5}});
}

TEST(Pointwise, EveryDtypeMoves) {
  for (const char* dtype :
       {"f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
    for (const int width : {1, 2, 4, 8, 16, 32}) {
      const std::string d = dtype, w = width == 1 ? "" : "." + std::to_string(width), s = std::to_string(width);
      const std::string lane = width == 1 ? "" : " + lane", minus = width == 1 ? "" : " - lane";
      const std::string at = s + "*b" + lane, guard = " guard(n - 1 - " + s + "*b" + minus + ")";
      const std::string zero = d == "bool" ? "false" : "0";
      expect_like_evaluator("kernel @move(%x: in " + d + "[n], %y: out " + d + "[n], %z: out " + d + "[2*n]) {\n" +
                                "  grid b in floordiv(n + " + s + " - 1, " + s + ") {\n    v0: " + d + w +
                                " = load x[" + at + "]" + guard + " else " + zero + "\n    store y[" + at + "], v0" +
                                guard + "\n    store z[" + "2*" + s + "*b + 1" + (width == 1 ? "" : " + 2*lane") +
                                "], v0" + guard + "\n  }\n}\n",
                            {{"n", 75}}, {0, -100, 100, 2});
    }
  }
}

TEST(Pointwise, IndexValues) {
  expect_like_evaluator(R"(kernel @iota(%y: out i32[n, 8], %z: out f32[n, 8], %w: out i64[n, 8]) {
  grid i in n {
    v0: i32.8 = index 3*i + 2*lane - 5
    store y[i, lane], v0
    v1: f32.8 = index floordiv(i + lane, 3)
    store z[i, lane], v1
    v2: i64 = index i*n
    v3: i64.8 = index lane*lane
    v4: i64.8 = add v2, v3
    store w[i, lane], v4
  }
}
)",
                        {{"n", 9}});
}

}  // namespace
}  // namespace fusec::codegen_test
