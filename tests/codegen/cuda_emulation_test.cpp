// SPDX-License-Identifier: Apache-2.0
// Loads, stores, guards, shared memory and threads of generated CUDA, run on the CPU, with the evaluator's bits.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

constexpr const char* kDtypes[] = {"f64", "f32", "f16", "bf16", "i8",  "i16", "i32",
                                   "i64", "u8",  "u16", "u32",  "u64", "bool"};

// Vectors of every width and element, aligned as `align` says, whole and cut off.
TEST(CudaAccess, EveryDtypeAndWidthMoves) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* dtype : kDtypes) {
    for (const int width : {1, 2, 4, 8, 16}) {
      const std::string lane = width == 1 ? "" : " + lane", minus = width == 1 ? "" : " - lane";
      cases.push_back({filled(R"(kernel @move(%x: in $T[n] align $align, %y: out $T[n] align $align, %z: out $T[2*n], )"
                              R"(%q: out $T[n] align $align) facts($facts) {
  grid b in floordiv(n + 8*$s - 1, 8*$s) {
    alloc h: shared $T[8, $s]
    block t in 8 {
      v0: $T$w = load x[8*$s*b + $s*t$lane] guard(n - 1 - 8*$s*b - $s*t$minus) else $zero
      store y[8*$s*b + $s*t$lane], v0 guard(n - 1 - 8*$s*b - $s*t$minus)
      store z[2*$s*(8*b + t) + 1$twice], v0 guard(n - 1 - 8*$s*b - $s*t$minus)
      store h[t$comma], v0
    }
    sync.block
    block u in 8 {
      v1: $T$w = load h[7 - u$comma]
      store q[8*$s*b + $s*(7 - u)$lane], v1 guard(n - 1 - 8*$s*b - $s*(7 - u)$minus)
    }
  }
}
)",
                              {{"$T", dtype},
                               {"$w", width == 1 ? "" : "." + std::to_string(width)},
                               {"$s", std::to_string(width)},
                               {"$lane", lane},
                               {"$minus", minus},
                               {"$twice", width == 1 ? "" : " + 2*lane"},
                               {"$zero", std::string(dtype) == "bool" ? "false" : "0"},
                               {"$comma", width == 1 ? ", 0" : ", lane"},
                               {"$align", width % 4 ? "8" : "16"},
                               {"$facts", width == 8 ? "fits32, n % 8 == 0" : "fits32"}}),
                       {{{"n", 1000}}, {{"n", width == 8 ? 72 : 75}}},
                       {0, -100, 100, 2}});
    }
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaAccess, IndicesGuardsAndBroadcasts) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  expect_cuda_like_evaluator({
      {R"(kernel @strided(%x: in f32[4*n], %y: out f32[n], %z: out f32[n]) {
  grid b in floordiv(n + 63, 64) {
    block t in 8 {
      v0: f32.8 = load x[256*b + 32*t + 4*lane + 3] guard(n - 1 - 64*b - 8*t - lane) else -1
      store y[64*b + 8*t + lane], v0 guard(n - 1 - 64*b - 8*t - lane)
      v1: f32.8 = load x[n - 1 - 64*b - 8*t - lane] guard(n - 1 - 64*b - 8*t - lane) else 2
      v2: f32.8 = load x[floordiv(64*b + 8*t + lane, 3)] guard(n - 1 - 64*b - 8*t - lane) else 2
      v3: f32.8 = load x[mod(64*b + 8*t + lane, n)]
      v6: f32.8 = load x[floordiv(64*b + 8*t + lane - 100, 7) + 20]
      v4: f32.8 = add v1, v2
      v5: f32.8 = add v4, v3
      v7: f32.8 = sub v5, v6
      store z[n - 1 - 64*b - 8*t - lane], v7 guard(n - 1 - 64*b - 8*t - lane)
    }
  }
}
)",
       {{{"n", 143}}}},
      {R"(kernel @bias(%x: in f32[a, b, c] align 16, %s: in f32[b], %r: in f32[c] align 16, %y: out f32[a, b, )"
       R"(c] align 16) facts(c % 4 == 0, fits32) {
  grid i in a {
    grid j in b {
      grid k in floordiv(c + 31, 32) {
        v1: f32 = load s[j]
        block t in 4 {
          unroll u in 2 {
            v0: f32.4 = load x[i, j, 32*k + 16*u + 4*t + lane] guard(c - 1 - 32*k - 16*u - 4*t - lane) else 0
            v2: f32.4 = load r[32*k + 16*u + 4*t + lane] guard(c - 1 - 32*k - 16*u - 4*t - lane) else 0
            v3: f32.4 = mul v0, v1
            v4: f32.4 = add v3, v2
            store.stream y[i, j, 32*k + 16*u + 4*t + lane], v4 guard(c - 1 - 32*k - 16*u - 4*t - lane)
          }
        }
      }
    }
  }
}
)",
       {{{"a", 3}, {"b", 5}, {"c", 44}}}},
      {R"(kernel @pad(%x: in f32[n, 16], %y: out f32[n + 4, 16]) {
  grid i in n + 4 {
    block t in 4 {
      v0: f32.4 = load x[i - 2, 4*t + lane] guard(i - 2, n + 1 - i) else 9.5
      store y[i, 4*t + lane], v0
    }
  }
}
)",
       {{{"n", 5}}}},
      {R"(kernel @iota(%y: out i32[n, 8], %z: out f32[n, 8], %w: out i64[n, 8], %b: out u8[n, 8]) facts(fits32) {
  grid i in n {
    block t in 2 {
      v0: i32.4 = index 3*i + 2*lane - 5*t
      store y[i, 4*t + lane], v0
      v1: f32.4 = index floordiv(i + lane, 3) - 7
      store z[i, 4*t + lane], v1
      v2: i64 = index i*n*4000000000
      v3: i64.4 = index lane*lane + t
      v4: i64.4 = add v2, v3
      store w[i, 4*t + lane], v4
      v5: u8.4 = cast v4
      store b[i, 4*t + lane], v5
    }
  }
}
)",
       {{{"n", 9}}}},
      {R"(kernel @inplace(%x: in f32[n] align 16, %y: out f32[n] align 16) alias(x, y) {
  grid b in floordiv(n + 15, 16) {
    block t in 4 {
      v0: f32.4 = load x[16*b + 4*t + lane] guard(n - 1 - 16*b - 4*t - lane) else 0
      v1: f32.4 = relu v0
      store y[16*b + 4*t + lane], v1 guard(n - 1 - 16*b - 4*t - lane)
    }
  }
}
)",
       {{{"n", 37}}}},
  });
}

