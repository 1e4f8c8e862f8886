// SPDX-License-Identifier: Apache-2.0
// `fusec tune` on generated kernels: candidates are measured once, and later commands know the times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Large enough for its kernel to have several candidates.
constexpr const char* kPointwise =
    "graph @main(%x: f32[N, 65536]) {\n"
    "  %0 = exp %x: f32[N, 65536]\n"
    "  return %0 as \"y\"\n"
    "}\n";

TEST(Tune, CandidatesAreMeasuredOnceAndKnownToLaterCommands) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise);
  const std::vector<std::string> tune = {"tune",   model,      "--batch", "64",        "--quick",
                                         "--json", "--device", "cpu",     "--threads", "1"};
  const Outcome first = place.fusec(tune);
  ASSERT_EQ(first.code, 0) << first.err;
  const json kernels = first.json()["kernels"];
  EXPECT_GE(kernels["measured"], 2) << first.out;
  EXPECT_EQ(kernels["reused"], 0);
  EXPECT_EQ(kernels["failed"], 0) << first.out;
  ASSERT_EQ(kernels["variants"].size(), 1U);
  const json& variant = kernels["variants"][0];
  EXPECT_EQ(variant["algorithms"].size(), kernels["measured"]);
  EXPECT_GT(variant["heuristic"]["us"], 0.0);
  EXPECT_LE(variant["best"]["us"], variant["heuristic"]["us"]);
  EXPECT_LE(kernels["tuned_us"], kernels["first_us"]);

  const Outcome second = place.fusec(tune);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.json()["kernels"]["measured"], 0) << second.out;
  EXPECT_EQ(second.json()["kernels"]["reused"], kernels["measured"]);

  const Outcome explained = place.fusec({"explain", model, "-v", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("picked: by measured times")) << explained.out;
}

TEST(Tune, ARunThatTunesMeasuresTheShapesAtHand) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise);
  const std::vector<std::string> cpu = {"--device", "cpu", "--threads", "1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), cpu.begin(), cpu.end());
    return place.fusec(arguments);
  };
  const Outcome run = with({"run", model, "--shape", "N=64", "--tune", "full"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Outcome known = with({"tune", model, "--batch", "64", "--quick", "--json"});
  ASSERT_EQ(known.code, 0) << known.err;
  EXPECT_EQ(known.json()["kernels"]["measured"], 0) << known.out;
  EXPECT_GE(known.json()["kernels"]["reused"], 2) << known.out;
  const Outcome other = with({"tune", model, "--batch", "32", "--quick", "--json"});
  EXPECT_GE(other.json()["kernels"]["measured"], 2) << other.out;
}

// Four processes measure what one does, each call once.
TEST(Tune, ShardsMeasureTheRowsOfOneProcess) {
  const Workplace place;
  std::string text = "graph @main(%x: f32[N, 32]) {\n";
  for (int i = 0; i < 6; ++i) {  // six products of different sizes
    const int from = i == 0 ? 32 : 16 * i + 32, to = 16 * (i + 1) + 32;
    const std::string in = i == 0 ? "x" : std::to_string(3 * i - 1);
    text += "  %" + std::to_string(3 * i) + " = constant f32[" + std::to_string(from) + ", " + std::to_string(to) +
            "] {random 1}\n  %" + std::to_string(3 * i + 1) + " = matmul %" + in + ", %" + std::to_string(3 * i) +
            " {transpose_a = 0, transpose_b = 0}: f32[N, " + std::to_string(to) + "]\n  %" + std::to_string(3 * i + 2) +
            " = exp %" + std::to_string(3 * i + 1) + ": f32[N, " + std::to_string(to) + "]\n";
  }
  const std::string model = place.file("six.fir", text + "  return %17 as \"y\"\n}\n");
  const auto tune = [&](const std::string& database, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tune",     model, "--batch",   "8", "--quick",     "--json",
                                          "--device", "cpu", "--threads", "1", "--tuning-db", place.path(database)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place.fusec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  const json alone = tune("one.sqlite", {});
  int64_t measured = 0;
  std::vector<std::string> merges;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "part" + std::to_string(i) + ".sqlite";
    const json part = tune(name, {"--shard", std::to_string(i) + "/4"});
    measured += part["measured"].get<int64_t>();
    EXPECT_LT(part["measured"], alone["measured"]);
    merges.insert(merges.end(), {"--merge", place.path(name)});
  }
  EXPECT_EQ(measured, alone["measured"]);
  const json merged = tune("all.sqlite", merges);
  EXPECT_EQ(merged["measured"], 0);
  EXPECT_EQ(merged["elsewhere"], 0);
  EXPECT_EQ(place.measured_rows("all.sqlite"), place.measured_rows("one.sqlite"));
  EXPECT_THAT(place.fusec({"tune", model, "--shard", "4/4"}).err,
              HasSubstr("there is no part 4 of 4: they are 0 to 3"));
}

// What a launcher says is shown by what it says wrong.
TEST(Tune, AShardIsWhatTheLauncherSays) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise);
  struct Case {
    std::string shard;
    std::map<std::string, std::string> environment;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"auto", {}, "no launcher says which process this is"},
      {"auto", {{"FUSEC_SHARD", "9/4"}}, "there is no part 9 of 4"},
      {"auto", {{"FUSEC_SHARD", "two"}}, "FUSEC_SHARD is 'two', and not I/N"},
      {"auto", {{"OMPI_COMM_WORLD_RANK", "7"}, {"OMPI_COMM_WORLD_SIZE", "7"}}, "there is no part 7 of 7"},
      {"auto", {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "2"}}, "there is no part 3 of 2"},
      {"auto", {{"RANK", "3"}, {"WORLD_SIZE", "3"}}, "there is no part 3 of 3"},
      {"auto", {{"JOB_COMPLETION_INDEX", "3"}}, "JOB_COMPLETION_INDEX says no number of processes; give auto/N"},
      {"auto/3", {{"JOB_COMPLETION_INDEX", "5"}}, "there is no part 5 of 3"},
      {"3", {}, "give I/N"},
      {"0/0", {}, "give I/N"},
      {"-1/4", {}, "give I/N"},
      {"auto/", {{"RANK", "0"}}, "give I/N"},
  };
  for (const Case& c : cases) {
    for (const auto& [name, value] : c.environment) setenv(name.c_str(), value.c_str(), 1);
    const Outcome outcome = place.fusec({"tune", model, "--shard", c.shard});
    for (const auto& [name, value] : c.environment) unsetenv(name.c_str());
    EXPECT_EQ(outcome.code, 2) << c.shard;
    EXPECT_THAT(outcome.err, HasSubstr("--shard " + c.shard + ": " + c.message));
  }
}

