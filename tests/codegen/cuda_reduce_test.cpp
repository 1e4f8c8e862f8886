// SPDX-License-Identifier: Apache-2.0
// Reductions and scans of generated CUDA, run on the CPU, against the evaluator, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/kernel_text.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

// A row of n for each block, reduced by `loops`; `$at` stands for the element, `$w` for ".4" and the like.
std::string row(const std::string& combiner, const std::string& tree, const std::string& dtype, int width,
                const std::string& loops, const std::string& at) {
  const std::string lane = width > 1 ? " + lane" : "", minus = width > 1 ? " - lane" : "";
  return filled(R"(kernel @row(%x: in $T[m, n], %y: out $T[m]) {
  grid r in m {
    v0: $T = reduce.$C tree($tree) $loops {
      v1: $T$w = load x[r, $at$lane] guard(n - 1 - ($at)$minus) else $zero
      yield v1 guard(n - 1 - ($at)$minus)
    }
    store y[r], v0
  }
}
)",
                {{"$C", combiner},
                 {"$tree", tree},
                 {"$T", dtype},
                 {"$w", width > 1 ? "." + std::to_string(width) : ""},
                 {"$loops", loops},
                 {"$at", at},
                 {"$lane", lane},
                 {"$minus", minus},
                 {"$zero", dtype == "bool" ? "false" : "0"}});
}

// Loop variables with `digit` behind them, so that a text can stand in one kernel again.
std::string renamed(const std::string& text, char digit) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const auto is_letter = [&](std::size_t k) {
      return k < text.size() && std::isalpha(static_cast<unsigned char>(text[k]));
    };
    if (is_letter(i) && !is_letter(i + 1) && (i == 0 || !is_letter(i - 1))) out += digit;
  }
  return out;
}

struct Form {
  const char *name, *tree, *loops, *at;
  int width;
};

// In a thread, in a warp, in a block of warps, and mixtures; the order of the tree kept.
constexpr Form kForms[] = {
    {"sequence", "1, 0", "seq s in n", "s", 1},
    {"lanes", "8, 0", "seq s in floordiv(n + 7, 8)", "8*s", 8},
    {"unrolled lanes", "8, 0", "seq s in floordiv(n + 7, 8), unroll u in 2", "8*s + 4*u", 4},
    {"chunks in a thread", "8, 16", "unroll c in 4, unroll s in 2", "16*c + 8*s", 8},
    {"warp", "32, 0", "block t in 32", "t", 1},
    {"part of a warp", "0, 0", "block t in 8, unroll u in 2", "8*t + 4*u", 4},
    {"warp of sequences", "128, 0", "seq s in floordiv(n + 127, 128), block t in 32", "128*s + 4*t", 4},
    {"two warps", "0, 0", "block t in 64", "2*t", 2},
    {"three warps", "0, 0", "block t in 96", "t", 1},
    {"eight warps", "256, 0", "block t in 256", "t", 1},
    {"warps own chunks", "128, 128", "block w in 4, unroll q in 2, block l in 32", "256*w + 128*q + 4*l", 4},
    {"warps and sequences", "512, 0", "seq s in floordiv(n + 511, 512), block w in 4, block l in 32",
     "512*s + 128*w + 4*l", 4},
    {"six threads", "0, 0", "block t in 6, unroll u in 4", "4*t + u", 1},
    {"forty threads", "0, 0", "block t in 40, unroll u in 2", "2*t + u", 1},
    {"groups of eight", "0, 0", "block w in 12, unroll q in 2, block l in 8", "16*w + 8*q + l", 1},
    {"warps of a cluster", "128, 128", "cluster c in 2, block w in 2, block l in 32", "256*c + 128*w + 4*l", 4},
    {"chunks of a cluster", "64, 64", "cluster c in 4, block w in 2, unroll q in 2, block l in 32",
     "256*c + 128*w + 64*q + 2*l", 2},
};

const Form& form_named(const std::string& name) {
  return *std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return form.name == name; });
}

std::vector<EmulationCase> forms(const std::string& combiner, const std::string& dtype) {
  std::vector<EmulationCase> out;
  for (const Form& f : kForms) {
    std::vector<Extents> extents;
    for (const int64_t n : {0, 1, 23, 200}) extents.push_back({{"m", 2}, {"n", n}});
    out.push_back({row(combiner, f.tree, dtype, f.width, f.loops, f.at), extents});
  }
  return out;
}

TEST(CudaReduce, FormsOfSums) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  expect_cuda_like_evaluator(forms("add", "f32"));
}