TEST(CudaMemory, TransposesAndLocalBuffers) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* layout : {"", " layout \"pitch 33\"", " layout \"pitch 36\""}) {
    for (const char* dtype : {"f32", "f16"}) {
      cases.push_back(
          {filled(R"(kernel @transpose(%x: in $T[m, n] align 16, %y: out $T[n, m] align 16) facts(m % 32 == 0, )"
                  R"(n % 32 == 0, fits32) {
  grid i in floordiv(m, 32) {
    grid j in floordiv(n, 32) {
      alloc tile: shared $T[32, 32]$layout
      block t0 in 256 {
        v0: $T.4 = load x[32*i + floordiv(t0, 8), 32*j + 4*mod(t0, 8) + lane]
        store tile[floordiv(t0, 8), 4*mod(t0, 8) + lane], v0
      }
      sync.block
      block t1 in 256 {
        v1: $T.4 = load tile[4*mod(t1, 8) + lane, floordiv(t1, 8)]
        store y[32*j + floordiv(t1, 8), 32*i + 4*mod(t1, 8) + lane], v1
      }
    }
  }
}
)",
                  {{"$T", dtype}, {"$layout", layout}}),
           {{{"m", 64}, {"n", 96}}}});
    }
  }
  cases.push_back({R"(kernel @registers(%x: in f32[m, 32], %y: out f32[32, m]) {
  grid b in floordiv(m, 4) {
    block t in 8 {
      alloc a: reg f32[4, 4]
      alloc c: reg f32[4, 4] layout "pitch 5"
      unroll i in 4 {
        v0: f32.4 = load x[4*b + i, 4*t + lane]
        store a[i, lane], v0
      }
      transpose c, a
      unroll j in 4 {
        v1: f32.4 = load c[j, lane]
        store y[4*t + j, 4*b + lane], v1
      }
    }
  }
}
)",
                   {{{"m", 12}}}});
  cases.push_back({R"(kernel @large(%x: in f32[m, 16384], %y: out f32[m, 16384]) {
  grid r in m {
    alloc row: shared f32[16384]
    seq i in 64 {
      block t in 256 {
        v0: f32 = load x[r, 256*i + t]
        store row[256*i + t], v0
      }
    }
    sync.block
    seq j in 64 {
      block u in 256 {
        v1: f32 = load row[16383 - 256*j - u]
        store y[r, 256*j + u], v1
      }
    }
  }
}
)",
                   {{{"m", 2}}}});
  expect_cuda_like_evaluator(cases);
}

