// SPDX-License-Identifier: Apache-2.0
// fusec bench of one model: what it says of a list of times, and which keys, columns and exit codes there are. No test
// here looks at a time that was measured: those that decide are planted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/tool/measure/clocks.h"
#include "runtime/tool/measure/statistics.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tool::Distribution;

TEST(Statistics, OfKnownTimes) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const Distribution d = tool::summarize(times);
  EXPECT_EQ(d.runs, 100);
  EXPECT_DOUBLE_EQ(d.mean, 50.5);
  EXPECT_NEAR(d.std, 29.0115, 1e-4);
  EXPECT_EQ(d.min, 1);
  EXPECT_EQ(d.p50, 50);
  EXPECT_EQ(d.p90, 90);
  EXPECT_EQ(d.p95, 95);
  EXPECT_EQ(d.p99, 99);
  EXPECT_EQ(d.max, 100);
  EXPECT_EQ(tool::summarize({}).max, 0);
  EXPECT_EQ(tool::summarize(std::vector<double>{7}).std, 0);
}

TEST(Statistics, KeepsAsManySamplesAsWanted) {
  std::vector<double> times(2500);
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = static_cast<double>(i) + 0.00049;
  const std::vector<double> kept = tool::thin_out(times, 1000);
  ASSERT_EQ(kept.size(), 1000U);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_EQ(kept[999], 2497);
  EXPECT_EQ(tool::thin_out(times, 9999).size(), 2500U);
  EXPECT_TRUE(tool::thin_out({}, 10).empty());
}

// Values of the U test from a table: of 5 against 5 without overlap the normal approximation gives 0.0061.
TEST(Statistics, RanksTellAShiftFromChance) {
  const std::vector<double> low = {1, 2, 3, 4, 5}, high = {6, 7, 8, 9, 10}, equal(5, 3.0);
  EXPECT_NEAR(tool::mann_whitney(low, high), 0.0061, 1e-4);
  EXPECT_NEAR(tool::mann_whitney(high, low), 0.9964, 1e-3);
  EXPECT_GT(tool::mann_whitney(low, low), 0.4);
  EXPECT_EQ(tool::mann_whitney(equal, equal), 1);
  EXPECT_EQ(tool::mann_whitney({}, high), 1);
}

TEST(Statistics, SlowerNeedsThreePercentAndRanks) {
  std::vector<double> before, same, little, slower, outliers;
  for (int i = 0; i < 50; ++i) {
    const double t = 100 + i % 5;
    before.push_back(t), same.push_back(t), little.push_back(1.02 * t), slower.push_back(1.1 * t);
    outliers.push_back(i < 10 ? 50 * t : t);
  }
  EXPECT_FALSE(tool::compare_times(before, same).slower);
  EXPECT_FALSE(tool::compare_times(before, little).slower) << "below 3 %";
  EXPECT_FALSE(tool::compare_times(before, outliers).slower) << "interrupted runs";
  const tool::TimeChange change = tool::compare_times(before, slower);
  EXPECT_TRUE(change.slower);
  EXPECT_NEAR(change.ratio, 1.1, 1e-9);
  EXPECT_LT(change.p_slower, 1e-6);
  EXPECT_TRUE(tool::compare_times(slower, before).faster);
  EXPECT_FALSE(tool::compare_times(std::vector<double>{1, 1}, std::vector<double>{9, 9}).slower) << "two runs";
}

class MachineFiles : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = w.path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const Workplace w;
};

