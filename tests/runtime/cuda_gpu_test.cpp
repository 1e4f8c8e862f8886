// SPDX-License-Identifier: Apache-2.0
// The runtime on a real GPU, where there is one: kernels by hand in PTX, so that no compiler takes part.
#if FUSEC_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <thread>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/device/cuda/handles.h"
#include "runtime/plan/state.h"
#include "runtime/run/cuda/link.h"
#include "tests/runtime/callers_graph.h"
#include "tests/runtime/programs.h"

namespace fusec::cuda_gpu_test {
namespace {

using runtime_test::flat;
using runtime_test::n;
using runtime_test::ProgramBuilder;
using testing::HasSubstr;

constexpr Device kGpu{TargetKind::cuda, 0};

// out[i] = in[i] + 1; a negative element sets the status word; with 64 KB of dynamic shared memory where asked for.
constexpr const char* kAddOne = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 in, .param .u64 out, .param .u64 n, .param .u64 status) {
  .reg .pred %p<3>;
  .reg .f32 %f<3>;
  .reg .u32 %r<5>;
  .reg .u64 %d<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra done;
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  ld.param.u64 %d3, [status];
  mul.wide.u32 %d4, %r1, 4;
  add.u64 %d5, %d1, %d4;
  add.u64 %d6, %d2, %d4;
  ld.global.f32 %f1, [%d5];
  setp.lt.f32 %p2, %f1, 0f00000000;
  mov.u32 %r4, 1;
  @%p2 st.global.u32 [%d3], %r4;
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%d6], %f2;
done:
  ret;
}
)";

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status status = gpu_status(); !status.ok()) GTEST_SKIP() << status.str();
  }
};

// y = x + steps.
Result<Engine> chain(int steps, const Options& options = {}, bool checks = false, int64_t shared = 0) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::KernelId k = b.kernel({"add_one", 1, 1, nullptr, {}, 0, checks, {}});
  ir::AllocId from = x;
  for (int i = 0; i < steps; ++i) {
    const ir::AllocId to = i + 1 < steps ? b.temporary() : y;
    b.launch(k, {flat(from), flat(to)}, "step" + std::to_string(i));
    from = to;
  }
  auto artifact = std::make_shared<codegen::Artifact>();
  artifact->ptx = kAddOne;
  codegen::ArtifactPhase phase;
  phase.iterations = n();
  phase.entry = "add_one";
  phase.threads = 32;
  phase.dynamic_shared = shared;
  artifact->phases.push_back(phase);
  FUSEC_ASSIGN(const std::shared_ptr<runtime::cuda::Context> context, runtime::cuda::Context::open(0));
  auto state = std::make_shared<runtime::EngineState>();
  FUSEC_ASSIGN(state->loaded, runtime::cuda::link(b.program, {{k, artifact}}, {}, context));
  state->device = kGpu;
  state->target = named_target("sm_90").value();
  state->options = options;
  state->inputs = b.inputs();
  state->outputs = b.outputs();
  return Engine(std::move(state));
}

std::vector<float> iota(std::size_t count, float from = 0) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}
Tensor host(const std::vector<float>& values) {
  Tensor t = *Tensor::make(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}
Tensor on_gpu(const std::vector<float>& values) {
  Tensor t = *make_tensor(kGpu, DType::f32, {static_cast<int64_t>(values.size())});
  EXPECT_TRUE(copy(host(values), t).ok());
  return t;
}
std::vector<float> copy_values(const Tensor& t) {
  Tensor h = *Tensor::make(t.dtype(), t.shape());
  const Status status = copy(t, h);
  EXPECT_TRUE(status.ok()) << status.str();
  return {h.as<float>(), h.as<float>() + h.num_elements()};
}

TEST_F(Gpu, HostAndDeviceTensorsPlainlyAndByGraph) {
  Session session = *Session::create(*chain(5));
  for (int round = 0; round < 4; ++round) {
    const std::vector<float> values = iota(1000, static_cast<float>(round));
    const Tensor x = host(values);
    const auto y = session.run(std::span(&x, 1));
    ASSERT_TRUE(y.ok()) << y.status().str();
    EXPECT_EQ(copy_values((*y)[0]), iota(1000, static_cast<float>(round + 5)));
  }
  EXPECT_EQ(session.stats().captured_graphs, 1);
  const Tensor x = on_gpu(iota(777));
  Tensor y = *make_tensor(kGpu, DType::f32, {777});
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(session.run(std::span(&x, 1), std::span(&y, 1)).ok());
    EXPECT_EQ(copy_values(y), iota(777, 5));
  }
  EXPECT_EQ(session.stats().captured_graphs, 2);
}