// Statements outside of block loops, phases of unlike sizes, scratch between grid phases, copies, shared memory in
// loops.
TEST(CudaThreads, UniformStatementsAndPhases) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  expect_cuda_like_evaluator({
      {R"(kernel @uniform(%x: in f32[m, 8], %y: out f32[m, 8], %z: out f32[m]) {
  grid r in m {
    alloc before: shared f32[9]
    alloc own: reg f32[2]
    v9: f32 = load x[r, 3]
    store own[0], v9
    store z[r], v9
    v0: f32 = scan.add exclusive seq i in 9 {
      v1: f32 = load x[r, i] guard(7 - i) else 0
      yield v1
    } then {
      store before[i], v0
    }
    sync.block
    v5: f32 = load own[0]
    block t in 8 {
      v2: f32 = load before[t + 1]
      v3: f32 = mul v2, v5
      store y[r, t], v3
    }
  }
}
)",
       {{{"m", 5}}}},
      {R"(kernel @warps(%x: in f32[m, 64], %y: out f32[m, 64]) {
  grid r in m {
    alloc a: shared f32[4, 16]
    block w in 4 {
      block l0 in 16 {
        v0: f32 = load x[r, 16*w + l0]
        store a[w, l0], v0
      }
      sync.warp
      v8: f32 = load a[w, 15]
      block l1 in 4 {
        v1: f32.4 = load a[w, 4*(3 - l1) + lane]
        v2: f32.4 = add v1, v8
        store y[r, 16*w + 4*l1 + lane], v2
      }
    }
  }
}
)",
       {{{"m", 3}}}},
      {R"(kernel @colsum(%x: in f32[m, n], %y: out f32[n]) facts(n % 4 == 0) {
  alloc part: scratch f32[floordiv(m + 7, 8), n]
  grid p in floordiv(m + 7, 8) {
    grid c in floordiv(n + 31, 32) {
      block j0 in 8 {
        v0: f32.4 = reduce.add tree(1, 0) seq i in 8 {
          v1: f32.4 = load x[8*p + i, 32*c + 4*j0 + lane] guard(m - 1 - 8*p - i, n - 1 - 32*c - 4*j0 - lane) else 0
          yield v1 guard(m - 1 - 8*p - i)
        }
        store part[p, 32*c + 4*j0 + lane], v0 guard(n - 1 - 32*c - 4*j0 - lane)
      }
    }
  }
  grid b in n {
    v2: f32 = reduce.add tree(0, 0) seq q in floordiv(m + 7, 8) {
      v3: f32 = load part[q, b]
      yield v3
    }
    store y[b], v2
  }
}
)",
       {{{"m", 43}, {"n", 40}}}},
      {R"(kernel @stages(%x: in f32[n, 32], %y: out f32[32]) {
  grid g in 1 {
    alloc tile: shared f32[2, 4, 32]
    alloc sum: reg f32[32]
    block t0 in 32 {
      store sum[t0], 0
    }
    seq s in floordiv(n, 4) {
      copy.async tile[mod(s, 2), 0, 0], x[4*s, 0] box [4, 32]
      sync.block
      block t1 in 32 {
        unroll i in 4 {
          v0: f32 = load tile[mod(s, 2), i, 31 - t1]
          v1: f32 = load sum[t1]
          v2: f32 = add v0, v1
          store sum[t1], v2
        }
      }
    }
    block t2 in 32 {
      v3: f32 = load sum[t2]
      store y[t2], v3
    }
  }
}
)",
       {{{"n", 24}}}},
      // Each thread copies by itself, and the copies of the next row are under way while one is read.
      {R"(kernel @copies(%x: in f16[n, 64] align 16, %y: out f32[64]) {
  grid g in 1 {
    alloc tile: shared f16[2, 64]
    alloc sum: reg f32[64]
    block t0 in 64 {
      store sum[t0], 0
    }
    block t1 in 8 {
      copy.async tile[0, 8*t1], x[0, 8*t1] box [8] guard(n - 1)
    }
    sync.copies 1
    seq s in n {
      block t2 in 16 {
        copy.async tile[mod(s + 1, 2), 4*t2], x[s + 1, 4*t2] box [4] guard(n - 2 - s, 11 - t2)
      }
      sync.copies 1
      block t3 in 64 {
        v0: f16 = load tile[mod(s, 2), 63 - t3]
        v1: f32 = cast v0
        v2: f32 = load sum[t3]
        v3: f32 = add v2, v1
        store sum[t3], v3
      }
    }
    sync.copies 0
    block t4 in 64 {
      v4: f32 = load sum[t4]
      store y[t4], v4
    }
  }
}
)",
       {{{"n", 5}}}},
      {R"(kernel @depthwise(%x: in f16[n, h, w, 8] align 16, %k: in f16[3, 3, 8] align 16, )"
       R"(%b: in f32[8] align 16, %y: out f16[n, h, w, 8] align 16, %pool: out f32[n, h, 8]) {
  grid i in n {
    grid p in h {
      block t in 2 {
        v0: f32.4 = load b[4*t + lane]
        v1: f32.4 = reduce.add tree(1, 0) seq q in w {
          v2: f32.4 = reduce.add tree(1, 0) seq dy in 3, unroll dx in 3 {
            v3: f16.4 = load x[i, p + dy - 1, q + dx - 1, 4*t + lane] guard(p + dy - 1, h - p - dy, q + dx - 1, )"
       R"(w - q - dx) else 0
            v4: f16.4 = load k[dy, dx, 4*t + lane]
            v5: f32.4 = cast v3
            v6: f32.4 = cast v4
            v7: f32.4 = mul v5, v6
            yield v7
          }
          v8: f32.4 = add v2, v0
          v9: f32.4 = clamp v8, 0, 6
          v10: f16.4 = cast v9
          store y[i, p, q, 4*t + lane], v10
          yield v9
        }
        store pool[i, p, 4*t + lane], v1
      }
    }
  }
}
)",
       {{{"n", 1}, {"h", 3}, {"w", 5}}}},
  });
}

