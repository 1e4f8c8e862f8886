// SPDX-License-Identifier: Apache-2.0
// The speed gate: how two records compare, and the command's ends. No test here looks at a time: ratios are planted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tool/measure/bench_record.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tool::BenchCase;
using tool::BenchComparison;
using tool::BenchRecord;

BenchRecord record(std::vector<BenchCase> cases) {
  BenchRecord r;
  r.origin = {"cpu", "a CPU, x86-64-v4", "precise", "f32", false, false, 2, 0, "", 40, "2026-01-01", "abc", "llvm"};
  r.cases = std::move(cases);
  return r;
}

BenchComparison compared(const BenchRecord& before, const BenchRecord& now) {
  Result<BenchComparison> result = tool::compare(before, now, "f.json");
  EXPECT_TRUE(result.ok()) << result.status().str();
  return result.ok() ? *result : BenchComparison();
}

const BenchCase kBefore = {"a", {1.00, 1.01, 0.99, 1.00, 1.02}, 1, ""};

TEST(BenchRecord, SlowerNeedsThreePercentAndNoOverlap) {
  const auto now = [](std::vector<double> ratios) {
    return compared(record({kBefore}), record({{"a", std::move(ratios), 1, ""}})).changes.at(0);
  };
  EXPECT_FALSE(now({1.00, 1.01, 0.99, 1.00, 1.02}).slower);
  EXPECT_FALSE(now({1.025, 1.03, 1.025, 1.03, 1.025}).slower);  // no overlap, 2.5 %
  EXPECT_FALSE(now({1.015, 1.2, 1.2, 1.2, 1.2}).slower);        // 20 %, but one round as before
  EXPECT_TRUE(now({1.04, 1.05, 1.04, 1.06, 1.05}).slower);
  EXPECT_TRUE(now({0.9, 0.91, 0.9, 0.92, 0.9}).faster);
  EXPECT_FALSE(now({0.9, 0.91, 0.9, 0.92, 0.9}).slower);
  EXPECT_DOUBLE_EQ(now({2, 2, 2, 2, 3}).ratio, 2);
  EXPECT_DOUBLE_EQ(now({2, 2, 2, 2, 3}).now_spread, 0.5);
}

TEST(BenchRecord, CasesOfOneSideAreNamedAndFailedOnesFail) {
  const BenchRecord before = record({kBefore, {"gone", {1}, 1, ""}});
  const BenchComparison v = compared(before, record({kBefore, {"new", {1}, 1, ""}}));
  EXPECT_TRUE(v.ok());
  EXPECT_THAT(v.missing, ElementsAre("gone"));
  EXPECT_THAT(v.added, ElementsAre("new"));
  const BenchComparison failed = compared(before, record({kBefore, {"gone", {}, 0, "it does not compile"}}));
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.failed.at(0).name, "gone");
  EXPECT_TRUE(failed.missing.empty());
  EXPECT_THAT(tool::compare(before, record({{"new", {1}, 1, ""}}), "f.json").status().str(),
              HasSubstr("none of its cases was run"));
}

TEST(BenchRecord, OnlyLikeIsHeldAgainstLike) {
  const auto refuses = [](auto&& change, const std::vector<std::string>& words) {
    BenchRecord now = record({kBefore});
    change(now.origin);
    const Status status = tool::compare(record({kBefore}), now, "f.json").status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    for (const std::string& word : words) EXPECT_THAT(status.str(), HasSubstr(word));
  };
  refuses([](auto& o) { o.device = "cuda"; }, {"f.json", "device of the file is 'cpu', of this run 'cuda'"});
  refuses([](auto& o) { o.machine = "another"; }, {"a CPU, x86-64-v4", "another", "--save"});
  refuses([](auto& o) { o.numerics = "exact"; }, {"--numerics precise"});
  refuses([](auto& o) { o.precision = "f16"; }, {"--precision f32"});
  refuses([](auto& o) { o.tf32 = true; }, {"--tf32"});
  refuses([](auto& o) { o.batch_invariant = true; }, {"batch-invariant mode", "leave --batch-invariant out"});
  refuses([](auto& o) { o.threads = 8; }, {"--threads 2"});
  BenchRecord now = record({kBefore});
  now.origin.commit = now.origin.date = now.origin.versions = now.origin.driver = "another";
  now.origin.copy_gb_per_s = 99;
  EXPECT_TRUE(compared(record({kBefore}), now).ok());
}

