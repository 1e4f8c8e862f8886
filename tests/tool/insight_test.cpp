// SPDX-License-Identifier: Apache-2.0
// Bounds and gaps on hand-made steps: no device and no database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/tool/insight/advice.h"
#include "runtime/tool/insight/boundaries.h"
#include "runtime/tool/insight/gap.h"
#include "runtime/tool/insight/sweep.h"
#include "tests/tool/command.h"

namespace fusec::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StepFacts step(StepKind kind, double us, std::optional<double> layer_us, double floor_us,
               std::vector<std::size_t> after = {}) {
  StepFacts facts;
  facts.kind = kind;
  facts.us = us, facts.layer_us = layer_us;
  facts.floor_us = facts.best_type_us = floor_us;
  facts.after = std::move(after);
  return facts;
}

double part(const Gap& gap, Part which) { return gap.parts[static_cast<std::size_t>(which)]; }

void expect_exact(const Gap& gap) {
  const double parts = std::accumulate(gap.parts.begin(), gap.parts.end(), 0.0);
  EXPECT_NEAR(gap.measured_us, gap.bound_us + parts + gap.other, 1e-9 * gap.measured_us);
}

// A diamond: 0 before 1 and 2, both before 3; 4 is alone.
std::vector<StepFacts> diamond() {
  return {step(StepKind::call, 10, 8, 4), step(StepKind::call, 20, 20, 5, {0}), step(StepKind::kernel, 5, {}, 3, {0}),
          step(StepKind::call, 10, 9, 2, {1, 2}), step(StepKind::call, 1, 1, 1)};
}

TEST(Insight, TheCriticalPathFollowsTheLongerBranch) {
  const std::vector<StepFacts> steps = diamond();
  EXPECT_EQ(critical_path(steps, {1, 2, 3, 4, 5}), 8);
  EXPECT_EQ(critical_path(steps, {1, 2, 3, 4, 50}), 50);
  EXPECT_EQ(critical_path({}, {}), 0);
  EXPECT_EQ(library_bound(steps).serial_us, 8 + 20 + 5 + 9 + 1);
  EXPECT_EQ(library_bound(steps).critical_us, 8 + 20 + 9);
  EXPECT_EQ(fusion_bound(steps).serial_us, 15);
  EXPECT_EQ(fusion_bound(steps).critical_us, 11);
}

// Launch is measured; 1 us is in no step.
TEST(Insight, ThePartsOfADiamondAreExact) {
  const Gap gap = split_gap({50, 3}, diamond());
  EXPECT_FALSE(gap.below_library);
  EXPECT_FALSE(gap.by_floors);
  EXPECT_EQ(gap.bound_us, 37);
  EXPECT_EQ(part(gap, Part::launch), 3);
  EXPECT_EQ(part(gap, Part::algorithm), 2 + 0 + 0 + 1 + 0);
  EXPECT_EQ(part(gap, Part::branches), 43 - 37);
  EXPECT_NEAR(gap.other, 50 - 46 - 3, 1e-12);
  expect_exact(gap);
}

TEST(Insight, NoTimeIsTakenTwice) {
  // The edges of the call would take more than is left of it, and nothing is left for a narrower type.
  std::vector<StepFacts> steps = {step(StepKind::call, 10, 8, 4), step(StepKind::move, 6, {}, 2, {0})};
  steps[0].edge_us = 100, steps[0].best_type_us = 1;
  steps[1].edge_us = 5, steps[1].best_type_us = 1;
  const Gap gap = split_gap({16, 0}, steps);
  EXPECT_EQ(part(gap, Part::algorithm), 2);
  EXPECT_EQ(part(gap, Part::fusion), 8);
  EXPECT_EQ(part(gap, Part::precision), 0);
  EXPECT_EQ(part(gap, Part::layout), 6);
  EXPECT_EQ(gap.bound_us, 0);
  EXPECT_EQ(gap.other, 0);
  expect_exact(gap);
}

