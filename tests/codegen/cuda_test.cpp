// SPDX-License-Identifier: Apache-2.0
// Artifacts of GPU targets: cubins, figures, keys, and what cannot be written.
#include "codegen/cuda/cuda.h"

#include <gtest/gtest.h>

#include <fstream>

#include "codegen/ptx/ptx.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"
#include "tests/codegen/scheduled_rows.h"

namespace fusec::codegen_test {
namespace {

Target sm(const char* name) { return named_target(name).value(); }

constexpr const char* kClusterSoftmax = R"(graph @main(%x: f16[$B, 50304]) {
  %c = cast %x {to = f32}: f32[$B, 50304]
  %0 = reduce_max %c {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %c, %1: f32[$B, 50304]
  %3 = exp %2: f32[$B, 50304]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = div %3, %5: f32[$B, 50304]
  %7 = cast %6 {to = f16}: f16[$B, 50304]
  return %7 as "y"
})";

// Two phases; the second has more shared memory than a function may declare.
constexpr const char* kTwoPhases = R"(kernel @two(%x: in f32[n, 16384], %y: out f32[n, 16384], %z: out f32[n]) {
  grid r in n {
    v0: f32 = reduce.max tree(0, 0) block t in 128, seq s in 128 {
      v1: f32 = load x[r, 128*s + t]
      yield v1
    }
    store z[r], v0
  }
  grid q in n {
    alloc row: shared f32[16384]
    seq i in 64 {
      block t0 in 256 {
        v2: f32 = load x[q, 256*i + t0]
        store row[256*i + t0], v2
      }
    }
    sync.block
    seq j in 64 {
      block t1 in 256 {
        v3: f32 = load row[16383 - 256*j - t1]
        store y[q, 256*j + t1], v3
      }
    }
  }
}
)";

// Left alone, NVRTC 13.0 takes 167 registers for this kernel.
TEST(CudaArtifact, LetsSeveralBlocksOfAClusterBeResident) {
  codegen::EmitOptions options;
  options.codegen = Codegen::nvrtc;
  const Scheduled s = schedule(kClusterSoftmax, 1335, kManySmsOfClusters);
  ASSERT_NE(print(s.kernel).find("cluster"), std::string::npos);
  const auto artifact = codegen_test::emit(s.kernel, sm("sm_90"), options);
  if (artifact.status().code() == StatusCode::unsupported) GTEST_SKIP() << artifact.status().str();
  ASSERT_TRUE(artifact.ok()) << artifact.status().str();
  EXPECT_EQ(artifact->phases.at(0).threads, 256);
  EXPECT_LE(artifact->phases.at(0).registers, 128);
}

TEST(CudaArtifact, HasCubinPtxAndFigures) {
  codegen::EmitOptions options;
  options.codegen = Codegen::nvrtc;
  const auto artifact = codegen_test::emit(cuda_kernel(kTwoPhases), sm("sm_90"), options);
  if (artifact.status().code() == StatusCode::unsupported) GTEST_SKIP() << artifact.status().str();
  ASSERT_TRUE(artifact.ok()) << artifact.status().str();
  ASSERT_GT(artifact->image.size(), 4u);
  EXPECT_EQ(std::string(artifact->image.begin() + 1, artifact->image.begin() + 4), "ELF");
  EXPECT_NE(artifact->ptx.find(".target sm_90"), std::string::npos);
  ASSERT_EQ(artifact->phases.size(), 2u);
  const codegen::ArtifactPhase &first = artifact->phases[0], &second = artifact->phases[1];
  EXPECT_EQ(first.entry, "kernel_0");
  EXPECT_EQ(first.iterations.str(), "n");
  EXPECT_EQ(first.threads, 128);
  EXPECT_EQ(first.dynamic_shared, 0);
  EXPECT_EQ(first.shared_bytes, 16);  // a value of each of four warps
  EXPECT_EQ(first.local_bytes, 0);
  EXPECT_GT(first.registers, 8);
  EXPECT_EQ(second.entry, "kernel_1");
  EXPECT_EQ(second.threads, 256);
  EXPECT_EQ(second.dynamic_shared, 65536);
  EXPECT_EQ(second.shared_bytes, 0);
  EXPECT_TRUE(first.waits && second.waits);
  EXPECT_TRUE(artifact->text.empty());
  options.keep_text = true;
  const auto again = codegen_test::emit(cuda_kernel(kTwoPhases), sm("sm_90"), options);
  EXPECT_NE(again->text.find("dynamic_shared + 0"), std::string::npos);
  EXPECT_TRUE(again->image == artifact->image);
}