TEST(BenchRecord, ReadsWhatItWritesAndNothingElse) {
  const tool::Json good = make_json(record({kBefore}));
  const auto read = tool::parse_record(good, "f.json");
  ASSERT_TRUE(read.ok()) << read.status().str();
  EXPECT_EQ(make_json(*read), good);
  const auto refuses = [&](auto&& change, const std::string& why) {
    tool::Json json = good;
    change(json);
    EXPECT_THAT(tool::parse_record(json, "f.json").status().str(), testing::AllOf(HasSubstr("f.json"), HasSubstr(why)));
  };
  refuses([](auto& j) { j = tool::Json::array(); }, "is no record");
  refuses([](auto& j) { j["format"] = 1; }, "has format 1, and this fusec reads formats 2 and 3");
  refuses([](auto& j) { j.erase("machine"); }, "machine");
  refuses([](auto& j) { j.erase("driver"); }, "driver");
  refuses([](auto& j) { j.erase("model_copy_mib"); }, "model_copy_mib");
  refuses([](auto& j) { j["copy_gb_per_s"] = nullptr; }, "number");
  refuses([](auto& j) { j["cases"] = tool::Json::array(); }, "holds no case");
  refuses([](auto& j) { j["cases"][0]["ratios"][2] = nullptr; },
          "ratio of 'a' that is no positive number");  // how NaN is written
  refuses([](auto& j) { j["cases"][0]["ratios"][2] = -1; }, "no positive number");
  refuses([](auto& j) { j["cases"][0]["ratios"] = tool::Json::array(); }, "no ratios of 'a'");
}

TEST(BenchRecord, ModelsInCopiesOfAnotherSizeAreRefused) {
  const BenchCase pattern = {"pattern a", {1, 1, 1}, 1, ""}, model = {"model a", {3, 3, 3}, 1, ""};
  const auto old_record = [](std::vector<BenchCase> cases) {
    tool::Json json = make_json(record(std::move(cases)));
    json["format"] = 2;
    json.erase("model_copy_mib");
    return tool::parse_record(json, "f.json").value();
  };
  BenchRecord now = record({pattern, model});
  now.origin.model_copy_mib = 512;
  const Status refused = tool::compare(old_record({pattern, model}), now, "f.json").status();
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.str(), testing::AllOf(HasSubstr("f.json"), HasSubstr("64 MiB"), HasSubstr("512 MiB"),
                                            HasSubstr("--save"), HasSubstr("--models")));
  EXPECT_TRUE(compared(old_record({pattern}), now).ok());
  EXPECT_TRUE(compared(old_record({pattern, model}), record({pattern})).ok()) << "patterns have their own copies";
  now.origin.model_copy_mib = 64;
  EXPECT_TRUE(compared(old_record({pattern, model}), now).ok());
}

// As of a GPU: many cases, rounds that scatter by some percent, another driver and a faster memory. The one planted
// loss is found, and nothing else is.
TEST(BenchRecord, APlantedLossAmongAllCasesOfAGpuIsFound) {
  const auto gpu = [](double scatter, double planted) {
    std::vector<BenchCase> cases;
    for (int i = 0; i < 69; ++i) {
      BenchCase c = {(i < 33 ? "pattern " : "model ") + std::to_string(i), {}, 1, ""};
      for (int round = 0; round < 5; ++round)
        c.ratios.push_back((1 + i) * (1 + scatter * ((7 * i + 3 * round) % 5 - 2)) * (i == 40 ? planted : 1));
      cases.push_back(std::move(c));
    }
    BenchRecord r = record(std::move(cases));
    r.origin.device = "cuda", r.origin.machine = "NVIDIA H100 80GB HBM3, sm_90", r.origin.threads = 0;
    r.origin.precision = "f32,f16";
    return r;
  };
  const BenchRecord before = gpu(0.008, 1);
  BenchRecord now = gpu(0.007, 1.05);
  now.origin.driver = "580.65.06, CUDA 13.0";
  now.origin.copy_gb_per_s = 3000;
  const BenchComparison found = compared(before, now);
  EXPECT_FALSE(found.ok());
  for (const auto& change : found.changes) EXPECT_EQ(change.slower, change.name == "model 40") << change.name;
  EXPECT_TRUE(compared(before, gpu(0.007, 1)).ok());
}

constexpr const char* kAdd =
    "graph @main(%x: f32[64, 64]) {\n"
    "  %0 = add %x, %x: f32[64, 64]\n"
    "  return %0 as \"y\"\n"
    "}\n";