TEST_F(Gpu, AChainIsReplayedAsOneGraph) {
  Session session = *Session::create(*chain(60));
  const Tensor x = on_gpu(iota(64));
  Tensor y = *make_tensor(kGpu, DType::f32, {64});
  ASSERT_TRUE(session.bind_io(std::span(&x, 1), std::span(&y, 1)).ok());
  const auto context = *runtime::cuda::Context::open(0);
  const auto watch = *runtime::cuda::Stopwatch::make(0);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        watch.run([&](void* stream) { return session.run_async(std::span(&x, 1), std::span(&y, 1), stream); }).ok());
  }
  EXPECT_EQ(session.stats().captured_graphs, 1);
  EXPECT_EQ(session.stats().replayed_graphs, 20);
  EXPECT_EQ(copy_values(y), iota(64, 60));
}

TEST_F(Gpu, RotatingPointers) {
  Session session = *Session::create(*chain(30));
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 40; ++i) {
    xs.push_back(on_gpu(iota(64, static_cast<float>(i))));
    ys.push_back(*make_tensor(kGpu, DType::f32, {64}));
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    ASSERT_TRUE(session.run(std::span(&xs[i], 1), std::span(&ys[i], 1)).ok());
    EXPECT_EQ(copy_values(ys[i]), iota(64, static_cast<float>(i + 30)));
  }
  EXPECT_EQ(session.stats().captured_graphs, 1);
}

TEST_F(Gpu, StreamsOfTheCallerTakeTurns) {
  Session session = *Session::create(*chain(8));
  const auto a = *runtime::cuda::Stopwatch::make(0), b = *runtime::cuda::Stopwatch::make(0);
  const Tensor x = on_gpu(iota(4096));
  std::vector<Tensor> ys;
  for (int i = 0; i < 6; ++i) ys.push_back(*make_tensor(kGpu, DType::f32, {4096}));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(a.run([&](void* one) {
                   return b.run([&](void* two) -> Status {
                     for (std::size_t i = 0; i < ys.size(); ++i) {
                       FUSEC_TRY(session.run_async(std::span(&x, 1), std::span(&ys[i], 1),
                                                   i % 3 == 0 ? nullptr
                                                   : i % 2    ? one
                                                              : two));
                     }
                     return Status();
                   });
                 }).ok());
    for (const Tensor& y : ys) EXPECT_EQ(copy_values(y), iota(4096, 8));
  }
}