std::string cuda_text(const ir::Kernel& kernel, Codegen codegen = Codegen::nvrtc) {
  const auto text = codegen_test::emit_text(kernel, named_target("sm_90").value(), codegen);
  EXPECT_TRUE(text.ok()) << text.status().str();
  return text.ok() ? *text : "";
}

constexpr const char* kReverse = R"(kernel @reverse(%x: in f32[m, 64], %y: out f32[m, 64]) {
  grid r in m {
    alloc row: shared f32[64]
    block t in 64 {
      v0: f32 = load x[r, t]
      store row[t], v0
    }
    sync.block
    block u in 64 {
      v1: f32 = load row[63 - u]
      store y[r, u], v1
    }
    sync.block
  }
}
)";

// Without its barrier a kernel gives other results under the emulation: what the tests here see is not an accident.
// Zeros, infinities, NaN, and sizes at which a quotient's remainder or reciprocal is denormal.
// Two warps, each of two tiles of 16 x 8 results over 32 terms, from padded shared memory.
TEST(CudaThreads, MatrixInstructions) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* dtype : {"f16", "bf16"}) {
    cases.push_back({filled(R"(kernel @product(%x: in $T[n] align 16, %w: in $T[512] align 16, %y: out f32[n]) )"
                            R"(facts(n % 1024 == 0, fits32) {
  grid b in floordiv(n, 1024) {
    alloc A: shared $T[32, 32] layout "pitch 40"
    alloc B: shared $T[16, 32] layout "pitch 40"
    alloc sums: reg f32[2, 32, 2, 4]
    block r in 16 {
      block c in 4 {
        unroll h in 2 {
          v0: $T.8 = load x[1024*b + 64*r + 32*h + 8*c + lane]
          store A[2*r + h, 8*c + lane], v0
        }
        v1: $T.8 = load w[32*r + 8*c + lane]
        store B[r, 8*c + lane], v1
      }
    }
    block warp in 2 {
      block thread in 32 {
        v2: f32.4 = where true, 0, 0
        unroll j in 2 {
          store sums[warp, thread, j, lane], v2
        }
        unroll k in 2 {
          unroll m in 2 {
            v3: f32.4 = load sums[warp, thread, m, lane]
            v4: f32.4 = mma v3, A[16*warp, 16*k], B[8*m, 16*k] by thread
            store sums[warp, thread, m, lane], v4
          }
        }
        unroll o in 2 {
          unroll p in 2 {
            v5: f32.2 = load sums[warp, thread, o, 2*p + lane]
            store y[1024*b + 512*warp + 32*floordiv(thread, 4) + 256*p + 8*o + 2*mod(thread, 4) + lane], v5
            store y[1024*b + 512*warp + 32*floordiv(thread, 4) + 256*p + 8*o + 2*mod(thread, 4) + lane + 16], v5
          }
        }
      }
    }
  }
}
)",
                            {{"$T", dtype}}),
                     {{{"n", 2048}}},
                     {0, -100, 100, 2}});
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaDivision, OfSeveralLanesByOneRoundsAsOneDivisionDoes) {
  FUSEC_NEEDS_COMPILER();
  std::vector<EmulationCase> cases;
  for (const char* divisor : {"3", "-0.7", "1e-30", "1e-39", "3e38", "0", "-0", "inf", "nan", "1.1754944e-38"}) {
    for (const char* scale : {"1", "1e-36", "1e36", "1e-45", "0", "-0", "inf", "nan"}) {
      cases.push_back({filled(R"(kernel @quotient(%x: in f32[64], %y: out f32[64]) {
  grid b in 2 {
    block t in 4 {
      v0: f32.8 = load x[32*b + 8*t + lane]
      v1: f32.8 = mul v0, $scale
      v2: f32.8 = div v1, $divisor
      store y[32*b + 8*t + lane], v2
    }
  }
}
)",
                              {{"$scale", scale}, {"$divisor", divisor}}),
                       {{}}});
    }
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaEmulation, SeesAMissingBarrier) {
  FUSEC_NEEDS_COMPILER();
  const ir::Kernel kernel = cuda_kernel(kReverse);
  const std::string good = cuda_text(kernel), bad = filled(good, {{"__syncthreads();", ";"}});
  ASSERT_NE(good, bad);
  const auto library = EmulationLibrary::make({kernel, kernel}, {good, bad});
  ASSERT_NE(library, nullptr);
  const Extents extents = {{"m", 1}};
  for (const bool reversed : {false, true}) {
    const std::vector<Tensor> args = make_args(kernel, extents, 3, -1, 1),
                              broken = make_args(kernel, extents, 3, -1, 1);
    EXPECT_EQ(library->run(0, args, extents, reversed).error, "");
    library->run(1, broken, extents, reversed);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(args[1].as<float>()[i], args[0].as<float>()[63 - i]);
    EXPECT_NE(std::memcmp(args[1].data(), broken[1].data(), args[1].bytes()), 0);
  }
}

