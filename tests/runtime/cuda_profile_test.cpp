// SPDX-License-Identifier: Apache-2.0
// Profiles of a GPU: by a CUPTI that tells when the kernels of the fake driver ran, and by events without it.
#if FUSEC_WITH_CUDA
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/run/cuda/match.h"
#include "runtime/run/trace.h"
#include "tests/environment.h"
#include "tests/runtime/cuda_session_case.h"

namespace fusec::runtime_test {
namespace {

using runtime::cuda::ExpectedLaunch;
using runtime::cuda::match_kernels;
using runtime::cuda::MatchedKernels;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Environment;

ExpectedLaunch generated(int32_t launch, std::vector<std::string> names) { return {launch, true, std::move(names)}; }
ExpectedLaunch library(int32_t launch, std::size_t counted = 0) { return {launch, false, {}, counted}; }

TEST(MatchKernels, CountsOfCallsTellThemApart) {
  const ExpectedLaunch expected[] = {generated(3, {"a", "a_1"}), library(4, 2), library(5, 1), generated(6, {"a"})};
  const std::string names[] = {"a", "a_1", "gemm", "reduce", "gemm", "a"};
  const MatchedKernels matched = match_kernels(expected, names);
  EXPECT_THAT(matched.launch, ElementsAre(3, 3, 4, 4, 5, 6));
  EXPECT_TRUE(matched.is_sure);
}

TEST(MatchKernels, OtherCountsAreDividedBetweenGeneratedKernels) {
  const ExpectedLaunch expected[] = {library(0, 1), generated(1, {"a"}), library(2), library(3), generated(4, {"b"})};
  const std::string names[] = {"x", "x", "a", "y", "y", "y", "b"};
  const MatchedKernels matched = match_kernels(expected, names);
  EXPECT_THAT(matched.launch, ElementsAre(0, 0, 1, 2, 3, 3, 4));
  EXPECT_FALSE(matched.is_sure) << "y are of two calls";
  const ExpectedLaunch one[] = {generated(0, {"a"}), library(1, 9)};
  EXPECT_TRUE(match_kernels(one, std::vector<std::string>{"a", "y", "y"}).is_sure) << "all are of the one call";
}

TEST(MatchKernels, WhatIsMissingOrTooMuchIsToldAndTheRestIsFound) {
  const ExpectedLaunch expected[] = {generated(0, {"a"}), generated(1, {"b"}), generated(2, {"c"})};
  const MatchedKernels missing = match_kernels(expected, std::vector<std::string>{"a", "c"});
  EXPECT_THAT(missing.launch, ElementsAre(0, 2));
  EXPECT_FALSE(missing.is_sure);
  const MatchedKernels more = match_kernels(expected, std::vector<std::string>{"a", "other", "b", "c", "last"});
  EXPECT_THAT(more.launch, ElementsAre(0, -1, 1, 2, -1));
  EXPECT_FALSE(more.is_sure);
  EXPECT_THAT(match_kernels({}, {}).launch, IsEmpty());
}

struct Ran {
  int64_t begin, end;
};
std::vector<Ran> ran;
int64_t kernel_ns = 20'000;

void add_one_and_note(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  const int64_t from = runtime::now_ns();
  add_one(args, begin, end, local);
  while (runtime::now_ns() < from + kernel_ns) {
  }
  if (begin == 0) ran.push_back({from, runtime::now_ns()});
}

// y = x + steps on the fake GPU, whose kernels take a while and tell when.
ProgramBuilder slow_chain(int steps) {
  ProgramBuilder b;
  ir::AllocId from = b.input("x");
  const ir::AllocId y = b.output("y");
  const ir::KernelId k = b.kernel({"slow", 1, 1, add_one_and_note, {}, 0, false, {}});
  for (int i = 0; i < steps; ++i) {
    const ir::AllocId to = i + 1 < steps ? b.temporary() : y;
    b.launch(k, {flat(from), flat(to)}, "step" + std::to_string(i));
    from = to;
  }
  return b;
}

using Add = void (*)(int kind, const char* name, int64_t begin, int64_t end, uint32_t stream);

class CuptiProfile : public testing::Test {
 protected:
  CuptiProfile() : home_("FUSEC_CUDA_HOME", FUSEC_FAKE_CUPTI) {
    library_ = dlopen(FUSEC_FAKE_CUPTI "/lib64/libcupti.so.13", RTLD_NOW);
    ran.clear();
    kernel_ns = 20'000;
    fake_.elapsed_ms = [] { return 0.06f; };
    tell(130500, 0);
  }
  ~CuptiProfile() override { reset()(0, 0, nullptr); }

