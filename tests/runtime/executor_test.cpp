// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/executor.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <atomic>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "fusec/session.h"
#include "runtime/plan/bind.h"
#include "runtime/threads/parallel.h"
#include "tests/runtime/malloc_count.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime {
namespace {

using runtime_test::add;
using runtime_test::add_one;
using runtime_test::flat;
using runtime_test::ProgramBuilder;

// Runs `b` on one f32 input and answers its only output.
std::vector<float> run_once(const ProgramBuilder& b, std::vector<float> x, int threads = 1) {
  const auto size = static_cast<int64_t>(x.size());
  const auto plan = bind(b.load(), {{"n", size}}, threads);
  EXPECT_TRUE(plan.ok()) << plan.status().str();
  RunMemory memory;
  EXPECT_TRUE(memory.reserve(**plan).ok());
  Frame frame(*plan, memory);
  std::vector<float> y(x.size());
  const void* in[] = {x.data()};
  void* out[] = {y.data()};
  const Status status = frame.run(in, out);
  EXPECT_TRUE(status.ok()) << status.str();
  return y;
}

// What the program computes, one value per allocation and no memory plan.
std::vector<float> simulate(const ir::Program& program, const std::vector<float>& x) {
  std::vector<std::vector<float>> values(program.allocs.size(), std::vector<float>(x.size()));
  values[program.inputs[0].index] = x;
  for (const ir::Slot& slot : program.slots) {
    const auto& args = std::get<ir::KernelStep>(slot.variants[0].candidates[0].steps[0].v).args;
    for (std::size_t i = 0; i < x.size(); ++i) {
      values[args[2].alloc.index][i] = values[args[0].alloc.index][i] + values[args[1].alloc.index][i];
    }
  }
  return values[program.outputs[0].index];
}

TEST(Executor, RandomProgramsComputeTheSameInAPlannedArena) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const ProgramBuilder b = runtime_test::random_program(random);
    std::vector<float> x(1 + random() % 300);
    for (float& v : x) v = static_cast<float>(random() % 100) / 64;
    EXPECT_EQ(run_once(b, x), simulate(b.program, x)) << "round " << round;
  }
}

// Records how the range was cut.
void range_begin(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(args->buffers[1])[i] = static_cast<float>(begin);
}

TEST(Executor, PhasesAreCutIntoContiguousRanges) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, range_begin, {}, 0, false, {}}), {flat(x), flat(y)});
  const std::vector<float> cut = run_once(b, std::vector<float>(100'003), 3);
  EXPECT_EQ(cut.front(), 0);
  EXPECT_EQ(cut[33'334], 0);
  EXPECT_EQ(cut[33'335], 33'335);
  EXPECT_EQ(cut[66'668], 33'335);
  EXPECT_EQ(cut[66'669], 66'669);
  EXPECT_EQ(cut.back(), 66'669);
}

void thread_memory(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  auto* scratch = static_cast<float*>(local);
  for (int64_t i = begin; i < end; ++i) {
    for (int k = 0; k < 25; ++k) scratch[k] = static_cast<const float*>(args->buffers[0])[i];
    static_cast<float*>(args->buffers[1])[i] =
        reinterpret_cast<uintptr_t>(local) % 64 == 0 ? std::accumulate(scratch, scratch + 25, 0.0f) : -1;
  }
}

TEST(Executor, EveryThreadHasItsOwnAlignedMemory) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, thread_memory, {}, 0, false, 100}), {flat(x), flat(y)});
  std::vector<float> in(50'000);
  std::iota(in.begin(), in.end(), 0.0f);
  const std::vector<float> out = run_once(b, in, 4);
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(out[i], 25 * in[i], 1e-3 * in[i]);
}

void halve_twice(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) {
    volatile float v = static_cast<const float*>(args->buffers[0])[i];
    v = v * 0.5f;
    static_cast<float*>(args->buffers[1])[i] = v * 2.0f;
  }
}

TEST(Executor, DenormalsAreKeptWhateverTheHostHasSet) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, halve_twice, {}, 0, false, {}}), {flat(x), flat(y)});
  const float tiny = std::numeric_limits<float>::min();
  const uint32_t saved = _mm_getcsr(), host = 0x1f80 | 0x8040 | 0x6000;  // flush, denormals are zero, round to zero
  for (int threads : {1, 4, 7}) {  // workers that are started here begin with the host's setting
    _mm_setcsr(host);
    const std::vector<float> out = run_once(b, std::vector<float>(300'000, tiny), threads);
    const uint32_t after = _mm_getcsr() & ~0x3fu;
    _mm_setcsr(saved);
    EXPECT_EQ(after, host);
    EXPECT_EQ(out, std::vector<float>(out.size(), tiny));
  }
}

void out_of_range(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) {
    if (static_cast<const float*>(args->buffers[0])[i] < 0) *args->status = 1;
  }
}