class BenchGate : public testing::Test {
 protected:
  Outcome gate(std::vector<std::string> flags) const {
    std::vector<std::string> arguments = {"bench", "--device", "cpu", "--runs", "2", "--warmup", "1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return w.fusec(arguments);
  }
  // A record of this machine in which every round of every case took so many copies.
  std::string planted(double ratio) const {
    const Outcome saved = gate({"--save", w.path("now.json"), "--patterns", add, "--models", add, "--commit", "abc"});
    EXPECT_EQ(saved.code, 0) << saved.err;
    nlohmann::json record = nlohmann::json::parse(read_text(w.path("now.json")));
    for (auto& one : record["cases"]) one["ratios"] = std::vector<double>(5, ratio);
    return w.file("planted.json", record.dump());
  }
  const Workplace w;
  const std::string add = w.file("add.fir", kAdd);
};

TEST_F(BenchGate, WhatIsKept) {
  const Outcome saved =
      gate({"--save", w.path("f.json"), "--patterns", add, "--models", add, "--commit", "abc", "--json"});
  ASSERT_EQ(saved.code, 0) << saved.err;
  const auto json = nlohmann::json::parse(read_text(w.path("f.json")));
  EXPECT_EQ(json, saved.json());
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["date"].get<std::string>().size(), 10U);
  EXPECT_EQ(json["driver"], "");
  EXPECT_GT(json["copy_gb_per_s"].get<double>(), 0);
  EXPECT_THAT(json["versions"].get<std::string>(), HasSubstr("llvm"));
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_EQ(json["cases"][0]["name"], "pattern add");
  EXPECT_EQ(json["cases"][1]["name"], "model add");
  EXPECT_EQ(json["cases"][0]["ratios"].size(), 5U);
}

TEST_F(BenchGate, EachModelRunsInEachPrecision) {
  const std::vector<std::string> cases = {"--patterns", add, "--models", add};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), cases.begin(), cases.end());
    return gate(flags);
  };
  const Outcome saved = with({"--save", w.path("f.json"), "--precision", "f32,f16", "--json"});
  ASSERT_EQ(saved.code, 0) << saved.err;
  const auto json = saved.json();
  std::vector<std::string> names;
  for (const auto& one : json["cases"]) names.push_back(one["name"]);
  EXPECT_THAT(names, ElementsAre("pattern add", "model add f32", "model add f16"));
  EXPECT_THAT(with({"--against", w.path("f.json")}).err, HasSubstr("add --precision f32,f16"));
  EXPECT_THAT(with({"--save", w.path("f.json"), "--precision", "f32,f8"}).err, HasSubstr("--precision f8 is not one"));
}

TEST_F(BenchGate, SlowerIsExitCodeOne) {
  const Outcome slower = gate({"--against", planted(1e-9), "--patterns", add, "--models", add, "--json"});
  EXPECT_EQ(slower.code, 1) << slower.err;
  EXPECT_EQ(slower.json()["ok"], false);
  ASSERT_EQ(slower.json()["slower"].size(), 2U);
  for (const char* key : {"name", "before", "now", "ratio"})
    EXPECT_TRUE(slower.json()["slower"][0].contains(key)) << key;
  const Outcome text = gate({"--against", w.path("planted.json"), "--patterns", add});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, testing::AllOf(HasSubstr("SLOWER"), HasSubstr("1 of 1 slower"),
                                       HasSubstr("only in the file: model add")));
  const Outcome faster = gate({"--against", planted(1e9), "--patterns", add, "--json"});
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_EQ(faster.json()["ok"], true);
  EXPECT_EQ(faster.json()["faster"].size(), 1U);
}

TEST_F(BenchGate, ACaseThatFailsFailsTheGateAndIsNotKept) {
  const std::string broken = w.file("broken.fir", "graph");
  const Outcome saved =
      gate({"--save", w.path("f.json"), "--patterns", add, "--models", broken, "--models", add, "--json"});
  EXPECT_EQ(saved.code, 1);
  EXPECT_EQ(saved.json()["cases"][2]["ratios"].size(), 5U) << "the others run";
  EXPECT_THAT(saved.err, testing::AllOf(HasSubstr("model broken"), HasSubstr("is not written")));
  EXPECT_EQ(read_text(w.path("f.json")), "");
}

TEST_F(BenchGate, WrongFilesAndFlagsAreErrorsBeforeAnythingIsMeasured) {
  const auto refuses = [&](const std::vector<std::string>& flags, const std::string& why) {
    const Outcome outcome = gate(flags);
    EXPECT_EQ(outcome.code, 2) << why;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  const std::string good = planted(1);
  nlohmann::json other = nlohmann::json::parse(read_text(good));
  other["device"] = "cuda";
  other["machine"] = "NVIDIA H200, sm_90";
  refuses({"--against", w.file("gpu.json", other.dump()), "--patterns", add},
          "device of the file is 'cuda', of this run 'cpu'");
  refuses({"--against", good, "--patterns", add, "--threads", "1"}, "--threads 2");
  refuses({"--against", w.path("absent.json"), "--patterns", add}, "cannot be read");
  refuses({"--against", w.file("text.json", "no json"), "--patterns", add}, "is no record of fusec bench");
  refuses({"--save", w.path("absent/f.json"), "--patterns", add}, "cannot be written");
  refuses({"--against", good}, "need --patterns DIR or --models DIR");
  refuses({add, "--against", good}, "is a record of --save; compare it with --patterns and --models");
  refuses({add, "--save", w.path("f.json")}, "and no other model");
  refuses({"--models", add}, "--models is for --against FILE and --save FILE");
  refuses({"--against", good, "--models", w.path("absent")}, "--models");
}

}  // namespace
}  // namespace fusec::tool_test