// Where the order is free, loops and tree need not go together.
TEST(CudaReduce, CombinersAndTypes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  const Form& f = form_named("warps own chunks");
  std::vector<EmulationCase> cases;
  const std::vector<Extents> extents = {{{"m", 2}, {"n", 300}}};
  for (const char* dtype : {"f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u32", "u64"}) {
    for (const char* combiner : {"add", "mul", "max", "min"}) {
      cases.push_back({row(combiner, f.tree, dtype, f.width, f.loops, f.at), extents});
    }
    // Through mailboxes, or between barriers where values are of 8 or 16 bits.
    const Form& clusters = form_named("warps of a cluster");
    cases.push_back({row("max", clusters.tree, dtype, clusters.width, clusters.loops, clusters.at), extents});
    cases.push_back(
        {row("max", "8, 0", dtype, 2, "block t in 50, seq s in floordiv(n + 99, 100)", "100*s + 2*t"), extents});
  }
  for (const char* combiner : {"and", "or"}) {
    cases.push_back({row(combiner, f.tree, "bool", f.width, f.loops, f.at), {{{"m", 9}, {"n", 3}}}, {0, 0, 100, 2}});
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaReduce, Tuples) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* dtype : {"f32", "f64", "f16"}) {
    for (const auto& [loops, at, tree] : std::vector<std::tuple<const char*, const char*, const char*>>{
             {"block t in 16", "4*t", "64, 0"},
             {"block t in 64", "4*t", "0, 0"},
             {"block t in 12", "4*t", "0, 0"},
             {"block w in 10, unroll q in 2, block l in 32", "256*w + 128*q + 4*l", "128, 128"},
             {"cluster c in 2, block w in 4, block l in 32", "512*c + 128*w + 4*l", "128, 128"},
             {"seq s in 5, block t in 16", "64*s + 4*t", "64, 0"},
             {"seq s in 70", "4*s", "4, 0"}}) {
      cases.push_back({filled(R"(kernel @tuples(%x: in $T[m, n], %y: out $T[m, 7], %i: out i64[m, 4]) {
  grid r in m {
    v0: $T, v1: $T, v2: $T = reduce.welford tree($tree) $loops {
      v3: $T.4 = load x[r, $at + lane] guard(n - 1 - ($at) - lane) else 0
      yield v3, 0, 1 guard(n - 1 - ($at) - lane)
    }
    store y[r, 0], v0
    store y[r, 1], v1
    store y[r, 2], v2
    v10: $T, v11: i64 = reduce.argmax tree($tree) $loop2 {
      v12: $T.4 = load x[r, $at2 + lane] guard(n - 1 - ($at2) - lane) else 0
      v13: i64.4 = index $at2 + lane
      yield v12, v13 guard(n - 1 - ($at2) - lane)
    }
    store y[r, 3], v10
    store i[r, 0], v11
    v20: $T, v21: i64 = reduce.argmin_last tree($tree) $loop3 {
      v22: $T.4 = load x[r, $at3 + lane] guard(n - 1 - ($at3) - lane) else 0
      v23: i64.4 = index $at3 + lane
      yield v22, v23 guard(n - 1 - ($at3) - lane)
    }
    store y[r, 4], v20
    store i[r, 1], v21
  }
}
)",
                              {{"$T", dtype},
                               {"$tree", tree},
                               {"$loops", loops},
                               {"$at2", renamed(at, '2')},
                               {"$at3", renamed(at, '3')},
                               {"$at", at},
                               {"$loop2", renamed(loops, '2')},
                               {"$loop3", renamed(loops, '3')}}),
                       {{{"m", 3}, {"n", 250}}, {{"m", 1}, {"n", 5}}},
                       {0, -3, 3}});
    }
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaReduce, MaxAndSumOfExponentials) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* loops : {"block t in 64", "seq t in 64", "block t in 16, unroll u in 4"}) {
    const std::string at =
        std::string(loops).find('u', 10) != std::string::npos && loops[14] == ',' ? "16*t + 4*u" : "4*t";
    cases.push_back({filled(R"(kernel @lse(%x: in f32[m, n], %y: out f32[m, 2]) {
  grid r in m {
    v0: f32, v1: f32 = reduce.max_sum tree(0, 0) $loops {
      v2: f32.4 = load x[r, $at + lane] guard(n - 1 - ($at) - lane) else 0
      yield v2, 1 guard(n - 1 - ($at) - lane)
    }
    store y[r, 0], v0
    store y[r, 1], v1
  }
}
)",
                            {{"$loops", loops}, {"$at", at}}),
                     {{{"m", 3}, {"n", 201}}},
                     {16}});
  }
  expect_cuda_like_evaluator(cases);
}