  // What the fake CUPTI is and answers.
  void tell(uint32_t version, int32_t result_of_enable, void (*source)(Add) = emit) {
    reset()(version, result_of_enable, source);
  }
  int enabled() const { return reinterpret_cast<int (*)()>(dlsym(library_, "fake_cupti_enabled"))(); }

  static void emit(Add add) {
    for (std::size_t i = 0; i < ran.size(); ++i) {
      add(10, "slow", ran[i].begin, ran[i].end, 7);
      if (i % 3 == 2) add(1, nullptr, ran[i].end, ran[i].end, 7);
    }
    ran.clear();
  }

  Result<Profile> profile(int64_t runs = 4) {
    FUSEC_ASSIGN(const Engine engine, gpu_engine(slow_chain(3), fake_));
    FUSEC_ASSIGN(Session session, Session::create(engine));
    const Tensor x = session::on_gpu(session::iota(1));
    FUSEC_ASSIGN(Profile profile, session.profile(std::span(&x, 1), {.runs = runs, .warmup = 1, .counters = false}));
    captured_ = session.stats().captured_graphs;
    FUSEC_ASSIGN(const std::vector<Tensor> y, session.run(std::span(&x, 1)));
    EXPECT_EQ(session::copy_values(y[0]), std::vector<float>{3});
    return profile;
  }

  FakeDriver fake_;
  int64_t captured_ = 0;

 private:
  using Reset = void (*)(uint32_t, int32_t, void (*)(Add));
  Reset reset() const { return reinterpret_cast<Reset>(dlsym(library_, "fake_cupti_reset")); }