// Programmatic dependent launch is there from sm_90 on.
TEST(CudaArtifact, WaitsForEarlierLaunchesWhereTheTargetCan) {
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
    for (const auto& [target, waits] : {std::pair{"sm_80", false}, {"sm_90", true}}) {
      const auto artifact = codegen_test::emit(cuda_kernel(kTwoPhases), sm(target), {.codegen = codegen});
      if (artifact.status().code() == StatusCode::unsupported) GTEST_SKIP() << artifact.status().str();
      ASSERT_TRUE(artifact.ok()) << artifact.status().str();
      for (const codegen::ArtifactPhase& phase : artifact->phases) EXPECT_EQ(phase.waits, waits) << target;
    }
  }
}

TEST(CudaArtifact, DamagedCubinsSayNothing) {
  const auto artifact = codegen_test::emit(cuda_kernel(kTwoPhases), sm("sm_90"), {.codegen = Codegen::nvrtc});
  if (artifact.status().code() == StatusCode::unsupported) GTEST_SKIP() << artifact.status().str();
  ASSERT_TRUE(artifact.ok()) << artifact.status().str();
  EXPECT_EQ(codegen::cuda::read_resources(artifact->image).size(), 2u);
  EXPECT_TRUE(codegen::cuda::read_resources({}).empty());
  for (std::size_t i = 0; i < artifact->image.size(); i += 7) {
    std::vector<uint8_t> cut(artifact->image.begin(), artifact->image.begin() + static_cast<std::ptrdiff_t>(i)),
        bent = artifact->image;
    bent[i] ^= 0xff;
    EXPECT_TRUE(codegen::cuda::read_resources(cut).empty() || i >= 64);  // without the file's header there is nothing
    codegen::cuda::read_resources(bent);
  }
}

TEST(CudaArtifact, KeysTellTargetsAndEmittersApart) {
  const ir::Kernel kernel = cuda_kernel(kTwoPhases);
  const std::string key = codegen::artifact_key(kernel, sm("sm_90"), Codegen::nvrtc);
  EXPECT_NE(key, codegen::artifact_key(kernel, sm("sm_80"), Codegen::nvrtc));
  EXPECT_NE(key, codegen::artifact_key(kernel, sm("sm_90"), Codegen::llvm));
  EXPECT_NE(key.find("nvrtc-"), std::string::npos);
}

// No name of a model may reach the text as code.
TEST(CudaText, HoldsNoNamesOfTheKernel) {
  const ir::Kernel kernel = cuda_kernel(R"(kernel @"evil()\\"(%asm_volatile: in f32[exit], %abort: out f32[exit]) {
  grid goto in exit {
    block while in 4 {
      v0: f32 = load asm_volatile[goto] guard(while - 4) else 0
      store abort[goto], v0 guard(-while)
    }
  }
}
)");
  const std::string text = codegen_test::emit_text(kernel, sm("sm_90"), Codegen::nvrtc).value();
  for (const char* name : {"evil", "asm_volatile", "abort", "exit", "goto", "while"}) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at) {
      const std::size_t line = text.rfind('\n', at) + 1;
      EXPECT_LT(text.find("//", line), at) << name;
    }
  }
}