TEST(Insight, ANarrowerTypeTakesItsShareOfWhatIsLeft) {
  std::vector<StepFacts> steps = {step(StepKind::call, 12, 8, 4), step(StepKind::call, 3, 3, 3)};
  steps[0].edge_us = 2, steps[0].best_type_us = 1;
  const Gap gap = split_gap({16, 1.5}, steps);
  EXPECT_EQ(part(gap, Part::algorithm), 4);
  EXPECT_EQ(part(gap, Part::fusion), 2);
  EXPECT_EQ(part(gap, Part::precision), 6 * 0.75);
  // Left are 1.5 and 3 us of steps that do not wait for each other.
  EXPECT_EQ(gap.bound_us, 3);
  EXPECT_EQ(part(gap, Part::branches), 1.5);
  EXPECT_NEAR(gap.other, 16 - 1.5 - 15, 1e-12);
  expect_exact(gap);
}

TEST(Insight, AStepThatIsFasterInPlaceHasNothingToWin) {
  const std::vector<StepFacts> steps = {step(StepKind::call, 5, 8, 4), step(StepKind::call, 9, 6, 4, {0})};
  const Gap gap = split_gap({14.5, 0.5}, steps);
  EXPECT_EQ(gap.bound_us, 5 + 6);
  EXPECT_EQ(part(gap, Part::algorithm), 0 + 3);
  EXPECT_EQ(largest_step(gap, Part::algorithm), 1U);
  expect_exact(gap);
}

// Rows are of calls alone, which take longer than in place: only their ratio says what is to be won.
TEST(Insight, TheTimeInPlaceIsScaledByTheRowsOfBothWays) {
  std::vector<StepFacts> steps = {step(StepKind::call, 12, 18, 4), step(StepKind::call, 8, 30, 4, {0})};
  steps[0].taken_us = 27, steps[1].taken_us = 30;
  const Gap gap = split_gap({21, 1}, steps);
  EXPECT_THAT(library_floors(steps), ElementsAre(8, 8));
  EXPECT_EQ(library_bound(steps).serial_us, 16);
  EXPECT_EQ(part(gap, Part::algorithm), 4);
  EXPECT_EQ(gap.bound_us, 16);
  expect_exact(gap);
  steps[0].taken_us = 9;  // the way that ran is the faster one
  EXPECT_THAT(library_floors(steps), ElementsAre(12, 8));
}

TEST(Insight, StepsThatTakeLongerThanTheRunStayVisible) {
  const Gap gap = split_gap({14, 2}, {step(StepKind::call, 15, 10, 4)});
  EXPECT_EQ(part(gap, Part::launch), 2);
  EXPECT_EQ(part(gap, Part::algorithm), 5);
  EXPECT_NEAR(gap.other, 14 - 2 - 15, 1e-12);
  expect_exact(gap);
}

TEST(Insight, ARunUnderTheReachableBoundIsHeldAgainstFloors) {
  const std::vector<StepFacts> steps = {step(StepKind::call, 5, 8, 4), step(StepKind::kernel, 6, 7, 2, {0}),
                                        step(StepKind::call, 1, 1, 3, {1})};
  const Gap gap = split_gap({10, 0.5}, steps);
  EXPECT_TRUE(gap.below_library);
  EXPECT_TRUE(gap.by_floors);
  EXPECT_EQ(gap.bound_us, 4 + 2 + 1);
  EXPECT_EQ(part(gap, Part::algorithm), (5 - 4) + (6 - 2) + 0);
  EXPECT_NEAR(gap.other, 10 - 0.5 - 12, 1e-12);
  expect_exact(gap);
}

// What a narrower type saves keeps the reachable bound under such a run.
TEST(Insight, ARunUnderTheLibraryBoundAloneHasAGapOfItsOwn) {
  std::vector<StepFacts> steps = {step(StepKind::call, 10, 10, 4)};
  steps[0].best_type_us = 1;
  const Gap gap = split_gap({9.5, 0}, steps);
  EXPECT_TRUE(gap.below_library);
  EXPECT_FALSE(gap.by_floors);
  EXPECT_EQ(part(gap, Part::algorithm), 0);
  EXPECT_EQ(part(gap, Part::precision), 7.5);
  EXPECT_EQ(gap.bound_us, 2.5);
  EXPECT_EQ(gap.other, -0.5);
}

