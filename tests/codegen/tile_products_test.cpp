// SPDX-License-Identifier: Apache-2.0
// Products of tiles: their code under the emulation and on a GPU against the evaluator, and what NVRTC makes of it.
#include <gtest/gtest.h>

#include "codegen/cuda/cuda.h"
#include "codegen/emit.h"
#include "codegen/ptx/ptx.h"
#include "ir/kernel/tile_memory.h"
#include "tests/codegen/texts_run.h"

namespace fusec::codegen_test {
namespace {

// 24 terms and 40 columns fill neither a chunk nor a tile of 64 rows and 64 columns.
std::string small_kernel(const char* dtype) {
  return filled(
      R"(kernel @tiles(%a: in $T[24*m] align 16, %w: in $T[960] align 16, %y: out f32[40*m] align 16) extents(m) {
  grid i in floordiv(m + 63, 64) {
    alloc sums: reg f32[128, 1, 8, 4]
    block t0 in 128 {
      tile_product sums[t0], a[1536*i] pitch 24, w[0] pitch 24 size [m - 64*i, 40, 24] by t0
    }
    alloc C: shared f32[64, 64] layout "pitch 72"
    block t1 in 128 {
      unroll g in 8 {
        unroll h in 2 {
          v0: f32.2 = load sums[t1, 0, g, 2*h + lane]
          store C[16*floordiv(t1, 32) + floordiv(mod(t1, 32), 4) + 8*h, 8*g + 2*mod(t1, 4) + lane], v0
        }
      }
    }
    block t2 in 128 {
      unroll s in 8 {
        v1: f32.4 = load C[8*s + floordiv(t2, 16), 4*mod(t2, 16) + lane]
        store y[2560*i + 320*s + 40*floordiv(t2, 16) + 4*mod(t2, 16) + lane], v1 )"
      R"(guard(m - 1 - 64*i - 8*s - floordiv(t2, 16), 9 - mod(t2, 16))
      }
    }
  }
}
)",
      {{"$T", dtype}});
}

// A product with a bias, an activation and maybe a residual. What is stored has 16 bits.
std::string graph(const char* dtype, int64_t columns, int64_t terms, bool residual, const char* activation = "silu") {
  return filled(
      R"(graph @main(%x: $T[$B, $k], %w: $T[$n, $k], %b: f32[$n], %r: $T[$B, $n]) {
  %0 = reshape %x {shape = [$B, 1, $k]}: $T[$B, 1, $k]
  %1 = cast %0 {to = f32}: f32[$B, 1, $k]
  %2 = cast %w {to = f32}: f32[$n, $k]
  %3 = mul %1, %2: f32[$B, $n, $k]
  %4 = reduce_sum %3 {axes = [2]}: f32[$B, $n]
  %5 = add %4, %b: f32[$B, $n]
  %6 = $f %5: f32[$B, $n]
  %7 = cast %6 {to = $T}: $T[$B, $n]
  %8 = add %7, %r: $T[$B, $n]
  return $y as "y"
}
)",
      {{"$T", dtype},
       {"$n", std::to_string(columns)},
       {"$k", std::to_string(terms)},
       {"$y", residual ? "%8" : "%7"},
       {"$f", activation}});
}

struct Shape {
  const char* dtype;
  int64_t rows, columns, terms;
  bool residual = true;
  const char* activation = "silu";
};
// Rows, columns and terms that fill tiles and chunks, and that do not.
constexpr Shape kShapes[] = {{"f16", 150, 216, 200}, {"bf16", 70, 208, 216}, {"f16", 128, 256, 192}};
// More tiles than a block takes in its first two turns, where the GPU is taken to have few multiprocessors.
constexpr Shape kLargeShapes[] = {{"f16", 900, 216, 200},
                                  {"bf16", 1000, 384, 320},
                                  {"f16", 3, 256, 1024},
                                  {"f16", 500, 576, 256, false, "gelu"},
                                  {"bf16", 400, 568, 264, false}};
// Sums of other orders, rounded to 16 bits once or twice.
constexpr Expectation kClose{4, -2, 2, 1, 4};

Scheduled scheduled(const Shape& shape, int sms) {
  Scheduled s = schedule(graph(shape.dtype, shape.columns, shape.terms, shape.residual, shape.activation), shape.rows,
                         {sms, true});
  EXPECT_NE(ir::print(s.kernel).find("tile_product"), std::string::npos) << ir::print(s.kernel);
  return s;
}

std::vector<Tensor> evaluated(const Scheduled& s) {
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, kClose.lo, kClose.hi);
  const auto result = ir::evaluate(s.kernel, args, s.extents);
  EXPECT_TRUE(result.ok()) << result.status().str();
  return args;
}