TEST(CudaArtifact, ErrorsOfTheAssemblerAndOfItsResult) {
  if (codegen::has_assembler()) {
    const Status status = codegen::assemble("no PTX", sm("sm_90")).status();
    EXPECT_EQ(status.code(), StatusCode::compile_failed);
    EXPECT_NE(status.message().find(" for sm_90: error "), std::string::npos) << status.message();
  }
  std::vector<codegen::ArtifactPhase> phases(1);
  phases[0].entry = "phase0";
  EXPECT_EQ(codegen::cuda::add_resources({}, phases).str(), "internal: the cubin says nothing of phase0");
}

// i8, i16, i32 and i64 are types.
TEST(CudaText, LoopVariablesAreNoTypes) {
  std::string text = "kernel @k(%x: in i8[n], %y: out i8[n]) {\n  grid g in n {\n    block t in 32 {\n",
              end = "    }\n  }\n}\n";
  for (int k = 0; k < 70; ++k) {
    const std::string n = std::to_string(k);
    text +=
        "      seq s" + n + " in 2 {\n        v" + n + ": i8 = load x[g]\n        store y[g], v" + n + "\n      }\n";
  }
  const ir::Kernel kernel = cuda_kernel(text + end);
  const std::string code = codegen_test::emit_text(kernel, sm("sm_90"), Codegen::nvrtc).value();
  EXPECT_NE(code.find("i74 = 0;"), std::string::npos) << code;
  for (const char* type : {"i8", "i16", "i32", "i64"}) {
    EXPECT_EQ(code.find(std::string(" ") + type + " = 0;"), std::string::npos) << type;
  }
  const auto artifact = codegen_test::emit(kernel, sm("sm_90"), {.codegen = Codegen::nvrtc});
  if (artifact.status().code() == StatusCode::unsupported) GTEST_SKIP() << artifact.status().str();
  EXPECT_TRUE(artifact.ok()) << artifact.status().str();
}

// NVRTC would take those that may be -inf as not below 0.
TEST(CudaText, QuotientsOfAnyDivisorAreInstructions) {
  for (const std::string type : {"f32", "f64"}) {
    const std::string of = ": " + type + " = ", suffix = type == "f32" ? "f" : "";
    const std::string code =
        codegen_test::emit_text(
            cuda_kernel("kernel @k(%x: in " + type + "[n], %w: in " + type + "[n], %y: out " + type +
                        "[n]) {\n  grid i in n {\n    v0" + of + "load x[i]\n    v1" + of + "load w[i]\n    v2" + of +
                        "div v0, v1\n    v3" + of + "div 1, v2\n    v4" + of + "div v3, -0\n    v5" + of +
                        "div v4, -2\n    store y[i], v5\n  }\n}\n"),
            sm("sm_90"), Codegen::nvrtc)
            .value();
    EXPECT_NE(code.find("= div_" + type + "(v0, v1);"), std::string::npos) << code;
    EXPECT_NE(code.find("= reciprocal_" + type + "(v2);"), std::string::npos) << code;
    EXPECT_NE(code.find("= div_" + type + "(v3, -0.0" + suffix + ");"), std::string::npos) << code;
    EXPECT_NE(code.find("= v4 / (-2.0" + suffix + ");"), std::string::npos) << code;
  }
}