TEST_F(MachineFiles, ClocksAndLoadAreRead) {
  put("proc/cpuinfo", "cpu MHz\t\t: 1800.5\ncpu MHz\t\t: 3100.25\n");
  put("proc/loadavg", "9999.50 1.0 1.0 1/99 1\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  put("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
  const Device cpu;
  const tool::MachineState state = tool::read_machine_state(cpu, w.path(""));
  EXPECT_EQ(state.cpu_mhz, 3100.25);
  EXPECT_EQ(state.governor, "powersave");
  EXPECT_EQ(state.boost, true);
  EXPECT_EQ(state.load, 9999.5);
  const std::string doubts = tool::doubts(cpu, state, state, 0.5);
  EXPECT_THAT(doubts, AllOf(HasSubstr("governor powersave"), HasSubstr("boost"), HasSubstr("load average 9999.5"),
                            HasSubstr("p90 is 50% above the median")));
  const tool::Json json = tool::make_json(state, state);
  EXPECT_EQ(json["before"]["governor"], "powersave");
  EXPECT_EQ(json["after"]["boost"], true);
}

TEST_F(MachineFiles, AQuietMachineHasNoDoubts) {
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  put("sys/devices/system/cpu/cpufreq/boost", "0\n");
  put("proc/loadavg", "0.00 0.00 0.00 1/99 1\n");
  const tool::MachineState state = tool::read_machine_state({}, w.path(""));
  EXPECT_EQ(state.boost, false);
  EXPECT_EQ(tool::doubts({}, state, state, 0.01), "");
  const tool::MachineState nothing = tool::read_machine_state({}, w.path("absent"));
  EXPECT_TRUE(tool::make_json(nothing, nothing)["before"]["cpu_mhz"].is_null());
}

TEST(MachineState, AClockThatMovesIsNotLocked) {
  Device gpu;
  gpu.kind = TargetKind::cuda;
  tool::MachineState before, after;
  before.gpu = tool::GpuClocks{345, 2619, 1980, 30, 0, ""};
  after.gpu = tool::GpuClocks{1755, 2619, 1980, 60, 97, "power"};
  EXPECT_THAT(tool::doubts(gpu, before, after, 0),
              AllOf(HasSubstr("345 MHz before and 1755 after: not locked"), HasSubstr("slowed by power")));
  EXPECT_EQ(tool::doubts(gpu, before, before, 0), "");
  EXPECT_EQ(tool::make_json(before, after)["after"]["gpu"]["sm_mhz"], 1755);
}

constexpr const char* kProductModel =
    "graph @main(%x: f32[N, 8], %y: f32[8, 8]) {\n"
    "  %0 = matmul %x, %y {transpose_a = 0, transpose_b = 0}: f32[N, 8]\n"
    "  %1 = relu %0: f32[N, 8]\n"
    "  return %1 as \"z\"\n"
    "}\n";

class Bench : public testing::Test {
 protected:
  Outcome bench(std::vector<std::string> flags) const {
    std::vector<std::string> words = {"bench", model, "--device", "cpu", "--runs", "8", "--warmup", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return w.fusec(words);
  }
  // An earlier JSON whose samples are all so long.
  std::string planted(double us) const {
    nlohmann::json json = bench({"--json"}).json();
    for (auto& batch : json["batches"]) batch["samples_us"] = std::vector<double>(20, us);
    return w.file("before.json", json.dump());
  }
  const Workplace w;
  const std::string model = w.file("model.fir", kProductModel);
};

TEST_F(Bench, JsonHasTheDistributionRatesSamplesAndClocks) {
  const Outcome outcome = bench({"--batch", "1,4", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = outcome.json();
  for (const auto& row : {json, json["batches"][1]}) {
    for (const char* key : {"median_ms", "mean_ms", "std_ms", "min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms",
                            "max_ms", "runs_per_s", "samples_per_s"})
      EXPECT_TRUE(row[key].is_number()) << key;
    EXPECT_EQ(row["samples_us"].size(), 8U);
    EXPECT_EQ(row["median_ms"], row["p50_ms"]);
  }
  EXPECT_EQ(json["model"], "model.fir");
  EXPECT_NEAR(json["batches"][1]["samples_per_s"].get<double>(), 4 * json["batches"][1]["runs_per_s"].get<double>(),
              1e-6 * json["batches"][1]["samples_per_s"].get<double>());
  EXPECT_TRUE(json["clocks"]["before"].contains("cpu_mhz"));
  EXPECT_TRUE(json["clocks"]["after"].contains("governor"));
}

TEST_F(Bench, CsvHasALineForEachBatch) {
  const Outcome outcome = bench({"--batch", "1,4", "--csv"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  std::istringstream lines(outcome.out);
  std::string header, first;
  std::getline(lines, header);
  std::getline(lines, first);
  EXPECT_THAT(header, HasSubstr("p99_ms"));
  EXPECT_EQ(commas(header), commas(first)) << outcome.out;
  EXPECT_THAT(first, HasSubstr("\"model.fir\",cpu,\"N=1\",1,1,8,"));
}

TEST_F(Bench, SessionsRunSideBySide) {
  const Outcome outcome = bench({"--sessions", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["sessions"], 3);
  EXPECT_EQ(outcome.json()["runs"], 24);
  EXPECT_THAT(bench({"--sessions", "2"}).out, HasSubstr("2 sessions side by side"));
  EXPECT_THAT(bench({"--sessions", "0"}).err, HasSubstr("--sessions wants a count from 1"));
}

TEST_F(Bench, StepsHaveFlopsAndAreSummedByOp) {
  const Outcome outcome = bench({"--batch", "4", "--steps", "--top", "1", "--by-op", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = outcome.json();
  EXPECT_EQ(json["steps"].size(), 1U);
  double flops = 0;
  int64_t launches = 0;
  for (const auto& op : json["ops"]) flops += op["flops"].get<double>(), launches += op["launches"].get<int64_t>();
  EXPECT_EQ(launches, json["launches"]);
  EXPECT_GE(flops, 2.0 * 4 * 8 * 8);
  EXPECT_LT(flops, 2.0 * 4 * 8 * 8 + 4 * 8 * 100);
  const Outcome text = bench({"--steps", "--by-op"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("GFLOP/s"), HasSubstr("GB/s"), HasSubstr("share")));
}

TEST_F(Bench, SlowerThanBeforeIsExitCodeOne) {
  const Outcome slower = bench({"--against", planted(1e-6), "--json"});
  EXPECT_EQ(slower.code, 1) << slower.err;
  EXPECT_EQ(slower.json()["ok"], false);
  ASSERT_EQ(slower.json()["slower"].size(), 1U);
  for (const char* key : {"name", "before", "now", "ratio", "p_slower"})
    EXPECT_TRUE(slower.json()["slower"][0].contains(key)) << key;
  EXPECT_THAT(bench({"--against", w.path("before.json")}).out, HasSubstr("SLOWER"));
  const Outcome faster = bench({"--against", planted(1e9), "--json"});
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_EQ(faster.json()["ok"], true);
  EXPECT_EQ(faster.json()["faster"].size(), 1U);
}

TEST_F(Bench, OtherFilesAndSettingsAreNotHeldAgainst) {
  const std::string before = planted(5);
  const auto refused = [&](std::vector<std::string> flags, const std::string& why) {
    const Outcome outcome = bench(std::move(flags));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  refused({"--against", w.path("absent.json")}, "cannot be read");
  refused({"--against", w.file("x.json", "[]")}, "is not what fusec bench M --json prints");
  refused({"--against", w.file("x.json", "{\"cases\": []}")}, "is a record of --save");
  refused({"--against", before, "--batch", "3"}, "has no run with N=3");
  refused({"--against", before, "--numerics", "exact"}, "numerics is precise in the file and exact in this run");
  refused({"--against", before, "--threads", "1"}, "threads is 2 in the file and 1 in this run");
  refused({"--against", before, "--sessions", "2"}, "sessions is 1 in the file and 2 in this run");
  auto json = nlohmann::json::parse(read_text(before));
  json["batches"][0]["bytes"] = 1;
  refused({"--against", w.file("x.json", json.dump())}, "another model");
  json["batches"][0].erase("bytes");
  json.erase("target");
  refused({"--against", w.file("x.json", json.dump())}, "lacks 'target'");
}

TEST_F(Bench, FlagsThatChangeNothingAreRefused) {
  const auto refused = [&](std::vector<std::string> flags, const std::string& why) {
    const Outcome outcome = bench(std::move(flags));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  refused({"--transfers"}, "--transfers is for a GPU");
  refused({"--top", "3"}, "--top is for one model with --steps");
  refused({"--csv", "--json"}, "--csv is for one model, without --json");
}

}  // namespace
}  // namespace fusec::tool_test
