// SPDX-License-Identifier: Apache-2.0
// Runs launch by launch, with a look at what each has written.
#include "runtime/run/stepwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/cuda_session_case.h"

namespace fusec::runtime_test {
namespace {

using runtime::StepwiseRun;
using testing::ElementsAre;

#if FUSEC_WITH_CUDA

// The second argument of each launch, after it.
Result<std::vector<std::vector<float>>> written_by_launches(const Engine& engine, const Tensor& x,
                                                            std::vector<Tensor>& outputs) {
  FUSEC_ASSIGN(StepwiseRun run, StepwiseRun::make(engine, std::span(&x, 1)));
  std::vector<std::vector<float>> written;
  FUSEC_ASSIGN(outputs, run.run(std::span(&x, 1), [&](std::size_t launch, void* const* args) -> Status {
    EXPECT_EQ(launch, written.size());
    written.push_back(session::copy_values(Tensor::borrow(DType::f32, {2}, args[1], {}, engine.device())));
    return {};
  }));
  return written;
}

TEST(Stepwise, EveryLaunchOfAGpuIsSeenWhenItIsOver) {
  FakeDriver fake;
  const auto engine = gpu_engine(session::chain(3), fake);
  ASSERT_TRUE(engine.ok()) << engine.status().str();
  for (const Tensor& x : {session::host({5, 7}), session::on_gpu({5, 7})}) {
    std::vector<Tensor> outputs;
    const auto written = written_by_launches(*engine, x, outputs);
    ASSERT_TRUE(written.ok()) << written.status().str();
    EXPECT_THAT(*written, ElementsAre(ElementsAre(6, 8), ElementsAre(7, 9), ElementsAre(8, 10)));
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].on_host(), x.on_host());
    EXPECT_EQ(session::copy_values(outputs[0]), (std::vector<float>{8, 10}));
  }
}

TEST(Stepwise, AnErrorOfTheCallerEndsTheRun) {
  FakeDriver fake;
  const auto engine = gpu_engine(session::chain(3), fake);
  ASSERT_TRUE(engine.ok()) << engine.status().str();
  const Tensor x = session::host({1, 2});
  auto run = StepwiseRun::make(*engine, std::span(&x, 1));
  ASSERT_TRUE(run.ok()) << run.status().str();
  std::size_t calls = 0;
  const auto stop = [&](std::size_t, void* const*) -> Status {
    ++calls;
    return Status(StatusCode::invalid_argument, "enough");
  };
  EXPECT_EQ(run->run(std::span(&x, 1), stop).status().message(), "enough");
  EXPECT_EQ(calls, 1u);
  const auto after = run->run(std::span(&x, 1), [](std::size_t, void* const*) { return Status(); });
  ASSERT_TRUE(after.ok()) << after.status().str();
  EXPECT_EQ(session::copy_values((*after)[0]), (std::vector<float>{4, 5}));
}

#endif

}  // namespace
}  // namespace fusec::runtime_test