  Environment home_;
  void* library_ = nullptr;
};

TEST_F(CuptiProfile, KernelsInsideTheGraphAreTimed) {
  for (const uint32_t version : {130500u, 28u}) {
    tell(version, 0);
    const auto profile = this->profile();
    ASSERT_TRUE(profile.ok()) << profile.status().str();
    EXPECT_EQ(profile->source, "cupti");
    EXPECT_THAT(profile->notes, IsEmpty());
    ASSERT_EQ(profile->launches.size(), 3u);
    for (const LaunchProfile& launch : profile->launches) {
      EXPECT_GE(launch.info.us, 20);
      EXPECT_EQ(launch.kernels, 1);
      EXPECT_EQ(launch.registers, 42) << "CUPTI says 42 and the driver 32: the larger one";
      EXPECT_EQ(launch.track, "stream 7");
    }
    EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
    EXPECT_NEAR(profile->device_us, 60, 1e-3) << "by events";
    EXPECT_GT(profile->measured_us, 60);
    EXPECT_NEAR(profile->host_us, profile->measured_us - profile->device_us, 1e-6);
    EXPECT_GE(profile->sum_us, 60);
    EXPECT_GE(profile->traced_us, profile->sum_us);
    EXPECT_LT(profile->launches[0].end_us, profile->launches[1].start_us + 1e-9);
    int copies = 0;
    for (const ProfileSlice& slice : profile->slices) copies += slice.kind == SliceKind::copy && slice.bytes == 4096;
    EXPECT_EQ(copies, 4) << "one in each run";
    EXPECT_GE(captured_, 2) << "a graph with CUPTI, and one without";
    EXPECT_EQ(enabled(), 0);
  }
}

TEST_F(CuptiProfile, EventsTakeItsPlaceWithANote) {
  const auto by_events = [&](const std::string& why) {
    const auto profile = this->profile();
    ASSERT_TRUE(profile.ok()) << profile.status().str();
    EXPECT_EQ(profile->source, "events");
    EXPECT_THAT(profile->notes, Contains(HasSubstr(why)));
    EXPECT_EQ(profile->launches.size(), 3u);
    EXPECT_NEAR(profile->device_us, 60, 1e-3);
    EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
    EXPECT_NEAR(profile->host_us, profile->measured_us - 60, 1e-3);
    EXPECT_EQ(enabled(), 0);
  };
  tell(140000, 0);
  by_events("is version 140000 of CUPTI");
  tell(130500, 35);
  by_events("cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
  const Environment hidden("FUSEC_HIDE_LIBRARIES", "cupti");
  by_events("hidden by FUSEC_HIDE_LIBRARIES");
}

// While CUPTI is on, the GPU takes 1.5 times as long: what CUPTI tells is divided by that.
TEST_F(CuptiProfile, WhatTracingCostsOnTheGpuIsTakenOff) {
  for (const int64_t kernel : {20'000, 200'000}) {  // runs one by one, and eight at once
    kernel_ns = kernel;
    fake_.elapsed_ms = [&] { return (enabled() != 0 ? 4.5e-6f : 3e-6f) * static_cast<float>(kernel); };
    const auto profile = this->profile(12);
    ASSERT_TRUE(profile.ok()) << profile.status().str();
    const double us = 1e-3 * static_cast<double>(kernel);
    EXPECT_NEAR(profile->device_us, 3 * us, 0.01);
    EXPECT_NEAR(profile->traced_device_us, 4.5 * us, 0.01);
    EXPECT_NEAR(profile->device_slow_down(), 1.5, 1e-3);
    double sum = 0, slices = 0;
    for (const LaunchProfile& launch : profile->launches) sum += launch.info.us;
    for (const ProfileSlice& slice : profile->slices)
      slices += slice.kind == SliceKind::launch ? slice.end_us - slice.start_us : 0;
    EXPECT_NEAR(sum, profile->sum_us, 1e-6);
    EXPECT_GE(sum, 3 * us / 1.5 - 0.01);
    EXPECT_GE(slices / 12, 3 * us - 0.01) << "a timeline shows what ran";
    EXPECT_LT(sum, slices / 12);
    EXPECT_NEAR(profile->host_us, profile->measured_us - 3 * us, 0.01);
    EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
  }
}

// A run that CUPTI tells nothing of is the host's.
TEST_F(CuptiProfile, KernelsThatAreMissingAreNoted) {
  tell(130500, 0, [](Add add) {
    if (!ran.empty()) add(10, "slow", ran.front().begin, ran.front().end, 7);
    ran.clear();
  });
  const auto profile = this->profile();
  ASSERT_TRUE(profile.ok()) << profile.status().str();
  EXPECT_THAT(profile->notes, Contains(HasSubstr("some kernels were not found")));
  EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
}

// The events of device_us lie round a graph that is put behind another one.
TEST_F(CuptiProfile, EventsLieRoundARunThatWaitsForAnother) {
  ASSERT_TRUE(profile().ok());
  std::vector<std::string> calls;
  for (const std::string& call : fake_.log) {
    if (call == "cuGraphLaunch" || call == "cuEventRecord" || call == "cuStreamSynchronize") calls.push_back(call);
  }
  const std::vector<std::string> turn = {"cuGraphLaunch", "cuStreamSynchronize", "cuGraphLaunch",      "cuEventRecord",
                                         "cuGraphLaunch", "cuEventRecord",       "cuStreamSynchronize"};
  const auto last = std::find_end(calls.begin(), calls.end(), turn.begin(), turn.end());
  ASSERT_NE(last, calls.end());
  EXPECT_EQ(std::count(calls.begin(), last, "cuEventRecord"), 2 * (7 + 6))
      << "of each traced run and of those in front: 4 runs, and 3 before them";
}

// Eight runs are on the stream at once, so that the slower host does not hold up the GPU.
TEST_F(CuptiProfile, LongRunsAreTracedWithoutWaitingForEach) {
  kernel_ns = 200'000;
  fake_.elapsed_ms = [] { return 0.6f; };
  const auto profile = this->profile(12);
  ASSERT_TRUE(profile.ok()) << profile.status().str();
  EXPECT_EQ(profile->runs, 12);
  EXPECT_THAT(profile->notes, IsEmpty());
  EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
  for (const LaunchProfile& launch : profile->launches) EXPECT_GE(launch.info.us, 200);
  std::map<int64_t, int> launches, copies;
  std::vector<const ProfileSlice*> calls;
  int waits = 0;
  for (const ProfileSlice& slice : profile->slices) {
    launches[slice.run] += slice.kind == SliceKind::launch;
    copies[slice.run] += slice.kind == SliceKind::copy;
    waits += slice.name == "wait";
    if (slice.kind == SliceKind::call) calls.push_back(&slice);
  }
  EXPECT_EQ(waits, 2) << "for eight runs, and for four";
  ASSERT_EQ(calls.size(), 12u);
  for (int64_t run = 0; run < 12; ++run) {
    EXPECT_EQ(launches[run], 3) << run;
    EXPECT_EQ(copies[run], 1) << run;
    EXPECT_EQ(calls[static_cast<std::size_t>(run)]->track, "runs") << "they do not overlap";
  }
  EXPECT_NEAR(calls[1]->start_us, calls[0]->end_us, 1e-6) << "the second is under way when the first ends";
}

}  // namespace
}  // namespace fusec::runtime_test
#endif