TEST(TileProducts, TheLoweredFormHasTheBitsOfTheScheduledOne) {
  for (const Shape& shape : kShapes) {
    const Scheduled s = scheduled(shape, 4);
    const std::vector<Tensor> want = evaluated(s), got = make_args(s.kernel, s.extents, 7, kClose.lo, kClose.hi);
    const auto lowered = compiler::lower_to_threads(s.kernel);
    ASSERT_TRUE(lowered.ok()) << lowered.status().str();
    EXPECT_TRUE(ir::verify(*lowered).ok()) << ir::verify(*lowered).str() << ir::print(*lowered);
    const auto result = ir::evaluate(*lowered, got, s.extents);
    ASSERT_TRUE(result.ok()) << result.status().str();
    expect_close(got, want, {}, "lowered", ir::print(*lowered));
    if (kSanitized) break;  // they slow the evaluator down
  }
}

TEST(TileProducts, OfAllShapesVerify) {
  for (const int sms : {1, 3})
    for (const Shape& shape : kLargeShapes) {
      const Scheduled s = scheduled(shape, sms);
      const auto lowered = compiler::lower_to_threads(s.kernel);
      ASSERT_TRUE(lowered.ok()) << lowered.status().str();
      EXPECT_TRUE(ir::verify(*lowered).ok()) << ir::verify(*lowered).str() << ir::print(*lowered);
    }
}

TEST(TileProducts, OfOneRowIsLeftToWarps) {
  const Scheduled s = schedule(graph("f16", 256, 1024, true), 1, {3, true});  // which verifies it
  EXPECT_EQ(ir::print(s.kernel).find("tile_product"), std::string::npos) << ir::print(s.kernel);
}

TEST(TileProducts, FitIntoSharedMemory) {
  const Target target = named_target("sm_90").value();
  int tiles = 0;
  for (const int64_t rows : {1, 65, 197, 3136, 20000})
    for (const int64_t columns : {8, 136, 384, 1000, 4096})
      for (const int64_t terms : {16, 136, 768, 4096})
        for (const bool residual : {false, true}) {
          const auto text = filled(graph("f16", columns, terms, residual), {{"$B", std::to_string(rows)}});
          const auto parsed = ir::parse_graph(text);
          ASSERT_TRUE(parsed.ok()) << parsed.status().str();
          const auto parts = compiler::partition(*parsed, target, {});
          ASSERT_TRUE(parts.ok()) << parts.status().str();
          const auto program = compiler::lower(*parsed, *parts, target, {}, {}, {.most = kSanitized ? 1 : 8});
          ASSERT_TRUE(program.ok()) << program.status().str();
          for (const ir::Kernel& kernel : program->kernels) {
            if (!ir::has_tile_product(kernel.body)) continue;
            ++tiles;
            const auto code = codegen_test::emit_text(kernel, target, Codegen::nvrtc);
            EXPECT_TRUE(code.ok()) << code.status().str() << ir::print(kernel);
          }
        }
  EXPECT_GT(tiles, 50);
}

TEST(TileProducts, PlansOfSharedMemoryHoldTheLimit) {
  for (const int64_t limit : {int64_t{99} << 10, int64_t{227} << 10})
    for (int64_t rows = 64; rows <= 128; rows += 64)
      for (int64_t columns = 8; columns <= ir::kMaxTileColumns; columns += 8)
        for (int64_t own = 0; own < 64 << 10; own += 16) {
          const ir::TileMemory plan = ir::plan_tile_memory(rows, columns, own, limit);
          if (!plan.fits()) continue;
          EXPECT_LE(plan.bytes, limit);
          EXPECT_GE(plan.buffers, plan.stages * (rows + columns) * 128 + (2 * plan.stages + 2) * 8);
          EXPECT_EQ(plan.bytes, plan.buffers + 2 * own);
        }
  EXPECT_EQ(ir::plan_tile_memory(128, 128, 18432, 227 << 10).stages, 5);
  EXPECT_EQ(ir::plan_tile_memory(128, 192, 18432, 227 << 10).stages, 4);
}

TEST(TileProducts, MoreSharedMemoryThanThereIsIsRefused) {
  std::string text = small_kernel("f16");
  text.replace(text.find("f32[64, 64]"), 11, "f32[400, 64]");
  const auto code = codegen_test::emit_text(cuda_kernel(text), named_target("sm_90").value(), Codegen::nvrtc);
  EXPECT_EQ(code.status().code(), StatusCode::compile_failed);
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
    const ir::Kernel large = cuda_kernel(R"(kernel @large(%y: out f32[32768]) {
  grid i in 1 {
    alloc C: shared f32[32768]
    block t0 in 128 {
      seq j in 256 {
        store C[128*j + t0], 1
      }
    }
    block t1 in 128 {
      seq j in 256 {
        v0: f32 = load C[128*j + 127 - t1]
        store y[128*j + t1], v0
      }
    }
  }
}
)");
    const auto status = [&](const char* name) {
      return codegen_test::emit_text(large, named_target(name).value(), codegen).status();
    };
    if (status("sm_90").code() == StatusCode::unsupported) continue;  // no such writer
    EXPECT_TRUE(status("sm_90").ok()) << status("sm_90").str();
    EXPECT_EQ(status("sm_75").code(), StatusCode::compile_failed);
  }
}

void run_texts(Codegen codegen) {
  std::vector<Scheduled> all;
  for (const char* dtype : {"f16", "bf16"}) all.push_back({cuda_kernel(small_kernel(dtype)), {{"m", 300}}});
  all.push_back(scheduled(kShapes[0], 4));
  expect_texts_like_evaluator(all, std::vector(all.size(), kClose), codegen);
}