TEST(CudaText, RefusesWhatItCannotWrite) {
  const auto refused = [&](const std::string& body, const std::string& named, const std::string& why) {
    const std::string text = "kernel @k(%x: in f32[n, 64], %y: out f32[n, 64]) {\n" + body + "}\n";
    const Status status = codegen_test::emit_text(cuda_kernel(text), sm("sm_90"), Codegen::nvrtc).status();
    EXPECT_EQ(status.code(), StatusCode::compile_failed) << body;
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  };
  refused("  grid r in n {\n    block t in n {\n      store y[t, 0], 0\n    }\n  }\n", "block", "no constant");
  refused("  grid r in n {\n    block t in 2048 {\n      store y[r, 0], 0 guard(-t)\n    }\n  }\n", "2048",
          "limit is 1024");
  refused("  grid r in n {\n    cluster c in 2 {\n      store y[r, c], 0\n    }\n  }\n", "2 threads", "cluster of 2");
  refused("  grid r in n {\n    cluster c in n {\n      store y[c, 0], 0\n    }\n  }\n", "cluster", "no constant");
  // 66 of 96 threads exchange values through shared memory.
  refused(
      "  grid r in n {\n    block t0 in 96 {\n      store y[r, 0], 0 guard(-t0)\n    }\n    block w in 2 {\n      v0: "
      "f32 = "
      "reduce.add tree(0, 0) block t in 33 {\n        v1: f32 = load x[r, t]\n        yield v1\n      }\n      store "
      "y[r, "
      "w + 1], v0\n    }\n  }\n",
      "if (", "barrier");
  // Each thread of a warp has another number of iterations.
  refused(
      "  grid r in n {\n    block w in 8 {\n      seq i in w {\n        v0: f32 = reduce.add tree(0, 0) block t in 4 "
      "{\n       "
      "   v1: f32 = load x[r, t]\n          yield v1\n        }\n        store y[r, w], v0\n      }\n    }\n  }\n",
      "reduce.add", "come here together");
  refused(
      "  alloc a: reg f32[n, 2]\n  grid r in n boundary coop {\n    store a[r, 0], 0\n  }\n  grid q in n {\n    v0: "
      "f32 = load a[q, 0]\n"
      "    store y[q, 0], v0\n  }\n",
      "'a'", "not declared");
}

// What asks whether an emitter works gives it no work.
TEST(CudaArtifact, AKernelWithoutStatements) {
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
    const auto artifact = codegen_test::emit(ir::Kernel(), named_target("sm_90").value(), {.codegen = codegen});
    if (artifact.status().code() == StatusCode::unsupported) continue;
    ASSERT_TRUE(artifact.ok()) << artifact.status().str();
    EXPECT_TRUE(artifact->phases.empty());
  }
}

// What NVRTC refuses is shown with its number and its neighbours.
TEST(CudaSource, IsShownWhereNvrtcRefusesIt) {
  std::string source;
  for (int i = 1; i <= 30; ++i) source += "int line" + std::to_string(i) + ";\n";
  const std::string shown = codegen::cuda::source_at_errors(
      source, "kernel.cu(2): error: a\nkernel.cu(9): warning: b\nkernel.cu(20): error: c\nkernel.cu(21): error: d\n");
  EXPECT_EQ(shown.find("     1 | int line1;\n>    2 | int line2;\n     3 | int line3;\n"), 0u) << shown;
  EXPECT_NE(shown.find("     5 | int line5;\n   ...\n    17 | int line17;\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(">   20 | int line20;\n>   21 | int line21;\n"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("line25"), std::string::npos) << shown;
  EXPECT_EQ(codegen::cuda::source_at_errors(source, "out of memory"), "");
}

TEST(CudaSource, ErrorsOfNvrtcCarryIt) {
  const auto cubin = codegen::cuda::compile("__global__ void k(int* x) {\n  *x = no_such_name;\n}\n", "sm_90");
  if (cubin.status().code() == StatusCode::unsupported) GTEST_SKIP() << cubin.status().str();
  EXPECT_EQ(cubin.status().code(), StatusCode::compile_failed);
  const std::string message = cubin.status().str();
  EXPECT_NE(message.find("kernel.cu(2): error: identifier \"no_such_name\" is undefined"), std::string::npos)
      << message;
  EXPECT_NE(message.find(">    2 |   *x = no_such_name;\n     3 | }\n"), std::string::npos) << message;
}

}  // namespace
}  // namespace fusec::codegen_test