// Rows side by side in one vector; results in all threads; a reduce in a loop, whose shared memory is used again.
TEST(CudaReduce, LanesLoopsAndIdleThreads) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  expect_cuda_like_evaluator({
      {R"(kernel @columns(%x: in f32[m, n], %y: out f32[n]) {
  grid c in floordiv(n + 3, 4) {
    v0: f32.4 = reduce.add tree(0, 0) block t in 64, unroll u in 2 {
      v1: f32.4 = load x[2*t + u, 4*c + lane] guard(n - 1 - 4*c - lane, m - 1 - 2*t - u) else 0
      yield v1 guard(m - 1 - 2*t - u)
    }
    store y[4*c + lane], v0 guard(n - 1 - 4*c - lane)
  }
}
)",
       {{{"m", 101}, {"n", 10}}}},
      {R"(kernel @uses(%x: in f32[m, 128], %y: out f32[m, 128]) {
  grid r in m {
    v0: f32 = reduce.add tree(0, 0) block t0 in 8 {
      v1: f32.16 = load x[r, 16*t0 + lane]
      yield v1
    }
    block t1 in 128 {
      v2: f32 = load x[r, t1]
      v3: f32 = sub v2, v0
      store y[r, t1], v3
    }
  }
}
)",
       {{{"m", 3}}}},
      {R"(kernel @rows(%x: in f32[m, 128], %y: out f32[m, 128]) {
  grid b in floordiv(m + 3, 4) {
    seq i in 4 {
      v0: f32 = reduce.max tree(0, 0) block t0 in 128 {
        v1: f32 = load x[4*b + i, t0] guard(m - 1 - 4*b - i) else 0
        yield v1
      }
      v4: f32 = reduce.add tree(0, 0) block t2 in 40 {
        v5: f32 = load x[4*b + i, t2] guard(m - 1 - 4*b - i) else 0
        yield v5
      }
      v6: f32 = add v0, v4
      block t1 in 128 {
        v2: f32 = load x[4*b + i, t1] guard(m - 1 - 4*b - i) else 0
        v3: f32 = sub v2, v6
        store y[4*b + i, t1], v3 guard(m - 1 - 4*b - i)
      }
    }
  }
}
)",
       {{{"m", 6}}}},
      {R"(kernel @groups(%x: in f32[m, 128], %y: out f32[m, 128]) {
  grid b in floordiv(m + 3, 4) {
    block w in 4 {
      v0: f32 = reduce.add tree(0, 0) block l0 in 32 {
        v1: f32.4 = load x[4*b + w, 4*l0 + lane] guard(m - 1 - 4*b - w) else 0
        yield v1
      }
      v9: f32 = reduce.add tree(0, 0) block l3 in 5 {
        v8: f32 = load x[4*b + w, l3] guard(m - 1 - 4*b - w) else 0
        yield v8
      }
      v7: f32 = mul v0, v9
      store y[4*b + w, 0], v7 guard(m - 1 - 4*b - w)
      block l1 in 31 {
        v2: f32.4 = load x[4*b + w, 4*l1 + 4 + lane] guard(m - 1 - 4*b - w) else 0
        v3: f32.4 = sub v2, v7
        store y[4*b + w, 4*l1 + 4 + lane], v3 guard(m - 1 - 4*b - w)
      }
    }
  }
}
)",
       {{{"m", 6}}}},
  });
}

TEST(CudaScan, InclusiveExclusiveReverse) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* mode : {"", " exclusive", " reverse", " exclusive reverse"}) {
    cases.push_back({std::string(R"(kernel @scan(%x: in f32[m, n, 2], %y: out f32[m, n, 2]) {
  grid r in m {
    v0: f32.2 = scan.add)") +
                         mode + R"( seq i in n {
      v1: f32.2 = load x[r, i, lane]
      yield v1
    } then {
      store y[r, i, lane], v0
    }
  }
}
)",
                     {{{"m", 3}, {"n", 10}}}});
  }
  expect_cuda_like_evaluator(cases);
}

TEST(CudaReduce, RefusesOrdersThatItDoesNotKeep) {
  const Target target = named_target("sm_90").value();
  for (const auto& [tree, loops, at] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"8, 0", "block t in 4", "8*t"},
           {"8, 16", "block t in 4", "8*t"},
           {"0, 0", "block t in 4, unroll u in 3", "3*t + u"}}) {
    const int width = std::string(loops).size() > 14 ? 1 : 8;
    const auto kernel = ir::parse_kernel(row("add", tree, "f32", width, loops, at));
    ASSERT_TRUE(kernel.ok()) << kernel.status().str();
    const Status status = codegen_test::emit_text(*kernel, target, Codegen::nvrtc).status();
    EXPECT_EQ(status.code(), StatusCode::compile_failed) << tree;
    EXPECT_NE(status.message().find("reduce.add"), std::string::npos) << status.str();
  }
}

}  // namespace
}  // namespace fusec::codegen_test
