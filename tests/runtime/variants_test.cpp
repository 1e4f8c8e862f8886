// SPDX-License-Identifier: Apache-2.0
// Variants of a slot from lower to run: which one shapes take, and that only what they take is compiled and loaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/select/select.h"
#include "fusec/engine.h"
#include "ir/graph/model_internal.h"
#include "ir/text/graph_text.h"
#include "ir/text/program_text.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine/engine.h"
#include "runtime/package/package.h"
#include "runtime/plan/bind.h"
#include "runtime/plan/resolve.h"
#include "tests/runtime/cuda_fake.h"
#include "tests/runtime/package_case.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime {
namespace {

using runtime_test::add_one;
using runtime_test::flat;
using runtime_test::n;
using runtime_test::ProgramBuilder;

constexpr int64_t kMax = (int64_t{1} << 31) - (int64_t{1} << 24);  // elements of 32-bit indices

constexpr const char* kRows = R"(graph @main(%x: f32[N, M]) {
  %0 = relu %x: f32[N, M]
  return %0 as "y"
}
)";

// As select leaves it for an sm_90.
ir::Program selected(const char* graph_text) {
  const ir::Graph graph = *ir::parse_graph(graph_text);
  const Target target = *named_target("sm_90");
  const compiler::Partition parts = *compiler::partition(graph, target, {});
  ir::Program program = *compiler::lower(graph, parts, target, {});
  EXPECT_TRUE(compiler::select(program, target).ok());
  return program;
}

// The width of the indices that the only step has for these shapes.
int index_bits(const ir::Program& program, const Bindings& symbols) {
  const auto resolved = resolve(program, symbols);
  if (!resolved.ok()) return 0;
  EXPECT_EQ(resolved->steps.size(), 1u);
  return program.kernels[std::get<ir::KernelStep>(resolved->steps[0].step->v).kernel].fits32 ? 32 : 64;
}

TEST(Variants, ShapesTake32BitIndicesWhereTheseReachEveryElement) {
  const ir::Program made = selected(kRows);
  ASSERT_EQ(made.kernels.size(), 2u);
  const ir::Program read = *ir::parse_program(ir::print(made));  // as a package has it
  for (const ir::Program* program : {&made, &read}) {
    EXPECT_EQ(index_bits(*program, {{"N", 1}, {"M", 1}}), 32);
    EXPECT_EQ(index_bits(*program, {{"N", 1}, {"M", kMax}}), 32);
    EXPECT_EQ(index_bits(*program, {{"N", 1}, {"M", kMax + 1}}), 64);
    EXPECT_EQ(index_bits(*program, {{"N", 1 << 16}, {"M", 1 << 15}}), 64);
    EXPECT_EQ(index_bits(*program, {{"N", int64_t{1} << 32}, {"M", int64_t{1} << 28}}), 64);
    EXPECT_EQ(index_bits(*program, {{"N", int64_t{1} << 32}, {"M", int64_t{1} << 32}}), 0) << "an error";
  }
}

// The divisor of rows that the only step's kernel relies on for these shapes; 1: none, 0: no kernel.
int64_t row_divisor(const ir::Program& program, const Bindings& symbols) {
  const auto resolved = resolve(program, symbols);
  if (!resolved.ok()) return 0;
  EXPECT_EQ(resolved->steps.size(), 1u);
  const auto& launch = std::get<ir::KernelStep>(resolved->steps[0].step->v);
  const auto& facts = program.kernels[launch.kernel].divisible;
  const auto fact = facts.find(ir::ExtentId{static_cast<uint32_t>(launch.extents.size() - 1)});
  return fact == facts.end() ? 1 : fact->second;
}

