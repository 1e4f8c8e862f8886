// SPDX-License-Identifier: Apache-2.0
// `fusec advise` on a whole model: refused without measured layers, exact with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/cache/tuning.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kDigits = FUSEC_SOURCE_DIR "/samples/digits/digits.onnx";

std::vector<std::string> on_one_thread(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--device", "cpu", "--threads", "1"});
  return arguments;
}

TEST(Advise, ADigitsModelFromMissingLayersToAdvice) {
  const Workplace place;
  const std::vector<std::string> again = on_one_thread({"advise", kDigits, "--runs", "5", "--json", "--no-check"});
  const Outcome missing = place.fusec(again);
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, HasSubstr("the tuning database lacks"));
  EXPECT_THAT(missing.err, HasSubstr("--measure"));

  std::vector<std::string> measure = again;
  measure.insert(measure.end(), {"--measure", "--quick"});
  const Outcome first = place.fusec(measure);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, testing::Not(HasSubstr("layers: 0 ways measured")));
  const Outcome second = place.fusec(measure);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("layers: 0 ways measured"));

  const Outcome known = place.fusec(again);
  ASSERT_EQ(known.code, 0) << known.err;
  const json result = known.json();
  double sum = result["bound_us"];
  for (const auto& [name, us] : result["parts"].items()) sum += us.get<double>();
  EXPECT_NEAR(sum, result["measured_us"], 1e-6 * result["measured_us"].get<double>());
  for (const char* name : {"launch", "layout", "algorithm", "fusion", "precision", "branches", "other"})
    EXPECT_TRUE(result["parts"].contains(name)) << name;
  EXPECT_GT(result["parts"]["launch"], 0.0);
  EXPECT_EQ(result["profile"]["source"], "threads");
  EXPECT_EQ(result["profile"]["runs"], 5);
  EXPECT_LE(result["bound_us"], result["library_bound_us"]["critical"]);
  EXPECT_GT(result["fusion_bound_us"], 0.0);
  EXPECT_LE(result["library_bound_us"]["critical"], result["library_bound_us"]["serial"]);
  ASSERT_FALSE(result["steps"].empty());
  EXPECT_GE(result["layers"]["steps"], result["layers"]["distinct"]);
  const json& last = result["steps"].back();
  EXPECT_FALSE(last["after"].empty()) << "the last step reads what others wrote";
  for (const json& one : result["steps"]) EXPECT_GT(one["floor_us"], 0.0) << one;
}

TEST(Advise, ADatabaseAloneGivesBoundsOfEachBatch) {
  const Workplace place;
  const std::string database = place.path("times.sqlite");
  const Outcome here = place.fusec(on_one_thread({"advise", kDigits, "--batch", "1,4", "--measure", "--quick", "--runs",
                                                  "5", "--no-check", "--tuning-db", database, "--json"}));
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.json()["batches"].size(), 2U);
  EXPECT_TRUE(here.json()["best_batch"] == 1 || here.json()["best_batch"] == 4) << here.out;
  EXPECT_TRUE(here.json()["falling_bounds"].is_array());

  const auto elsewhere = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"advise", kDigits, "--database", database, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return place.fusec(arguments);
  };
  const Outcome alone = elsewhere({"--device", "cpu", "--batch", "1,4"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const json result = alone.json();
  EXPECT_TRUE(result["measured_us"].is_null());
  double sum = result["bound_us"];
  for (const auto& [name, us] : result["parts"].items()) sum += us.get<double>();
  EXPECT_NEAR(sum, result["estimated_us"], 1e-6 * result["estimated_us"].get<double>());
  const Outcome missing = elsewhere({"--device", "cpu", "--batch", "8"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("the tuning database lacks"));
  const Outcome other = elsewhere({"--target", "cuda:sm_90"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("has no rows of sm_90"));
  const Outcome measure = elsewhere({"--device", "cpu", "--measure"});
  EXPECT_EQ(measure.code, 2);
  EXPECT_THAT(measure.err, HasSubstr("--measure measures this one"));
}

// Where a call has rows of runs one after another, these take the place of its rows alone.
TEST(Advise, RowsOfRepeatedCallsCount) {
  const Workplace place;
  const std::string database = place.path("times.sqlite");
  const Outcome here = place.fusec(on_one_thread(
      {"advise", kDigits, "--measure", "--quick", "--runs", "5", "--no-check", "--tuning-db", database, "--json"}));
  ASSERT_EQ(here.code, 0) << here.err;
  const json before = here.json();
  for (const json& step : before["steps"]) EXPECT_EQ(step["rows_repeated"], false);
  // Another machine, whose cache keeps the constants.
  const std::string theirs = place.path("theirs.sqlite");
  {
    const auto known = *runtime::TuningDatabase::open(database);
    const auto times = *runtime::TuningDatabase::open_to_write(theirs, [](const std::string&) {});
    const std::vector<runtime::TuningRow> rows = *known->rows("");
    for (runtime::TuningRow row : rows) {
      if (row.failed()) continue;
      const std::string call = row.call;
      const bool of_call = !row.scope.starts_with("kernels; ");
      if (of_call) row.call = call + " warm";
      ASSERT_TRUE(times->put(row).ok());
      if (!of_call) continue;
      row.call = call + " repeated", row.median_us = row.is_default ? 10 : 20;
      ASSERT_TRUE(times->put(row).ok());
    }
  }
  const Outcome elsewhere =
      place.fusec({"advise", kDigits, "--database", theirs, "--json", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.err;
  const json after = elsewhere.json();
  int calls = 0;
  for (const json& step : after["steps"]) {
    if (step["kind"] != "library" || step["row_us"].is_null()) continue;
    ++calls;
    EXPECT_EQ(step["rows_repeated"], true) << step;
    EXPECT_EQ(step["taken_row_us"], 10) << step;
    EXPECT_EQ(step["row_us"], 10) << step;
    EXPECT_EQ(step["us"], 10) << step;
  }
  EXPECT_GT(calls, 0);
}

TEST(Advise, WhatItCannotDoIsRefused) {
  const Workplace place;
  const Outcome type = place.fusec(on_one_thread({"advise", kDigits, "--allow", "f8"}));
  EXPECT_EQ(type.code, 2);
  EXPECT_THAT(type.err, HasSubstr("--allow takes auto, f32, tf32 and f16, not 'f8'"));
  const Outcome invariant = place.fusec(on_one_thread({"advise", kDigits, "--batch-invariant"}));
  EXPECT_EQ(invariant.code, 2);
  EXPECT_THAT(invariant.err, HasSubstr("--batch-invariant"));
  EXPECT_EQ(place.fusec(on_one_thread({"advise", place.path("absent.onnx")})).code, 2);
  const Outcome database = place.fusec(on_one_thread({"advise", kDigits, "--database", place.path("absent.sqlite")}));
  EXPECT_EQ(database.code, 2);
  EXPECT_THAT(database.err, HasSubstr("absent.sqlite"));
  EXPECT_EQ(place.fusec(on_one_thread({"advise", kDigits, "--scope", "H100"})).code, 2);
}

}  // namespace
}  // namespace fusec::tool_test