// Rows of the call with images channels first, and of the call in f16, tell what order and type cost.
TEST(Insight, AnotherOrderIsLayoutAndRowsInHalfArePrecision) {
  std::vector<StepFacts> steps = {step(StepKind::call, 24, 30, 2), step(StepKind::call, 10, 8, 4, {0})};
  steps[0].taken_us = 40, steps[0].channels_first_us = 15, steps[0].half_us = 5;
  steps[1].channels_first_us = 9, steps[1].half_us = 12, steps[1].best_type_us = 1;  // both are slower
  const Gap gap = split_gap({40, 2}, steps);
  EXPECT_EQ(gap.steps[0][static_cast<std::size_t>(Part::algorithm)], 24 - 18);  // 24 x 30 / 40
  EXPECT_EQ(gap.steps[0][static_cast<std::size_t>(Part::layout)], 18 - 9);      // 18 x 15 / 30
  EXPECT_NEAR(gap.steps[0][static_cast<std::size_t>(Part::precision)], 9 - 3, 1e-12);
  EXPECT_EQ(gap.steps[1], (Parts{0, 0, 2, 0, 0, 0}));
  EXPECT_NEAR(gap.bound_us, 3 + 8, 1e-12);
  EXPECT_NEAR(library_bound(steps).serial_us, 9 + 8, 1e-12);
  expect_exact(gap);
  const std::vector<Advice> advice = make_advice(steps, gap, {}, 1);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].part, Part::layout);
  EXPECT_EQ(advice[0].flag, "--disable-pass channels_last");
  EXPECT_NEAR(advice[0].us, 24 * (1 - 15. / 40) + 10 * (1 - 9. / 8), 1e-12);  // the flag slows the second one down
}

// A flag changes whole steps, also what an earlier part has taken of them.
TEST(Insight, AFlagGainsWhatItChangesInAllSteps) {
  std::vector<StepFacts> steps = {step(StepKind::call, 24, 30, 2), step(StepKind::call, 10, 8, 4, {0})};
  steps[0].channels_first_us = 15, steps[0].half_us = 5;
  steps[1].channels_first_us = 16, steps[1].half_us = 12;
  RunSettings run;
  run.allows_half = true;
  std::vector<Advice> advice = make_advice(steps, split_gap({40, 0.5}, steps), run, 1);
  ASSERT_GE(advice.size(), 2U);
  EXPECT_EQ(advice[0].flag, "--precision f16");
  EXPECT_NEAR(advice[0].us, 24 * (1 - 5. / 30), 1e-12);
  EXPECT_EQ(advice[1].flag, "--disable-pass channels_last");
  EXPECT_NEAR(advice[1].us, 24 * (1 - 15. / 30) - 10, 1e-12);
  // Alone, with the caches emptied, the first one gains less and the second one loses more.
  steps[0].channels_first_ratio = 0.75, steps[1].channels_first_ratio = 1.75;
  EXPECT_EQ(split_gap({40, 0.5}, steps).steps[0][static_cast<std::size_t>(Part::layout)], 24 * 0.25);
  EXPECT_EQ(library_floors(steps)[0], 24 * 15. / 30);
  advice = make_advice(steps, split_gap({40, 0.5}, steps), run, 1);
  ASSERT_GE(advice.size(), 2U);
  EXPECT_EQ(advice[1].part, Part::layout);
  EXPECT_EQ(advice[1].flag, "");
  EXPECT_THAT(advice[1].text, HasSubstr("other calls lose more"));
}

TEST(Insight, WithoutStepsWhatIsNotLaunchIsOther) {
  const Gap gap = split_gap({7, 4}, {});
  EXPECT_EQ(part(gap, Part::launch), 4);
  EXPECT_EQ(gap.bound_us, 0);
  EXPECT_EQ(gap.other, 3);
  EXPECT_EQ(largest_step(gap, Part::layout), std::nullopt);
  expect_exact(gap);
}