TEST(Variants, RowsThat16BytesDivideTakeTheirOwnKernel) {
  const ir::Program made = selected(R"(graph @main(%x: f16[N, P + Q]) {
  %0 = reduce_sum %x {axes = [1]}: f16[N]
  return %0 as "y"
}
)");
  ASSERT_EQ(made.slots[0].variants.size(), 4u);
  const ir::Program read = *ir::parse_program(ir::print(made));
  for (const ir::Program* program : {&made, &read}) {
    EXPECT_EQ(row_divisor(*program, {{"N", 3}, {"P", 1001}, {"Q", 7}}), 8);
    EXPECT_EQ(row_divisor(*program, {{"N", 3}, {"P", 1001}, {"Q", 3}}), 1) << "4 elements are 8 bytes";
    EXPECT_EQ(row_divisor(*program, {{"N", 3}, {"P", 0}, {"Q", 0}}), 8);
    // How many rows there are changes no sum.
    EXPECT_EQ(row_divisor(*program, {{"N", kMax}, {"P", 8}, {"Q", 8}}), 8);
    EXPECT_EQ(index_bits(*program, {{"N", kMax}, {"P", 8}, {"Q", 8}}), 64);
    EXPECT_EQ(row_divisor(*program, {{"N", kMax}, {"P", 8}, {"Q", 9}}), 1);
  }
}

TEST(Variants, NothingIsAssumedWhereAccessesAreWideAnyway) {
  for (const char* shape : {"f32[N, M]", "f32[N, 64]", "f32[M, 30]"}) {
    const std::string type = shape;
    const ir::Program program =
        selected(("graph @main(%x: " + type + ") {\n  %0 = neg %x: " + type + "\n  return %0 as \"y\"\n}\n").c_str());
    EXPECT_EQ(program.slots[0].variants.size(), 2u) << shape;
  }
}

TEST(Variants, ConstantExtentsAndKnownBoundsHaveOneKernel) {
  EXPECT_EQ(selected(R"(graph @main(%x: f32[1000, 1000]) {
  %0 = relu %x: f32[1000, 1000]
  return %0 as "y"
}
)")
                .kernels.size(),
            1u);
  const ir::Program large = selected(R"(graph @main(%x: f32[65536, 65536]) {
  %0 = relu %x: f32[65536, 65536]
  return %0 as "y"
}
)");
  ASSERT_EQ(large.kernels.size(), 1u);
  EXPECT_FALSE(large.kernels.begin()->fits32);
  const ir::Program bounded = selected(R"(graph @main(%x: f32[min(N, 1000), 1000], %n: f32[N]) {
  %0 = relu %x: f32[min(N, 1000), 1000]
  return %0 as "y"
}
)");
  ASSERT_EQ(bounded.kernels.size(), 1u);
  EXPECT_TRUE(bounded.kernels.begin()->fits32);
}

// A condition that passes 63 bits does not hold.
TEST(Variants, AnOverflowingConditionIsFalse) {
  ir::Slot slot;
  slot.variants = {ProgramBuilder::variant({kMax - n() * n() * n()}, {}), ProgramBuilder::variant({}, {})};
  EXPECT_EQ(&variant_for(slot, {{"n", 1000}}), &slot.variants[0]);
  EXPECT_EQ(&variant_for(slot, {{"n", 10000}}), &slot.variants[1]);
  EXPECT_EQ(&variant_for(slot, {{"n", int64_t{1} << 40}}), &slot.variants[1]);
}

// x + 1 twice, each with a variant of its own for 100 elements and more, on the CPU.
struct TwoVariants {
  TwoVariants() {
    const ir::Graph graph = *ir::parse_graph(R"(graph @main(%x: f32[n]) {
  %0 = neg %x: f32[n]
  return %0 as "y"
}
)");
    Options options;
    options.use_cache = false;
    program = run_stages(graph, target, options, Stage::select)->program;
    usual = program.kernels.push_back(program.kernels[other]);
    program.kernels[usual].name = "usual";
    program.kernels[usual].fits32 = true;  // which makes no other code on a CPU
    ir::Variant first = program.slots[0].variants[0];
    std::get<ir::KernelStep>(first.candidates[0].steps[0].v).kernel = usual;
    first.when = {100 - n()};
    program.slots[0].variants.insert(program.slots[0].variants.begin(), first);
  }
  Artifacts obtain(const std::vector<ir::KernelId>& ids) const {
    KernelCounts counts;
    return *obtain_kernels(program, ids, target, Codegen::automatic, nullptr, false, 2, nullptr, counts);
  }

  Target target = *host_target({});
  ir::Program program;
  ir::KernelId usual, other{0};
};

