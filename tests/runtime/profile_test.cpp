// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "fusec/session.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime_test {
namespace {

using runtime::RunTrace;
using runtime::share_time;
using runtime::TimeShares;
using testing::ElementsAre;

MATCHER_P(Us, us, "") { return std::abs(arg - us) < 1e-9; }

TEST(Profile, TimeOfARunIsDividedWithoutRest) {
  RunTrace run;
  run.begin = 1000;
  run.end = 101000;
  run.spans = {{0, 11000, 31000}, {-1, 31000, 36000}, {1, 41000, 91000}};
  const TimeShares shares = share_time(run, 2);
  EXPECT_THAT(shares.launch_us, ElementsAre(Us(20), Us(50)));
  EXPECT_THAT(shares.gap_us, ElementsAre(Us(0), Us(5)));
  EXPECT_THAT(shares.copies_us, Us(5));
  EXPECT_THAT(shares.gaps_us, Us(5));
  EXPECT_THAT(shares.host_us, Us(20));
  EXPECT_THAT(shares.total_us(), Us(100));
}

TEST(Profile, OnlyWaitingBetweenLaunchesIsAGap) {
  RunTrace run;
  run.end = 100000;
  // A fill, the launches, and a copy behind them.
  run.spans = {{-1, 10000, 11000}, {0, 40000, 50000}, {1, 52000, 60000}, {-1, 90000, 91000}};
  const TimeShares shares = share_time(run, 2);
  EXPECT_THAT(shares.launch_us, ElementsAre(Us(10), Us(8)));
  EXPECT_THAT(shares.gap_us, ElementsAre(Us(0), Us(2)));
  EXPECT_THAT(shares.copies_us, Us(2));
  EXPECT_THAT(shares.gaps_us, Us(2));
  EXPECT_THAT(shares.host_us, Us(78));
}

// A library call of several kernels, and another launch.
TEST(Profile, TimeInsideOfALaunchIsNoGap) {
  RunTrace run;
  run.end = 60000;
  run.spans = {{0, 10000, 20000}, {0, 23000, 30000}, {1, 31000, 40000}, {1, 42000, 50000}};
  const TimeShares shares = share_time(run, 2);
  EXPECT_THAT(shares.launch_us, ElementsAre(Us(20), Us(19)));
  EXPECT_THAT(shares.gap_us, ElementsAre(Us(0), Us(1)));
  EXPECT_THAT(shares.gaps_us, Us(1));
  EXPECT_THAT(shares.host_us, Us(20));
}

TEST(Profile, LaunchesThatOverlapShareTheTimeByWeight) {
  RunTrace run;
  run.end = 60000;
  run.spans = {{0, 0, 40000}, {1, 20000, 60000}};
  EXPECT_THAT(share_time(run, 2).launch_us, ElementsAre(Us(30), Us(30)));
  run.spans = {{0, 0, 60000, 1}, {1, 0, 60000, 2}, {2, 0, 60000, 0}};
  EXPECT_THAT(share_time(run, 3).launch_us, ElementsAre(Us(20), Us(40), Us(0)));
  run.spans = {{0, 0, 60000, 0}, {1, 0, 60000, 0}};
  EXPECT_THAT(share_time(run, 2).launch_us, ElementsAre(Us(30), Us(30)));
}

TEST(Profile, SpansOutsideOfTheRunCountInside) {
  RunTrace run;
  run.begin = 10000;
  run.end = 20000;
  run.spans = {{0, 5000, 12000}, {1, 18000, 25000}};
  const TimeShares shares = share_time(run, 2);
  EXPECT_THAT(shares.launch_us, ElementsAre(Us(2), Us(2)));
  EXPECT_THAT(shares.total_us(), Us(10));
  run.spans.clear();
  EXPECT_THAT(share_time(run, 2).host_us, Us(10));
}

TEST(Profile, SlicesOfATrackDoNotOverlap) {
  const auto slice = [](const char* track, double start, double end) {
    ProfileSlice s;
    s.track = track;
    s.start_us = start;
    s.end_us = end;
    return s;
  };
  std::vector<ProfileSlice> slices = {slice("b", 4, 9), slice("a", 0, 5), slice("a", 5, 6), slice("b", 0, 5),
                                      slice("b", 5, 7)};
  runtime::separate_tracks(slices);
  std::vector<std::string> seen;
  for (const ProfileSlice& s : slices) seen.push_back(s.track + "@" + std::to_string(static_cast<int>(s.start_us)));
  EXPECT_THAT(seen, ElementsAre("a@0", "a@5", "b@0", "b@5", "b (2)@4"));
}

TEST(Profile, TheMiddleHalfIsNeverEmpty) {
  for (std::size_t count = 1; count < 12; ++count) {
    const runtime::MiddleHalf half = runtime::middle_half(count);
    EXPECT_LT(half.begin, half.end);
    EXPECT_LE(half.end, count);
  }
  EXPECT_EQ(runtime::middle_half(20).begin, 5u);
  EXPECT_EQ(runtime::middle_half(20).end, 15u);
}

// A launch, then two that need no barrier between them, then one that needs both.
ProgramBuilder fork_and_join() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), out = b.output("out"), y = b.temporary(), z = b.temporary(), w = b.temporary();
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {}, 0, false, {}});
  const ir::KernelId sum = b.kernel({"sum", 2, 1, add, {}, 0, false, {}});
  b.launch(one, {flat(x), flat(y)});
  b.launch(one, {flat(y), flat(z)});
  b.launch(one, {flat(y), flat(w)});
  b.launch(sum, {flat(z), flat(w), flat(out)});
  return b;
}