// y = x + 1, then z and w from y, then a sum of all three: z and w need no barrier between them, the others do.
ProgramBuilder branches() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), out = b.output("out");
  const ir::AllocId y = b.temporary(), z = b.temporary(), w = b.temporary(), s = b.temporary();
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {}, 0, false, {}}),
                     sum = b.kernel({"sum", 2, 1, add, {}, 0, false, {}});
  b.launch(one, {flat(x), flat(y)});
  b.launch(one, {flat(y), flat(z)});
  b.launch(one, {flat(y), flat(w)});
  b.launch(sum, {flat(z), flat(w), flat(s)});
  b.launch(sum, {flat(s), flat(y), flat(out)});
  return b;
}

TEST(Executor, IndependentLaunchesShareARegion) {
  const ProgramBuilder b = branches();
  for (int64_t n : {7, 20'000, 1'000'000}) {
    const auto plan = bind(b.load(), {{"n", n}}, 5);
    ASSERT_TRUE(plan.ok()) << plan.status().str();
    std::vector<uint32_t> together;
    for (const Launch& launch : (*plan)->launches) together.push_back(launch.group_size);
    EXPECT_EQ(together, (std::vector<uint32_t>{1, 2, 1, 1, 1}));
    EXPECT_EQ((*plan)->launches[1].group_threads, n == 7 ? 1 : 5);
    std::vector<float> x(static_cast<std::size_t>(n)), expected;
    std::iota(x.begin(), x.end(), 0.0f);
    for (float v : x) expected.push_back(v + 2 + (v + 2) + (v + 1));
    EXPECT_EQ(run_once(b, x, 5), expected);
    EXPECT_EQ(run_once(b, x, 1), expected);
  }
}

TEST(Executor, LaunchesOnMemoryOfTheCallerThatMayBeTheSameAreApart) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.input("y"), p = b.output("p"), q = b.output("q");
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {}, 0, false, {}});
  b.launch(one, {flat(x), flat(p)});
  b.launch(one, {flat(y), flat(q)});
  const auto plan = bind(b.load(), {{"n", 1000}}, 2);
  ASSERT_TRUE(plan.ok()) << plan.status().str();
  EXPECT_EQ((*plan)->launches[0].group_size, 1u);
}

TEST(Executor, AnIndexOutOfRangeNamesItsStepAndTheNextRunWorks) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, out_of_range, {}, 0, true, {}}), {flat(x), flat(y)}, "/embed/Gather");
  Session session = *Session::create(b.engine());
  float data[] = {1, -1, 2};
  const Tensor in = Tensor::borrow(DType::f32, {3}, data);
  const Status status = session.run(std::span(&in, 1)).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("/embed/Gather"), std::string::npos);
  data[1] = 1;
  EXPECT_TRUE(session.run(std::span(&in, 1)).ok());
}

std::atomic<int> table_runs = 0;

void table(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  table_runs += begin == 0;
  add_one(args, begin, end, local);
}

// t = c + 1, which depends on the number of elements alone; y = x + t + t + x.
ProgramBuilder with_table(bool clamps = false, float value = 0.25f) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::AllocId c = b.constant(std::vector<float>(300, value)), s = b.temporary(), t = b.temporary(),
                    u = b.temporary();
  const ir::KernelId sum = b.kernel({"sum", 2, 1, add, {{0, 0}, {1, 0}}, 0, false, {}});
  b.launch(sum, {flat(x), flat(x), flat(s)});
  b.launch(b.kernel({"table", 1, 1, clamps ? out_of_range : table, {}, 0, clamps, {}}), {flat(c), flat(t)}, "/table");
  b.launch(sum, {flat(s), flat(t), flat(u)});
  b.launch(sum, {flat(u), flat(t), flat(y)});
  return b;
}