TEST(Insight, MissingLayersAreNamedOnce) {
  std::vector<StepFacts> steps = diamond();
  EXPECT_TRUE(missing_layers(steps).empty());
  steps[1].layer = steps[3].layer = "matmul a", steps[1].lacks_row = steps[3].lacks_row = true;
  steps[4].layer = "matmul b", steps[4].lacks_row = true;
  EXPECT_THAT(missing_layers(steps), ElementsAre(1, 4));
}

TEST(Insight, AdviceNamesTheLargestStepAndItsFlag) {
  std::vector<StepFacts> steps = {step(StepKind::call, 10, 8, 4), step(StepKind::move, 30, {}, 2, {0})};
  steps[0].origin = "/fc/MatMul", steps[1].origin = "/Transpose", steps[0].best_type_us = 1;
  const Gap gap = split_gap({41, 1}, steps);
  RunSettings run;
  run.allows_half = true;
  const std::vector<Advice> advice = make_advice(steps, gap, run, 1.5);
  ASSERT_EQ(advice.size(), 3U);  // launch is 1 us: too little
  EXPECT_EQ(advice[0].part, Part::layout);
  EXPECT_THAT(advice[0].text, HasSubstr("/Transpose: 30.0 us"));
  EXPECT_EQ(advice[1].part, Part::precision);
  EXPECT_EQ(advice[1].flag, "--precision f16");
  EXPECT_EQ(advice[2].part, Part::algorithm);
  run.uses_rows = false;
  EXPECT_EQ(make_advice(steps, gap, run, 1.5)[2].flag, "--strategy cached");
}

TEST(Insight, TheBestBatchHasMostSamplesPerSecond) {
  const std::vector<BatchPoint> points = {{1, 10, 5, 12}, {4, 20, 8, 30}, {8, 60, 9, 90}};
  EXPECT_EQ(best_batch(points), 1U);
  EXPECT_NEAR(points[1].samples_per_s(), 4e6 / 30, 1e-6);
  EXPECT_EQ(best_batch({{2, 20, 1, {}}, {1, 10, 1, {}}}), 1U);  // equal by their bounds: the smaller one
  EXPECT_EQ(best_batch({}), std::nullopt);
  EXPECT_TRUE(falling_bounds(points).empty());
  EXPECT_THAT(bounds_of_batches(points), ElementsAre(10, 20, 60));
  EXPECT_THAT(bounds_of_batches({{64, 26.5, 0, {}}, {1, 4, 0, {}}, {32, 33.7, 0, {}}}), ElementsAre(26.5, 4, 26.5));
  EXPECT_THAT(falling_bounds({{64, 26.5, 0, {}}, {1, 4, 0, {}}, {32, 33.7, 0, {}}}), ElementsAre(std::pair(32, 64)));
}

// A reason that partition words otherwise would count as one that cannot fuse.
TEST(Insight, TheTableOfBoundariesHasTheReasonsOfPartition) {
  std::string sources;
  for (const char* file : {"fuse_regions.cpp", "groups.cpp"})
    sources += tool_test::read_text(std::string(FUSEC_SOURCE_DIR "/compiler/partition/") + file);
  for (const BoundaryKind& kind : boundary_kinds())
    EXPECT_THAT(sources, HasSubstr("return \"" + std::string(kind.reason) + "\"")) << kind.why;
  for (std::size_t at = sources.find("return \""); at != std::string::npos; at = sources.find("return \"", at + 1)) {
    const std::size_t begin = at + 8;
    const std::string reason = sources.substr(begin, sources.find('"', begin) - begin);
    EXPECT_THAT(boundary_kinds(), testing::Contains(testing::Field(&BoundaryKind::reason, testing::StrEq(reason))));
  }
  EXPECT_TRUE(could_fuse("result of a library step"));
  EXPECT_FALSE(could_fuse("would make a cycle"));
  EXPECT_FALSE(could_fuse("of another wording"));
}

}  // namespace
}  // namespace fusec::tool