TEST(Profile, PartsOfARunAddUpAndEveryLaunchIsOnATrack) {
  Session session = *Session::create(fork_and_join().engine(3));
  const Tensor x = *Tensor::make(DType::f32, {100'000});
  const auto profile = session.profile(std::span(&x, 1), {.runs = 6, .warmup = 1, .counters = false});
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(profile->source, "threads");
  EXPECT_EQ(profile->runs, 6);
  EXPECT_NEAR(profile->parts_us(), profile->traced_us, 1e-6);
  EXPECT_NEAR(profile->parts_us() + profile->unexplained_us, profile->measured_us, 1e-6);
  EXPECT_EQ(profile->device_us, 0);
  EXPECT_GT(profile->measured_us, 0);
  ASSERT_EQ(profile->launches.size(), 4u);
  double sum = 0;
  for (const LaunchProfile& launch : profile->launches) {
    EXPECT_GT(launch.info.us, 0);
    EXPECT_GE(launch.end_us, launch.start_us);
    EXPECT_EQ(launch.track, "launches");
    sum += launch.info.us;
  }
  EXPECT_NEAR(sum, profile->sum_us, 1e-6);
  EXPECT_EQ(profile->launches[3].info.implementation, "sum");
  std::map<std::string, const ProfileSlice*> last;
  std::map<SliceKind, int> kinds;
  for (const ProfileSlice& slice : profile->slices) {
    ++kinds[slice.kind];
    EXPECT_LE(slice.start_us, slice.end_us);
    if (last[slice.track] != nullptr) {
      EXPECT_GE(slice.start_us, last[slice.track]->end_us) << slice.track;
    }
    last[slice.track] = &slice;
  }
  EXPECT_EQ(kinds[SliceKind::call], 6);
  EXPECT_EQ(kinds[SliceKind::launch], 18) << "the group of two is one slice";
  EXPECT_GE(kinds[SliceKind::part], 24);
  EXPECT_EQ(profile->launches[1].start_us, profile->launches[2].start_us);
}

TEST(Profile, CountersAreThereOrANoteSaysWhyNot) {
  Session session = *Session::create(fork_and_join().engine());
  const Tensor x = *Tensor::make(DType::f32, {100'000});
  const auto profile = session.profile(std::span(&x, 1), {.runs = 3, .warmup = 0});
  ASSERT_TRUE(profile.ok()) << profile.status().str();
  if (profile->counters.empty()) {
    EXPECT_THAT(profile->notes, ElementsAre(testing::HasSubstr("are not counted: ")));
  } else {
    EXPECT_THAT(profile->notes, testing::IsEmpty());
    for (const auto& [name, value] : profile->counters) EXPECT_GE(value, 0) << name;
  }
}

TEST(Profile, RefusesFewerThanOneRunAndKeepsTheSession) {
  Session session = *Session::create(fork_and_join().engine());
  const Tensor x = *Tensor::make(DType::f32, {16});
  EXPECT_EQ(session.profile(std::span(&x, 1), {.runs = 0}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(session.profile(std::span(&x, 1), {.warmup = -1}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(session.profile({}, {}).status().code(), StatusCode::invalid_argument);
  EXPECT_TRUE(session.run(std::span(&x, 1)).ok());
}

}  // namespace
}  // namespace fusec::runtime_test