TEST(CudaEmulation, SeesBarriersThatNotAllReachAndWrongAddresses) {
  FUSEC_NEEDS_COMPILER();
  const ir::Kernel kernel = cuda_kernel(kReverse);
  const std::string good = cuda_text(kernel);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {filled(good, {{"__syncthreads();", "if (threadIdx.x < 40) __syncthreads();"}}), "not all threads reach"},
      {filled(good, {{"__syncthreads();", "if (threadIdx.x < 40) __shfl_sync(0xffffffffu, 0, 0);"}}),
       "not all threads reach"},
      {filled(good, {{"float s2[64]", "float s2[60]"}}), "out of an array"},
      {filled(good, {{"= s2[", "= *(float*)(1 + (char*)s2) + s2["}}), "not aligned"}};
  std::vector<std::string> texts;
  for (const auto& [text, error] : cases) texts.push_back(text);
  const auto library = EmulationLibrary::make(std::vector<ir::Kernel>(cases.size(), kernel), texts);
  ASSERT_NE(library, nullptr);
  const Extents extents = {{"m", 1}};
  const std::vector<Tensor> args = make_args(kernel, extents, 3, -1, 1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_NE(library->run(i, args, extents, false).error.find(cases[i].second), std::string::npos) << cases[i].second;
  }
}