std::vector<float> run(Session& session, int64_t size, float value) {
  const std::vector<float> data(static_cast<std::size_t>(size), value);
  const Tensor x = Tensor::borrow(DType::f32, {size}, const_cast<float*>(data.data()));
  const auto y = session.run(std::span(&x, 1));
  EXPECT_TRUE(y.ok()) << y.status().str();
  return {(*y)[0].as<float>(), (*y)[0].as<float>() + size};
}

TEST(Executor, WhatDependsOnNoInputIsComputedOncePerPlan) {
  Session session = *Session::create(with_table().engine());
  table_runs = 0;
  for (const float x : {1.0f, 5.0f, 3.0f}) {
    EXPECT_EQ(run(session, 40, x), std::vector<float>(40, 2 * x + 2.5f));
    // Of other shapes: a larger arena, and a table of its own.
    EXPECT_EQ(run(session, 300, x), std::vector<float>(300, 2 * x + 2.5f));
  }
  // For the smaller shapes once more, because the arena moved when the larger ones came.
  EXPECT_EQ(table_runs, 3);
  for (int i = 0; i < 4; ++i) run(session, i % 2 != 0 ? 40 : 300, 1);
  EXPECT_EQ(table_runs, 3);
}

TEST(Executor, AFailureOfAStepThatRunsOnceIsReportedByEveryRun) {
  Session session = *Session::create(with_table(true, -1).engine());
  const Tensor x = *Tensor::make(DType::f32, {40});
  for (int i = 0; i < 3; ++i) {
    const Status status = session.run(std::span(&x, 1)).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("/table"), std::string::npos);
  }
}

TEST(Executor, ProfilesGiveNoTimeToStepsThatRunOnce) {
  Session session = *Session::create(with_table().engine());
  const Tensor x = *Tensor::make(DType::f32, {40});
  for (int i = 0; i < 2; ++i) {
    const auto stats = session.profile(std::span(&x, 1));
    ASSERT_TRUE(stats.ok()) << stats.status().str();
    EXPECT_EQ(stats->launches, 3);
    EXPECT_EQ(stats->once, 1);
    ASSERT_EQ(stats->steps.size(), 4u);
    EXPECT_TRUE(stats->steps[0].once);
    EXPECT_EQ(stats->steps[0].us, 0);
    EXPECT_FALSE(stats->steps[1].once);
    EXPECT_EQ(stats->kept_bytes, 192);
  }
}

TEST(Executor, RunsAllocateNothing) {
  if (!runtime_test::counts_allocations()) GTEST_SKIP() << "this build does not count allocations";
  std::mt19937 random(9);
  Session session = *Session::create(runtime_test::random_program(random).engine(4));
  for (int64_t size : {100'000, 17}) {
    const Tensor x = *Tensor::make(DType::f32, {size});
    Tensor y = *Tensor::make(DType::f32, {size});
    ASSERT_TRUE(session.run(std::span(&x, 1), std::span(&y, 1)).ok());
  }
  const Tensor x = *Tensor::make(DType::f32, {17}), large_x = *Tensor::make(DType::f32, {100'000});
  Tensor y = *Tensor::make(DType::f32, {17}), large_y = *Tensor::make(DType::f32, {100'000});
  const int64_t before = runtime_test::allocations();
  for (int i = 0; i < 10; ++i) {
    (void)session.run(std::span(&x, 1), std::span(&y, 1));
    (void)session.run(std::span(&large_x, 1), std::span(&large_y, 1));
  }
  EXPECT_EQ(runtime_test::allocations() - before, 0);
}

TEST(Executor, ThreadsShareAnEngine) {
  std::mt19937 random(13);
  const ProgramBuilder b = runtime_test::random_program(random);
  const Engine engine = b.engine(2);
  std::vector<std::jthread> host;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    host.emplace_back([&, t] {
      Session session = *Session::create(engine);
      for (int64_t size = 1; size < 40; ++size) {  // more shapes than Plans are kept
        std::vector<float> data(static_cast<std::size_t>(size * 37), static_cast<float>(t));
        const Tensor x = Tensor::borrow(DType::f32, {size * 37}, data.data());
        const auto y = session.run(std::span(&x, 1));
        if (!y.ok() || (*y)[0].as<float>()[0] != simulate(b.program, {static_cast<float>(t)})[0]) ++wrong;
      }
    });
  }
  host.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fusec::runtime
