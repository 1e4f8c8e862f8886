// SPDX-License-Identifier: Apache-2.0
// Picks of the tuner in whole models, whose times are given here.
#include "runtime/engine/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace fusec::runtime {
namespace {

class ModelCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(dir_.data()), nullptr);
    options_.tuning_db = dir_ + "/t.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Tuning open() {
    return Tuning(options_, target_, [] { return std::string("a scope"); });
  }
  // Calls with two algorithms each, of which "fast" takes half of the time of "own" alone.
  TuneReport report_of(Tuning& tuning, const std::vector<std::string>& calls) {
    TuneReport report;
    for (const std::string& call : calls) {
      TunedLayer layer;
      layer.call = call;
      if (tuning.rows(call).empty()) tuning.add({row(call, "own", 10), row(call, "fast", 5)});
      layer.rows = tuning.rows(call);
      report.layers.push_back(std::move(layer));
    }
    return report;
  }
  static TuningRow row(const std::string& call, const std::string& algorithm, double us) {
    TuningRow row;
    row.scope = "a scope", row.call = call, row.library = "given", row.algorithm = algorithm;
    row.is_default = algorithm == "own", row.listed = 2, row.median_us = us, row.runs = 1;
    return row;
  }
  // A model that takes 100 us, and so much more with each pick.
  TimeModel model(Tuning& tuning, std::map<std::string, double> more) {
    const auto run = [&tuning, more] {
      double us = 100;
      for (const auto& [call, by] : more) us += tuning.picks(call).empty() ? 0 : by;
      return us;
    };
    const auto begin = [this, run] {
      without_ = run();
      return Status();
    };
    const auto time = [this, run]() -> Result<ModelTimes> {
      ++runs_;
      return ModelTimes{without_, run()};
    };
    return {begin, time};
  }
  static std::vector<std::string> picked(Tuning& tuning, const std::vector<std::string>& calls) {
    std::vector<std::string> out;
    for (const std::string& call : calls) {
      if (!tuning.picks(call).empty()) out.push_back(call);
    }
    return out;
  }

  std::string dir_ = (std::filesystem::temp_directory_path() / "fusec-model-check-XXXXXX").string();
  Options options_;
  Target target_;
  int runs_ = 0;
  double without_ = 0;
};

TEST_F(ModelCheckTest, PicksOfAFasterModelStay) {
  Tuning tuning = open();
  TuneReport report = report_of(tuning, {"a", "b"});
  const ModelCheck check = *try_picks(tuning, 0, model(tuning, {{"a", -10}, {"b", 1}}), report);
  EXPECT_EQ(check.tried, 2);
  EXPECT_EQ(check.refused, 0);
  EXPECT_EQ(check.tuned_us, 91);
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(picked(tuning, {"a", "b"}), ::testing::ElementsAre("a", "b"));
}

TEST_F(ModelCheckTest, WhatMakesAModelSlowerIsLeftOut) {
  {
    Tuning tuning = open();
    TuneReport report = report_of(tuning, {"a", "b", "c"});
    const ModelCheck check = *try_picks(tuning, 0, model(tuning, {{"a", -2}, {"b", 5}, {"c", -1}}), report);
    EXPECT_EQ(check.tried, 3);
    EXPECT_EQ(check.refused, 1);
    EXPECT_EQ(check.tuned_us, 97);
    EXPECT_EQ(best_row(report.layers[1].rows)->algorithm, "own");
    EXPECT_THAT(report.layers[1].rows.back().failure,
                ::testing::HasSubstr("took 105.0 us with it and 100.0 us with the default"));
  }
  Tuning later = open();  // another process
  EXPECT_THAT(picked(later, {"a", "b", "c"}), ::testing::ElementsAre("a", "c"));
  runs_ = 0;
  TuneReport known = report_of(later, {"a", "b", "c"});
  EXPECT_EQ(try_picks(later, 0, model(later, {{"b", 5}}), known)->tried, 0);
  EXPECT_EQ(runs_, 0);
  // Measured again, the call is tried again.
  TuneReport again = report_of(later, {"b"});
  std::erase_if(again.layers[0].rows, [](const TuningRow& r) { return r.library == kWholeModel; });
  EXPECT_EQ(try_picks(later, 0, model(later, {{"b", -5}}), again)->refused, 0);
  EXPECT_THAT(picked(later, {"a", "b", "c"}), ::testing::ElementsAre("a", "b", "c"));
}

// What an earlier model was faster with does not hide that a new pick is slow.
TEST_F(ModelCheckTest, IsComparedWithWhatIsTakenAlready) {
  Tuning tuning = open();
  TuneReport first = report_of(tuning, {"a"});
  ASSERT_EQ(try_picks(tuning, 0, model(tuning, {{"a", -20}}), first)->refused, 0);
  TuneReport second = report_of(tuning, {"a", "b"});
  const ModelCheck check = *try_picks(tuning, 0, model(tuning, {{"a", -20}, {"b", 5}}), second);
  EXPECT_EQ(check.tried, 1);
  EXPECT_EQ(check.refused, 1);
  EXPECT_EQ(check.default_us, 80);
  EXPECT_THAT(picked(tuning, {"a", "b"}), ::testing::ElementsAre("a"));
}

// Each pick is good alone, and two are bad together.
TEST_F(ModelCheckTest, PicksThatAreSlowTogetherAreLeftOut) {
  Tuning tuning = open();
  TuneReport report = report_of(tuning, {"a", "b"});
  const auto time = [&]() -> Result<ModelTimes> {
    const std::size_t taken = picked(tuning, {"a", "b"}).size();
    return ModelTimes{100, taken == 2 ? 110.0 : 99.5};
  };
  const ModelCheck check = *try_picks(tuning, 0, {[] { return Status(); }, time}, report);
  EXPECT_EQ(check.refused, 2);
  EXPECT_EQ(check.tuned_us, 100);
  EXPECT_TRUE(picked(tuning, {"a", "b"}).empty());
}

TEST_F(ModelCheckTest, AFaultOfTheDeviceIsAnErrorAndLeavesThePicks) {
  Tuning tuning = open();
  TuneReport report = report_of(tuning, {"a"});
  const auto fails = []() -> Result<ModelTimes> { return Status(StatusCode::device, "it is lost"); };
  EXPECT_EQ(try_picks(tuning, 0, {[] { return Status(); }, fails}, report).status().message(), "it is lost");
  EXPECT_THAT(picked(tuning, {"a"}), ::testing::ElementsAre("a"));
}

}  // namespace
}  // namespace fusec::runtime