const LoadedKernel* bound_kernel(const std::shared_ptr<const LoadedProgram>& loaded, int64_t size) {
  const auto plan = bind(loaded, {{"n", size}}, 1);
  EXPECT_TRUE(plan.ok()) << plan.status().str();
  return plan.ok() ? (*plan)->launches[0].kernel : nullptr;
}

TEST(Variants, TheFirstBindThatNeedsAKernelCompilesIt) {
  const TwoVariants v;
  ASSERT_EQ(usual_kernels(v.program), std::vector{v.usual});
  ASSERT_EQ(picked_kernels(v.program), (std::vector{v.other, v.usual}));
  std::atomic<int> asked = 0;
  const auto obtain = [&](const ir::Program&, const std::vector<ir::KernelId>& ids) -> Result<ObtainedKernels> {
    ++asked;
    EXPECT_EQ(ids, std::vector{v.other});
    return ObtainedKernels{v.obtain(ids), 1};
  };
  const auto loaded = link(v.program, v.obtain({v.usual}), {}, obtain);
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_EQ(bound_kernel(*loaded, 100), &(*loaded)->kernels[v.usual]);
  EXPECT_EQ(asked, 0);
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        const LoadedKernel* const kernel = bound_kernel(*loaded, 101 + t);
        EXPECT_NE(kernel, &(*loaded)->kernels[v.usual]);
        EXPECT_FALSE(kernel->phases.empty());
      });
    }
  }
  EXPECT_EQ(asked, 1);
}

TEST(Variants, AFailedCompileFailsThatBindAlone) {
  const TwoVariants v;
  bool fails = true;
  const auto obtain = [&](const ir::Program&, const std::vector<ir::KernelId>& ids) -> Result<ObtainedKernels> {
    if (fails) return Status(StatusCode::compile_failed, "no compiler today");
    return ObtainedKernels{v.obtain(ids), 1};
  };
  const auto loaded = link(v.program, v.obtain({v.usual}), {}, obtain);
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_EQ(bind(*loaded, {{"n", 1000}}, 1).status().str(), "compile_failed: no compiler today");
  EXPECT_TRUE(bind(*loaded, {{"n", 10}}, 1).ok());
  fails = false;
  const auto plan = bind(*loaded, {{"n", 1000}}, 1);
  ASSERT_TRUE(plan.ok()) << plan.status().str();
  EXPECT_EQ((*plan)->compiled, 1);
}

