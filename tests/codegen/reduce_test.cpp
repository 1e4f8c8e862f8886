// SPDX-License-Identifier: Apache-2.0
// Reductions, scans, local buffers and transposes of generated host code against the evaluator, bit for bit.
#include <gtest/gtest.h>

#include "tests/codegen/differential.h"

namespace fusec::codegen_test {
namespace {

std::string row_reduce(const std::string& combiner, const std::string& tree, const std::string& dtype, int width,
                       int unroll) {
  const std::string w = std::to_string(width), u = std::to_string(unroll), step = std::to_string(width * unroll);
  const std::string lane = width > 1 ? " + lane" : "", at = step + "*s + " + w + "*u" + lane;
  const std::string minus = width > 1 ? " - lane" : "";
  const std::string guard = " guard(n - 1 - " + step + "*s - " + w + "*u" + minus + ")";
  const std::string wide = width > 1 ? "." + w : "";
  return "kernel @row(%x: in " + dtype + "[m, n], %y: out " + dtype + "[m]) {\n  grid r in m {\n    v0: " + dtype +
         " = reduce." + combiner + " tree(" + tree + ") seq s in floordiv(n + " + step + " - 1, " + step +
         "), unroll u in " + u + " {\n      v1: " + dtype + wide + " = load x[r, " + at + "]" + guard + " else " +
         (dtype == "bool" ? "false" : "0") + "\n      yield v1" + guard + "\n    }\n    store y[r], v0\n  }\n}\n";
}

TEST(Reduce, RowsByTree) {
  for (const auto& [tree, width, unroll] : std::vector<std::tuple<std::string, int, int>>{{"32, 0", 16, 2},
                                                                                          {"32, 0", 8, 4},
                                                                                          {"32, 0", 8, 8},
                                                                                          {"16, 0", 16, 1},
                                                                                          {"4, 0", 16, 1},
                                                                                          {"32, 0", 4, 1},
                                                                                          {"1, 0", 1, 1},
                                                                                          {"1, 0", 1, 4},
                                                                                          {"8, 0", 1, 8},
                                                                                          {"6, 0", 4, 2},
                                                                                          {"6, 0", 4, 3}}) {
    for (const int64_t n : {0, 1, 37, 128}) {
      expect_like_evaluator(row_reduce("add", tree, "f32", width, unroll), {{"m", 3}, {"n", n}});
    }
  }
}

TEST(Reduce, CombinersAndTypes) {
  for (const char* combiner : {"add", "mul", "max", "min"}) {
    for (const char* dtype : {"f64", "f32", "f16", "bf16", "i8", "i32", "i64", "u8", "u32"}) {
      expect_like_evaluator(row_reduce(combiner, "16, 0", dtype, 16, 1), {{"m", 2}, {"n", 45}});
    }
  }
  expect_like_evaluator(row_reduce("and", "16, 0", "bool", 16, 1), {{"m", 9}, {"n", 3}});
  expect_like_evaluator(row_reduce("or", "16, 0", "bool", 16, 1), {{"m", 9}, {"n", 3}});
}

TEST(Reduce, BalancedOverAnyCount) {
  for (const int64_t n : {0, 1, 2, 3, 6, 7, 64, 100}) {
    expect_like_evaluator(R"(kernel @balanced(%x: in f32[n, 8], %y: out f32[8], %z: out f32[2]) {
  grid j in 8 {
    v0: f32 = reduce.add tree(0, 0) seq q in n {
      v1: f32 = load x[q, j]
      yield v1
    }
    store y[j], v0
  }
  v2: f32 = reduce.add tree(0, 0) seq q2 in n {
    v3: f32.8 = load x[q2, lane]
    yield v3
  }
  store z[0], v2
  v4: f32 = reduce.add tree(0, 0) seq q3 in 5 {
    v5: f32.8 = load x[0, lane] guard(n - 1) else 1
    yield v5 guard(lane - q3)
  }
  store z[1], v4
}
)",
                          {{"n", n}});
  }
}

TEST(Reduce, ChunksAndTuples) {
  expect_like_evaluator(R"(kernel @tuples(%x: in f32[m, 64], %y: out f32[m, 8], %i: out i64[m, 2]) {
  grid r in m {
    v0: f32 = reduce.add tree(8, 16) block t in 8, unroll k in 8 {
      v1: f32 = load x[r, 8*t + k]
      yield v1
    }
    store y[r, 0], v0
    v2: f32, v3: f32, v4: f32 = reduce.welford tree(8, 0) seq s in 8 {
      v5: f32.8 = load x[r, 8*s + lane]
      yield v5, 0, 1
    }
    store y[r, 1], v2
    store y[r, 2], v3
    store y[r, 3], v4
    v6: f32, v7: i64 = reduce.argmax tree(16, 0) seq s2 in 4 {
      v8: f32.16 = load x[r, 16*s2 + lane]
      v9: i64.16 = index 16*s2 + lane
      yield v8, v9 guard(57 - 16*s2 - lane)
    }
    store y[r, 4], v6
    store i[r, 0], v7
    v10: f32, v11: i64 = reduce.argmin_last tree(1, 0) seq s3 in 64 {
      v12: f32 = load x[r, s3]
      v13: i64 = index s3
      yield v12, v13
    }
    store y[r, 5], v10
    store i[r, 1], v11
  }
}
)",
                        {{"m", 5}});
}