TEST(Tune, CandidatesCanBeMeasuredInAProcessOfTheirOwn) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise);
  const Outcome tuned = place.fusec(
      {"tune", model, "--batch", "64", "--quick", "--json", "--device", "cpu", "--threads", "1", "--isolated"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_GE(tuned.json()["kernels"]["measured"], 2) << tuned.out;
  EXPECT_EQ(tuned.json()["kernels"]["failed"], 0) << tuned.out;
}

TEST(Tune, SaysTheFirstChoiceAndTheTunedOne) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise);
  const Outcome tuned = place.fusec({"tune", model, "--batch", "64", "--quick", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("generated kernels with several candidates: "));
  EXPECT_THAT(tuned.out, HasSubstr("geometric mean"));
}

TEST(Tune, TheDatabaseIsListedExportedAndPruned) {
  const Workplace place;
  const std::string model = place.file("exp.fir", kPointwise), copy = place.path("copy.sqlite");
  EXPECT_EQ(place.fusec({"tune", "--list"}).code, 2) << "there is none yet";
  ASSERT_EQ(place.fusec({"tune", model, "--batch", "64", "--quick", "--device", "cpu", "--threads", "1"}).code, 0);
  const Outcome listed = place.fusec({"tune", "--list", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  const json rows = listed.json()["rows"];
  ASSERT_GE(rows.size(), 2U) << listed.out;
  EXPECT_GT(rows[0]["us"], 0.0);
  EXPECT_THAT(place.fusec({"tune", "--list", "-v"}).out, HasSubstr(rows[0]["scope"].get<std::string>()));
  EXPECT_EQ(place.fusec({"tune", "--list", "--json", "--only", "no such call"}).json()["rows"].size(), 0U);

  const Outcome exported = place.fusec({"tune", "--export", copy, "--json"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_GE(exported.json()["exported"], rows.size());
  EXPECT_EQ(place.fusec({"tune", "--export", copy}).code, 2) << "the file exists";
  EXPECT_EQ(place.fusec({"tune", "--list", "--json", "--tuning-db", copy}).json()["rows"], rows);

  EXPECT_EQ(place.fusec({"tune", "--prune", "failures", "--json"}).json()["pruned"], 0);
  EXPECT_EQ(place.fusec({"tune", "--prune", "30d", "--json"}).json()["pruned"], 0) << "all are new";
  EXPECT_EQ(place.fusec({"tune", "--prune", "30 days"}).code, 2);
  EXPECT_EQ(place.fusec({"tune", "--prune", "all", "--json"}).json()["pruned"], rows.size());
  EXPECT_EQ(place.fusec({"tune", "--list", "--json"}).json()["rows"].size(), 0U);
  EXPECT_EQ(place.fusec({"tune", "--list", model}).code, 2);

  ASSERT_EQ(place.fusec({"tune", "--merge", copy}).code, 0);
  EXPECT_EQ(place.fusec({"tune", "--list", "--json"}).json()["rows"], rows) << "what was exported comes back";
}

}  // namespace
}  // namespace fusec::tool_test