TEST(TileProducts, TheCudaTextRunsLikeTheEvaluator) {
  FUSEC_NEEDS_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  run_texts(Codegen::nvrtc);
}

TEST(TileProducts, TheLlvmTextRunsLikeTheEvaluator) {
  FUSEC_NEEDS_LLVM_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  run_texts(Codegen::llvm);
}

void run_on_gpu(const GpuMode& mode) {
  for (const int sms : {1, 3}) {
    std::vector<Scheduled> all;
    for (const char* dtype : {"f16", "bf16"}) all.push_back({cuda_kernel(small_kernel(dtype)), {{"m", 1000}}});
    for (const Shape& shape : kShapes) all.push_back(scheduled(shape, 132));
    for (const Shape& shape : kLargeShapes) all.push_back(scheduled(shape, sms));
    std::vector<ir::Kernel> kernels;
    for (const Scheduled& s : all) kernels.push_back(s.kernel);
    const auto library = GpuLibrary::make(kernels, mode, sms);
    ASSERT_NE(library, nullptr);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::vector<Tensor> want = evaluated(all[i]),
                                got = make_args(kernels[i], all[i].extents, 7, kClose.lo, kClose.hi);
      const RunOutcome outcome = library->run(i, got, all[i].extents);
      ASSERT_EQ(outcome.error, "") << ir::print(kernels[i]);
      expect_close(got, want, kClose, "a GPU", ir::print(kernels[i]));
    }
  }
}

TEST(TileProducts, OnAGpuTheyAreLikeTheEvaluator) {
  if (!GpuLibrary::available().ok()) GTEST_SKIP() << GpuLibrary::available().str();
  if (!GpuLibrary::has_tile_products()) GTEST_SKIP() << "the GPU is not of sm_90";
  for (const GpuMode& mode : kGpuModes)
    if (GpuLibrary::has(mode).ok()) run_on_gpu(mode);
}

void expect_sums_in_registers(Codegen emitter) {
  for (const Shape& shape :
       {kShapes[0], kShapes[1], Shape{"f16", 12544, 3072, 768}, Shape{"f16", 12544, 3072, 768, false},
        Shape{"bf16", 12545, 2880, 760, false}, Shape{"f16", 12608, 3072, 768, false, "gelu"},
        Shape{"bf16", 12545, 2880, 760, false, "gelu"}, Shape{"f16", 12608, 3072, 768, true, "gelu"}}) {
    const Scheduled s = scheduled(shape, 132);
    const auto lowered = compiler::lower_to_threads(s.kernel);
    ASSERT_TRUE(lowered.ok()) << lowered.status().str();
    const auto artifact = codegen::emit_with(emitter, *lowered, named_target("sm_90").value(), {.keep_text = true});
    ASSERT_TRUE(artifact.ok()) << artifact.status().str();
    const codegen::ArtifactPhase& phase = artifact->phases.at(0);
    EXPECT_EQ(phase.threads, 384);
    // Those of the largest tiles share what 168 for each thread are, and would wait for ever if there were fewer.
    const bool shares = artifact->ptx.find("setmaxnreg") != std::string::npos;
    EXPECT_LE(phase.registers, 168);
    EXPECT_TRUE(!shares || phase.registers == 168) << phase.registers;
    EXPECT_LE(phase.local_bytes, 32) << artifact->text;  // some versions spill an address; the sums are 384 bytes
    EXPECT_NE(artifact->ptx.find(".target sm_90a"), std::string::npos);
  }
}

TEST(TileProducts, NvrtcKeepsTheSumsInRegisters) {
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  if (!codegen::has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  expect_sums_in_registers(Codegen::nvrtc);
}

TEST(TileProducts, LlvmKeepsTheSumsInRegisters) {
  // nvJitLink makes relocatable code, in which warpgroups cannot share registers.
  if (codegen::assembler_key().rfind("ptx-compiler", 0) != 0)
    GTEST_SKIP() << "no PTX compiler: " << codegen::assembler_key();
  expect_sums_in_registers(Codegen::llvm);
}

TEST(TileProducts, AreMadeByNvrtcWhereItIs) {
  const ir::Kernel kernel = cuda_kernel(small_kernel("f16"));
  const Target target = named_target("sm_90").value();
  EXPECT_EQ(codegen::emitters(kernel, target, Codegen::automatic).front(),
            codegen::has_nvrtc() ? Codegen::nvrtc : Codegen::llvm);
  EXPECT_EQ(codegen::emitters(kernel, target, Codegen::llvm), std::vector{Codegen::llvm});
}

TEST(TileProducts, AreForOneArchitecture) {
  const ir::Kernel kernel = cuda_kernel(small_kernel("f16"));
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
    EXPECT_TRUE(codegen_test::emit_text(kernel, named_target("sm_90").value(), codegen).ok());
    EXPECT_FALSE(codegen_test::emit_text(kernel, named_target("sm_100").value(), codegen).ok());
  }
}

}  // namespace
}  // namespace fusec::codegen_test