TEST(Reduce, MaxAndSumOfExponentials) {
  expect_like_evaluator(R"(kernel @lse(%x: in f32[m, 40], %y: out f32[m, 2]) {
  grid r in m {
    v0: f32, v1: f32 = reduce.max_sum tree(16, 0) seq s in 3 {
      v2: f32.16 = load x[r, 16*s + lane] guard(39 - 16*s - lane) else 0
      yield v2, 1 guard(39 - 16*s - lane)
    }
    store y[r, 0], v0
    store y[r, 1], v1
  }
}
)",
                        {{"m", 4}}, {8});
}

TEST(Reduce, ColumnsByLane) {
  expect_like_evaluator(R"(kernel @columns(%x: in f32[m, n], %y: out f32[n]) {
  grid c in floordiv(n + 15, 16) {
    v0: f32.16 = reduce.add tree(4, 0) seq r in floordiv(m + 3, 4), unroll u in 4 {
      v1: f32.16 = load x[4*r + u, 16*c + lane] guard(n - 1 - 16*c - lane, m - 1 - 4*r - u) else 0
      yield v1 guard(m - 1 - 4*r - u)
    }
    store y[16*c + lane], v0 guard(n - 1 - 16*c - lane)
  }
}
)",
                        {{"m", 11}, {"n", 40}});
}

TEST(Scan, InclusiveExclusiveReverse) {
  for (const char* mode : {"", " exclusive", " reverse", " exclusive reverse"}) {
    expect_like_evaluator(R"(kernel @scan(%x: in f32[m, n], %y: out f32[m, n]) {
  grid r in m {
    v0: f32 = scan.add)" + std::string(mode) +
                              R"( seq i in n {
      v1: f32 = load x[r, i]
      yield v1
    } then {
      store y[r, i], v0
    }
  }
}
)",
                          {{"m", 3}, {"n", 10}});
  }
}

TEST(Local, SlotsMemoryAndTransposes) {
  for (const char* n : {"4", "8", "16"}) {
    for (const char* dtype : {"f32", "f16", "u8", "f64", "bool"}) {
      expect_like_evaluator(filled(R"(kernel @transpose(%x: in $T[m, $n], %y: out $T[$n, m]) {
  grid b in floordiv(m, $n) {
    alloc a: reg $T[$n, $n]
    alloc t: reg $T[$n, $n]
    unroll i in $n {
      v0: $T.$n = load x[$n*b + i, lane]
      store a[i, lane], v0
    }
    transpose t, a
    unroll j in $n {
      v1: $T.$n = load t[j, lane]
      store y[j, $n*b + lane], v1
    }
  }
}
)",
                                   {{"$T", dtype}, {"$n", n}}),
                            {{"m", 3 * std::stoi(n)}}, {0, 0, 100, 2});
    }
  }
}

TEST(Local, SymbolicSizes) {
  expect_like_evaluator(R"(kernel @twice(%x: in f32[m, n], %y: out f32[m, n]) {
  grid r in m {
    alloc row: reg f32[n]
    alloc half: shared f16[n, 3]
    seq i in n {
      v0: f32 = load x[r, i]
      store row[i], v0
      v1: f16 = cast v0
      store half[i, 2], v1
    }
    seq j in n {
      v2: f32 = load row[n - 1 - j]
      v3: f16 = load half[j, 2]
      v4: f32 = cast v3
      v5: f32 = add v2, v4
      store y[r, j], v5
    }
  }
}
)",
                        {{"m", 3}, {"n", 21}});
}

TEST(Gather, WrapsClampsAndReports) {
  expect_like_evaluator(R"(kernel @gather(%x: in f32[n, 8], %i: in i64[m], %y: out f32[m, 8]) {
  grid r in m {
    v0: i64 = load i[r]
    v1: f32.8 = load x[v0, lane] clamp(0)
    store y[r, lane], v1
  }
}
)",
                        {{"n", 6}, {"m", 9}}, {0, -6, 5.9, 2});
}

}  // namespace
}  // namespace fusec::codegen_test