// Rows by one index, and elements by one index for each lane.
std::vector<ir::Kernel> gather_kernels() {
  const ir::Kernel wide =
      cuda_kernel(R"(kernel @gather(%x: in f32[n, 8] align 16, %i: in i64[m], %y: out f32[m, 8]) facts(fits32) {
  grid r in m {
    v0: i64 = load i[r]
    block t in 2 {
      v1: f32.4 = load x[v0, 4*t + lane] clamp(0)
      store y[r, 4*t + lane], v1
    }
  }
}
)");
  const ir::Kernel lanes = cuda_kernel(R"(kernel @gather(%x: in f32[n], %i: in i64[m], %y: out f32[m, 1]) {
  grid r in floordiv(m, 4) {
    v0: i64.4 = load i[4*r + lane]
    v1: f32.4 = load x[v0] clamp(0) guard(m - 1 - 4*r - lane) else 5
    store y[4*r + lane, 0], v1
  }
}
)");
  return {wide, lanes};
}

using RunGather = std::function<RunOutcome(std::size_t k, const std::vector<Tensor>& args, const Extents& extents)>;

void expect_gathers(const std::vector<ir::Kernel>& kernels, const RunGather& run_kernel) {
  for (const std::size_t k : {0, 1}) {
    const int64_t row = k == 0 ? 8 : 1;
    const Extents extents = {{"n", 5}, {"m", 4}};
    std::vector<Tensor> args = make_args(kernels[k], extents, 1, 0, 1);
    const auto run = [&](std::vector<int64_t> indices, std::vector<int64_t> rows, int32_t status) {
      std::copy(indices.begin(), indices.end(), args[1].as<int64_t>());
      const RunOutcome outcome = run_kernel(k, args, extents);
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.status, status);
      for (int64_t r = 0; r < 4; ++r) {
        EXPECT_EQ(args[2].as<float>()[row * r], args[0].as<float>()[row * rows[static_cast<std::size_t>(r)]]) << r;
      }
    };
    run({0, 4, -5, -1}, {0, 4, 0, 4}, 0);
    run({0, 5, -6, 1}, {0, 4, 0, 1}, 1);
    run({int64_t{1} << 40, 2, 3, -(int64_t{1} << 40)}, {4, 2, 3, 0}, 1);
    const Extents none = {{"n", 0}, {"m", 4}};
    const Tensor nothing =
        Tensor::make(DType::f32, k == 0 ? std::vector<int64_t>{0, 8} : std::vector<int64_t>{0}).value();
    EXPECT_EQ(run_kernel(k, {nothing, args[1], args[2]}, none).status, 1);
  }
}

void expect_gathers_under_emulation(Codegen codegen) {
  const std::vector<ir::Kernel> kernels = gather_kernels();
  const auto library =
      EmulationLibrary::make(kernels, {cuda_text(kernels[0], codegen), cuda_text(kernels[1], codegen)});
  ASSERT_NE(library, nullptr);
  expect_gathers(kernels, [&](std::size_t k, const auto& args, const auto& extents) {
    return library->run(k, args, extents, true);
  });
}

TEST(CudaGather, WrapsClampsAndReports) {
  FUSEC_NEEDS_COMPILER();
  expect_gathers_under_emulation(Codegen::nvrtc);
}

TEST(NvptxGather, WrapsClampsAndReports) {
  FUSEC_NEEDS_LLVM_COMPILER();
  expect_gathers_under_emulation(Codegen::llvm);
}

TEST(GpuGather, WrapsClampsAndReports) {
  for (const GpuMode& mode : kGpuModes) {
    FUSEC_NEEDS_GPU(mode);
    const std::vector<ir::Kernel> kernels = gather_kernels();
    const auto library = GpuLibrary::make(kernels, mode);
    ASSERT_NE(library, nullptr);
    expect_gathers(
        kernels, [&](std::size_t k, const auto& args, const auto& extents) { return library->run(k, args, extents); });
  }
}

}  // namespace
}  // namespace fusec::codegen_test