TEST_F(Gpu, ARunBecomesAPartOfTheCallersGraph) {
  Session session = *Session::create(*chain(20));
  Tensor x = on_gpu(iota(64)), y = on_gpu(std::vector<float>(64));
  ASSERT_TRUE(session.run(std::span(&x, 1), std::span(&y, 1)).ok());
  ASSERT_TRUE(copy(host(std::vector<float>(64)), y).ok());
  runtime_test::CallersGraph graph(CU_STREAM_CAPTURE_MODE_GLOBAL);
  const Status recorded = session.run_async(std::span(&x, 1), std::span(&y, 1), graph.stream());
  ASSERT_TRUE(recorded.ok()) << recorded.str();
  ASSERT_EQ(graph.end(), CUDA_SUCCESS);
  EXPECT_EQ(copy_values(y), std::vector<float>(64));
  for (const float by : {0.0f, 7.0f}) {
    ASSERT_TRUE(copy(host(iota(64, by)), x).ok());
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    ASSERT_EQ(graph.wait(), CUDA_SUCCESS);
    EXPECT_EQ(copy_values(y), iota(64, by + 20));
    const Tensor large = on_gpu(iota(100'000));  // moves the session's memory
    Tensor out = on_gpu(std::vector<float>(100'000));
    ASSERT_TRUE(session.run(std::span(&large, 1), std::span(&out, 1)).ok());
  }
}

TEST_F(Gpu, IndicesOutOfRangeAndProfiles) {
  Session session = *Session::create(*chain(2, {}, true));
  const Tensor bad = host({1, -5, 2}), good = host({1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(session.run(std::span(&bad, 1)).status().str(), HasSubstr("an index is out of range in 'step0'"));
    EXPECT_TRUE(session.run(std::span(&good, 1)).ok());
    const Tensor there = on_gpu({1, -5, 2});
    Tensor out = on_gpu({0, 0, 0});
    EXPECT_TRUE(session.run_async(std::span(&there, 1), std::span(&out, 1), nullptr).ok());  // not reported
    EXPECT_TRUE(session.run(std::span(&good, 1)).ok());
  }
  const auto profile = session.profile(std::span(&good, 1));
  ASSERT_TRUE(profile.ok()) << profile.status().str();
  EXPECT_GT(profile->steps[1].us, 0);
}

TEST_F(Gpu, StridedCopies) {
  const Tensor memory = on_gpu(iota(60));
  const Tensor turned = Tensor::borrow(DType::f32, {3, 4, 5}, const_cast<void*>(memory.data()), {1, 3, 12}, kGpu);
  Tensor dense = *make_tensor(kGpu, DType::f32, {3, 4, 5});
  ASSERT_TRUE(copy(turned, dense).ok());
  const std::vector<float> got = copy_values(dense);
  for (int i = 0; i < 60; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(i / 20 + i / 5 % 4 * 3 + i % 5 * 12));
}

TEST_F(Gpu, EightThreads) {
  const Engine engine = *chain(10);
  std::vector<std::thread> threads;
  std::vector<Status> failed(8);
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      failed[t] = [&]() -> Status {
        FUSEC_ASSIGN(Session session, Session::create(engine));
        for (int i = 0; i < 50; ++i) {
          const std::vector<float> values = iota(static_cast<std::size_t>(100 + i % 3), static_cast<float>(t));
          const Tensor x = i % 2 ? host(values) : on_gpu(values);
          FUSEC_ASSIGN(const std::vector<Tensor> y, session.run(std::span(&x, 1)));
          if (copy_values(y[0]) != iota(values.size(), static_cast<float>(t + 10)))
            return Status(StatusCode::internal, "wrong numbers");
        }
        return Status();
      }();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Status& status : failed) EXPECT_TRUE(status.ok()) << status.str();
}

TEST_F(Gpu, LargeSharedMemoryIsAskedFor) {
  Session session = *Session::create(*chain(1, {}, false, 64 << 10));
  const Tensor x = host({1, 2});
  const auto y = session.run(std::span(&x, 1));
  ASSERT_TRUE(y.ok()) << y.status().str();
  EXPECT_EQ(copy_values((*y)[0]), iota(2, 2));
}

TEST_F(Gpu, FiguresAreThoseOfADevice) {
  int gpus = 0;
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind != TargetKind::cuda) continue;
    ++gpus;
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.driver.empty());
    EXPECT_FALSE(info.limits_source.empty());
    EXPECT_GT(info.memory_bytes, 0);
    EXPECT_EQ(info.target.name, "sm_" + std::to_string(info.target.sm));
    EXPECT_GE(info.target.sm, 75);
    EXPECT_GT(info.target.sm_count, 0);
    EXPECT_GE(info.target.registers_per_sm, 1 << 16);
    EXPECT_GE(info.target.threads_per_sm, 1024);
    EXPECT_GE(info.target.shared_bytes_per_block, 48 << 10);
    EXPECT_GT(info.target.last_level_cache, 0);
    EXPECT_GT(info.target.model.memory_copy, 0);
  }
  EXPECT_GT(gpus, 0);
}

// Last: the GPU is lost to the process.
TEST_F(Gpu, ZAnIllegalAddressEndsTheSession) {
  Session session = *Session::create(*chain(2));
  const Tensor bad = Tensor::borrow(DType::f32, {4}, reinterpret_cast<void*>(uintptr_t{1} << 20), {}, kGpu);
  Tensor y = *make_tensor(kGpu, DType::f32, {4});
  const Status first = session.run(std::span(&bad, 1), std::span(&y, 1));
  EXPECT_EQ(first.code(), StatusCode::device);
  EXPECT_THAT(first.str(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const Tensor good = host({1, 2, 3, 4});
  const Status later = session.run(std::span(&good, 1)).status();
  EXPECT_THAT(later.str(), HasSubstr("cuda:0 is lost to this process since"));
  std::printf("%s\n%s\n", first.str().c_str(), later.str().c_str());
}

}  // namespace
}  // namespace fusec::cuda_gpu_test
#endif