TEST(Variants, WithAllArtifactsNothingIsCompiled) {
  const TwoVariants v;
  const auto loaded = link(v.program, v.obtain({v.usual, v.other}), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  EXPECT_NE(bound_kernel(*loaded, 1000), bound_kernel(*loaded, 10));
  EXPECT_EQ((*bind(*loaded, {{"n", 1000}}, 1))->compiled, 0);
}

// What an Engine compiles of a model with a free batch, and what a package holds.
TEST(Variants, AnEngineCompilesTheUsualKernelsAndAPackageHasAll) {
  const Model model = ir::make_model(*ir::parse_graph(kRows));
  const Target target = *named_target("sm_90");
  Options options;
  options.use_cache = false;
  const auto jit = compile_parts(model, options, target, KernelSet::usual);
  if (jit.status().code() == StatusCode::unsupported) GTEST_SKIP() << jit.status().str();
  ASSERT_TRUE(jit.ok()) << jit.status().str();
  EXPECT_EQ(jit->stats.compiled_kernels, 1);
  EXPECT_EQ(jit->artifacts.size(), 1u);
  std::vector<ir::KernelId> others;
  for (const ir::KernelId id : picked_kernels(jit->program))
    if (!jit->artifacts.contains(id)) others.push_back(id);
  const auto later = jit->obtain(jit->program, others);
  ASSERT_TRUE(later.ok()) << later.status().str();
  EXPECT_EQ(later->compiled, 1);
  EXPECT_EQ(later->artifacts.size(), 1u);
  const auto all = compile_parts(model, options, target, KernelSet::picked);
  ASSERT_TRUE(all.ok()) << all.status().str();
  EXPECT_EQ(all->artifacts.size(), 2u);
  EXPECT_FALSE(all->obtain);
}

class PackagedVariants : public package_case::PackageTest {};

TEST_F(PackagedVariants, HaveTheirCode) {
  const Model model = ir::make_model(*ir::parse_graph(kRows));
  const Status status = write_package(model, std::vector<std::string>{"cuda:sm_90"}, path(), options_);
  if (status.code() == StatusCode::unsupported) GTEST_SKIP() << status.str();
  ASSERT_TRUE(status.ok()) << status.str();
  const Package package = *Package::open(path());
  const ir::Program program = *packaged_program(*package.state(), 0);
  EXPECT_EQ(index_bits(program, {{"N", 8}, {"M", 8}}), 32);
  EXPECT_EQ(index_bits(program, {{"N", kMax}, {"M", 8}}), 64);
  const auto artifacts = packaged_artifacts(*package.state(), 0, program);
  ASSERT_TRUE(artifacts.ok()) << artifacts.status().str();
  EXPECT_EQ(artifacts->size(), 2u);
}

TEST(Variants, TheFirstBindOfOddRowsCompilesTheirKernel) {
  const Model model = ir::make_model(*ir::parse_graph(R"(graph @main(%x: f32[N, S], %b: f32[S]) {
  %0 = add %x, %b: f32[N, S]
  return %0 as "y"
}
)"));
  Options options;
  options.use_cache = false;
  const auto jit = compile_parts(model, options, *named_target("sm_90"), KernelSet::usual);
  if (jit.status().code() == StatusCode::unsupported) GTEST_SKIP() << jit.status().str();
  ASSERT_TRUE(jit.ok()) << jit.status().str();
  EXPECT_EQ(jit->stats.compiled_kernels, 1);
  for (const auto& [id, artifact] : jit->artifacts) EXPECT_FALSE(jit->program.kernels[id].divisible.empty());
}

#if FUSEC_WITH_CUDA
TEST(Variants, AGpuLoadsAKernelWhenShapesNeedIt) {
  runtime_test::FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::KernelId usual = b.kernel({"usual", 1, 1, add_one, {}, 0, false, {}});
  const ir::KernelId large = b.kernel({"large", 1, 1, add_one, {}, 0, false, {}});
  b.slot({ProgramBuilder::variant({100 - n()}, {b.step(usual, {flat(x), flat(y)})}),
          ProgramBuilder::variant({}, {b.step(large, {flat(x), flat(y)})})});
  const auto engine = runtime_test::gpu_engine(b, fake);
  ASSERT_TRUE(engine.ok()) << engine.status().str();
  Session session = *Session::create(*engine);
  const auto run = [&](int64_t size) {
    Tensor in = *Tensor::make(DType::f32, {size}), out = *Tensor::make(DType::f32, {size});
    std::fill_n(in.as<float>(), size, 1.0f);
    const Status status = session.run(std::span(&in, 1), std::span(&out, 1));
    EXPECT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(out.as<float>()[size - 1], 2);
    return fake.launches.back().kernel;
  };
  EXPECT_EQ(run(100), "usual");
  EXPECT_EQ(fake.count("cuLibraryLoadData"), 1);
  EXPECT_EQ(run(101), "large");
  EXPECT_EQ(run(200), "large");
  EXPECT_EQ(fake.count("cuLibraryLoadData"), 2);
}
#endif

}  // namespace
}  // namespace fusec::runtime
