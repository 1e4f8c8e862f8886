// SPDX-License-Identifier: Apache-2.0
// The keys that scripts rely on, with values that can be known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Two kernels at most: a softmax, and a transpose that its consumer absorbs.
constexpr const char* kSoftmax =
    "graph @main(%x: f32[N, 64]) {\n"
    "  %0 = reduce_max %x {axes = [1]}: f32[N]\n"
    "  %1 = reshape %0 {shape = [N, 1]}: f32[N, 1]\n"
    "  %2 = sub %x, %1: f32[N, 64]\n"
    "  %3 = exp %2: f32[N, 64]\n"
    "  %4 = reduce_sum %3 {axes = [1]}: f32[N]\n"
    "  %5 = reshape %4 {shape = [N, 1]}: f32[N, 1]\n"
    "  %6 = div %3, %5: f32[N, 64]\n"
    "  return %6 as \"y\"\n"
    "}\n";

constexpr const char* kGather =
    "graph @main(%table: f32[50, 4], %ids: i64[N]) {\n"
    "  %0 = gather %table, %ids {axis = 0}: f32[N, 4]\n"
    "  %1 = reduce_max %ids {axes = [0]}: i64[]\n"
    "  return %0 as \"y\", %1 as \"largest\"\n"
    "}\n";

constexpr const char* kMatmul =
    "graph @main(%x: f32[N, 8], %w: f32[8, 8]) {\n"
    "  %0 = matmul %x, %w {transpose_a = 0, transpose_b = 0}: f32[N, 8]\n"
    "  %1 = relu %0: f32[N, 8]\n"
    "  return %1 as \"y\"\n"
    "}\n";

// Two equal residual blocks.
constexpr const char* kConvolutions =
    "graph @main(%x: f32[N, 32, 9, 9], %w: f32[32, 32, 3, 3], %v: f32[32, 32, 3, 3]) {\n"
    "  %0 = conv %x, %w {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1, layout = \"first\"}: "
    "f32[N, 32, 9, 9]\n"
    "  %1 = conv %0, %v {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1, layout = \"first\"}: "
    "f32[N, 32, 9, 9]\n"
    "  %2 = add %1, %0: f32[N, 32, 9, 9]\n"
    "  %3 = conv %2, %w {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1, layout = \"first\"}: "
    "f32[N, 32, 9, 9]\n"
    "  %4 = add %3, %2: f32[N, 32, 9, 9]\n"
    "  return %4 as \"y\"\n"
    "}\n";

void expect_keys(const json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " is not in " << object.dump(2);
}

TEST(Json, Inspect) {
  const Workplace w;
  const Outcome inspect = w.fusec({"inspect", w.file("softmax.fir", kSoftmax), "--shape", "x=5x64", "--json", "-v"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  const json j = inspect.json();
  expect_keys(j, {"ops", "launches", "generated", "library", "distinct_kernels", "arena_bytes",
                  "live_lower_bound_bytes", "inputs", "outputs", "steps"});
  EXPECT_EQ(j["launches"], j["generated"].get<int>() + j["library"].get<int>());
  EXPECT_EQ(j["launches"], 1);
  EXPECT_EQ(j["steps"].size(), j["launches"]);
  EXPECT_GE(j["arena_bytes"], j["live_lower_bound_bytes"]);
  EXPECT_EQ(j["symbols"]["N"], 5);
  EXPECT_EQ(j["inputs"][0]["shape"], json({5, 64}));
  EXPECT_EQ(j["outputs"][0]["name"], "y");
  EXPECT_EQ(j["outputs"][0]["dtype"], "f32");
}

// The largest value that a symbol may take, where the model has one.
TEST(Json, InspectTellsLimitsOfSymbols) {
  const Workplace w;
  std::string limited = kSoftmax;
  limited.replace(limited.find(" {"), 2, " limits(N = 512) {");
  const std::string model = w.file("softmax.fir", limited);
  const Outcome inspect = w.fusec({"inspect", model, "--shape", "N=5", "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_EQ(inspect.json()["largest_symbols"], json({{"N", 512}}));
  EXPECT_THAT(w.fusec({"inspect", model, "--shape", "N=5"}).out, HasSubstr("N=5 (at most 512)"));
  EXPECT_EQ(w.fusec({"inspect", w.file("any.fir", kSoftmax), "--json"}).json()["largest_symbols"], json::object());
}

// A table that depends on the number of rows alone, in a kernel of its own.
constexpr const char* kTable = R"(graph @main(%x: f32[N, 64]) {
  %0 = iota {shape = [N, 7], axis = 0, dtype = f32}: f32[N, 7]
  %1 = exp %0: f32[N, 7]
  %2 = reduce_sum %1 {axes = [1]}: f32[N]
  %3 = reshape %2 {shape = [N, 1]}: f32[N, 1]
  %4 = add %x, %3: f32[N, 64]
  return %4 as "y"
}
)";

TEST(Json, WhatRunsOncePerPlanIsShown) {
  const Workplace w;
  const std::string model = w.file("table.fir", kTable);
  const Outcome inspect = w.fusec({"inspect", model, "--shape", "N=5", "--device", "cpu", "--json", "-v"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  const json seen = inspect.json();
  EXPECT_EQ(seen["launches"], 1);
  EXPECT_EQ(seen["once"], 1);
  EXPECT_EQ(seen["kept_bytes"], 64);
  EXPECT_EQ(seen["arena_bytes"], 0);
  EXPECT_EQ(seen["steps"][0]["once"], true);
  EXPECT_EQ(seen["steps"][1]["once"], false);
  const Outcome explain = w.fusec({"explain", model, "--shape", "N=5", "--device", "cpu"});
  EXPECT_THAT(explain.out, HasSubstr("once per plan"));
  const Outcome bind = w.fusec({"bind", model, "--shape", "N=5", "--device", "cpu"});
  EXPECT_THAT(bind.out, HasSubstr("kept 64 bytes, written once per plan\n0: once @"));
}

TEST(Json, KernelsForTheShapesAtHandAreShown) {
  const Workplace w;
  const std::string model = w.file("table.fir", kTable);
  const auto inspect = [&](const std::string& specialize) {
    return w.fusec({"inspect", model, "--shape", "N=5", "--device", "cpu", "--specialize", specialize, "--json", "-v"})
        .json();
  };
  const json off = inspect("off"), now = inspect("now");
  EXPECT_EQ(off["specialized"], 0);
  EXPECT_GT(now["specialized"], 0);
  EXPECT_EQ(off["steps"][1]["specialized"], false);
  EXPECT_EQ(now["steps"][1]["specialized"], true);
  EXPECT_NE(off["steps"][1]["implementation"], now["steps"][1]["implementation"]);
  EXPECT_EQ(inspect("background")["specialized"], now["specialized"]) << "they are in the kernel cache";
  const Outcome text = w.fusec({"inspect", model, "--shape", "N=5", "--device", "cpu", "--specialize", "now", "-v"});
  EXPECT_THAT(text.out, HasSubstr("with kernels for these shapes alone"));
  const Outcome bench = w.fusec(
      {"bench", model, "--shape", "N=6", "--device", "cpu", "--specialize", "background", "--runs", "2", "--json"});
  EXPECT_EQ(bench.json()["specialized"], now["specialized"]);
  const Outcome explain = w.fusec({"explain", model, "--shape", "N=5", "--device", "cpu"});
  EXPECT_THAT(explain.out, HasSubstr(", generic: for all values of N\n"));
}

// Times are whatever they are; the sums over them are not.
TEST(Json, BenchLibrarySum) {
  const Workplace w;
  const Outcome bench = w.fusec(
      {"bench", w.file("conv.fir", kConvolutions), "--library-sum", "--rotate-mb", "1", "--runs", "2", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  const json j = bench.json();
  const json& sum = j["library_sum"];
  if (sum["sum_ms"] == 0) GTEST_SKIP() << "built without oneDNN";
  EXPECT_EQ(sum["rounds"], 2);
  EXPECT_GE(sum["rotated_bytes"], 1'000'000);
  EXPECT_NEAR(sum["sum_ms"].get<double>() + sum["slower_ms"].get<double>() + sum["generated_ms"].get<double>() +
                  sum["rest_ms"].get<double>(),
              sum["model_ms"], 1e-6);
  double library_us = 0, generated_us = 0, isolated_us = 0;
  int64_t steps = 0;
  for (const json& group : sum["groups"]) {
    const double count = group["count"];
    steps += group["count"].get<int64_t>();
    (group["kind"] == "library" ? library_us : generated_us) += count * group["plan_us"].get<double>();
    if (group["kind"] == "generated") continue;
    EXPECT_TRUE(group["layouts_us"].contains(group["layout"].get<std::string>()));
    EXPECT_THAT(group["isolated"], testing::StartsWith("onednn "));
    EXPECT_EQ(count, group["what"].get<std::string>().find("+add") == std::string::npos ? 1 : 2);
    isolated_us += count * group["isolated_us"].get<double>();
  }
  EXPECT_EQ(steps, j["launches"]);
  EXPECT_NEAR(sum["slower_ms"], (library_us - isolated_us) / 1e3, 1e-6);
  EXPECT_NEAR(sum["generated_ms"], generated_us / 1e3, 1e-6);
  EXPECT_GT(sum["sum_ms"], 0);  // a median of sums: how far it lies from the sum of medians above is the machine's
}

TEST(Json, TuneMeasuresOnce) {
  const Workplace w;
  const std::string model = w.file("matmul.fir", kMatmul);
  const auto tune = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tune", model, "--shape", "N=5", "--quick", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return w.fusec(arguments);
  };
  const Outcome first = tune({});
  ASSERT_EQ(first.code, 0) << first.err;
  const json j = first.json();
  expect_keys(j, {"device", "database", "merged", "measured", "reused", "failed", "elsewhere", "seconds", "finished",
                  "heuristic_us", "tuned_us", "spread", "scope", "layers", "model"});
  ASSERT_EQ(j["model"].size(), 1u);
  expect_keys(j["model"][0], {"symbols", "default_us", "tuned_us", "tried", "refused", "seconds"});
  EXPECT_LE(j["model"][0]["tuned_us"], j["model"][0]["default_us"]);
  EXPECT_GE(j["measured"], 1);
  EXPECT_EQ(j["reused"], 0);
  EXPECT_TRUE(j["finished"]);
  EXPECT_GT(j["tuned_us"], 0);
  EXPECT_LE(j["tuned_us"], j["heuristic_us"]);
  ASSERT_EQ(j["layers"].size(), 1u);
  expect_keys(j["layers"][0], {"origin", "count", "symbols", "call", "heuristic", "best", "algorithms"});
  EXPECT_THAT(j["layers"][0]["call"], testing::StartsWith("matmul f32 a=f32[5,8]"));
  const json again = tune({}).json();
  EXPECT_EQ(again["measured"], 0);
  EXPECT_EQ(again["failed"], 0);
  EXPECT_EQ(again["reused"], j["measured"]);
  EXPECT_EQ(again["tuned_us"], j["tuned_us"]);
  EXPECT_EQ(tune({"--again"}).json()["measured"], j["measured"]);
  // Another database learns it by merging.
  const json merged = tune({"--tuning-db", w.path("other.sqlite"), "--merge", j["database"].get<std::string>()}).json();
  EXPECT_GE(merged["merged"], j["measured"]);  // and rows of the whole model
  EXPECT_EQ(merged["measured"], 0);
  for (const char* strategy : {"cached", "heuristic", "profile", "reproducible"}) {
    EXPECT_EQ(w.fusec({"run", model, "--strategy", strategy, "--json"}).code, 0) << strategy;
  }
  EXPECT_EQ(w.fusec({"run", model, "--tune", "quick"}).code, 0);
}

TEST(Json, TuneNeedsSomethingToDo) {
  const Workplace w;
  EXPECT_EQ(w.fusec({"tune"}).code, 2);
  EXPECT_EQ(w.fusec({"tune", "--merge", w.path("absent.sqlite")}).code, 2);
  const std::string model = w.file("matmul.fir", kMatmul);
  EXPECT_EQ(w.fusec({"run", model, "--strategy", "luck"}).code, 2);
  EXPECT_EQ(w.fusec({"run", model, "--tune", "luck"}).code, 2);
  EXPECT_EQ(w.fusec({"run", model, "--tune", "quick", "--strategy", "heuristic"}).code, 2);
}

TEST(Json, BenchCountsKernelsOverBatches) {
  const Workplace w;
  const std::string model = w.file("softmax.fir", kSoftmax);
  const auto bench = [&] { return w.fusec({"bench", model, "--batch", "1,7,64", "--runs", "5", "--json"}); };
  const Outcome first = bench();
  ASSERT_EQ(first.code, 0) << first.err;
  const json j = first.json();
  expect_keys(j, {"device", "median_ms", "p95_ms", "min_ms", "runs", "compile_ms", "ready_ms", "compiled_kernels",
                  "cached_kernels", "distinct_kernels", "launches", "bytes", "copy_ms", "score", "weights_ms",
                  "device_ms", "batches"});
  EXPECT_EQ(j["device"], "cpu");
  EXPECT_EQ(j["bytes"], 2 * 64 * 4);
  EXPECT_GT(j["score"], 0);
  EXPECT_LE(j["min_ms"], j["median_ms"]);
  EXPECT_LE(j["median_ms"], j["p95_ms"]);
  EXPECT_EQ(j["compiled_kernels"], j["distinct_kernels"]);
  ASSERT_EQ(j["batches"].size(), 3U);
  EXPECT_EQ(j["batches"][2]["batch"], 64);
  EXPECT_EQ(j["batches"][2]["bytes"], 64 * 2 * 64 * 4);
  EXPECT_EQ(j["batches"][2]["compiled_kernels"], j["compiled_kernels"]);
  const json again = bench().json();
  EXPECT_EQ(again["compiled_kernels"], 0);
  EXPECT_EQ(again["cached_kernels"], j["distinct_kernels"]);
}

TEST(Json, BenchOfLibraryStepsHasNoScore) {
  const Workplace w;
  const Outcome bench = w.fusec({"bench", w.file("matmul.fir", kMatmul), "--runs", "3", "--json", "--steps"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_TRUE(bench.json()["score"].is_null());
  EXPECT_EQ(bench.json()["steps"][0]["kind"], "library");
  EXPECT_GT(bench.json()["steps"][0]["us"], 0);
  EXPECT_TRUE(bench.json()["steps"][0]["predicted_us"].is_null());  // of a library
}

TEST(Json, BenchOfPatterns) {
  const Workplace w;
  w.file("softmax.fir", kSoftmax);
  w.file("broken.fir", "graph");
  const Outcome bench = w.fusec({"bench", "--patterns", w.path(""), "--runs", "5", "--cycles", "--json"});
  EXPECT_EQ(bench.code, 1);
  const json j = bench.json();
  expect_keys(j, {"copy", "patterns"});
  expect_keys(j["copy"][0], {"bytes", "kind", "gb_per_s"});
  ASSERT_EQ(j["patterns"].size(), 2U);
  EXPECT_THAT(j["patterns"][0]["error"].get<std::string>(), HasSubstr("invalid_model"));
  expect_keys(j["patterns"][1],
              {"pattern", "median_ms", "bytes", "copy_ms", "score", "regime", "launches", "predicted_us", "bound_us"});
  EXPECT_GT(j["patterns"][1]["predicted_us"], 0);
  EXPECT_GT(j["patterns"][1]["bound_us"], 0);
  EXPECT_EQ(j["patterns"][1]["pattern"], "softmax");
  EXPECT_GT(j["patterns"][1]["cycles_per_16"].get<double>(), 1);  // an exponential per element
  EXPECT_GT(j["patterns"][1]["task_bytes"].get<int64_t>(), 0);
}

TEST(Json, BenchOfPatternsWithinALimit) {
  const Workplace w;
  w.file("softmax.fir", kSoftmax);
  const auto bench = [&](const char* limit) {
    return w.fusec({"bench", "--patterns", w.path(""), "--device", "cpu", "--time-limit", limit, "--json"});
  };
  const Outcome none = bench("1e-9");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.json()["patterns"][0]["error"].get<std::string>(), HasSubstr("--time-limit has passed"));
  const Outcome some = bench("60");
  EXPECT_EQ(some.code, 0);
  EXPECT_GE(some.json()["patterns"][0]["runs"], 3);
}

// Of 1000 random indices of an axis of 50, none leaves the axis (the run would fail) and the last one is among them.
TEST(Json, RandomIndicesCoverTheirAxis) {
  const Workplace w;
  const Outcome run = w.fusec({"run", w.file("gather.fir", kGather), "--shape", "ids=1000", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outputs"][1]["first"][0], 49);
}

TEST(Json, CacheFollowsCompile) {
  const Workplace w;
  const std::string model = w.file("softmax.fir", kSoftmax);
  const json compiled = w.fusec({"compile", model, "--json"}).json();
  EXPECT_EQ(compiled["compiled_kernels"], compiled["distinct_kernels"]);
  ASSERT_EQ(compiled["kernels"].size(), compiled["compiled_kernels"]);
  EXPECT_THAT(compiled["kernels"][0]["kernel"].get<std::string>(), testing::StartsWith("row_softmax_f32_"));
  EXPECT_GT(compiled["kernels"][0]["ms"], 0);
  EXPECT_EQ(w.fusec({"compile", model, "--json"}).json()["kernels"].size(), 0U) << "they are in the cache";
  EXPECT_EQ(w.fusec({"cache", "stats", "--json"}).json()["entries"], compiled["distinct_kernels"]);
  EXPECT_EQ(w.fusec({"cache", "verify"}).code, 0);
  const std::string entry =
      w.path("cache/v1/") + w.fusec({"cache", "ls", "--json"}).json()[0]["path"].get<std::string>();
  std::string bytes = read_text(entry);
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] ^= 1;
  w.file("cache/v1/" + w.fusec({"cache", "ls", "--json"}).json()[0]["path"].get<std::string>(), bytes);
  const Outcome damaged = w.fusec({"cache", "verify", "--json"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_EQ(damaged.json()["damaged"].size(), 1U);
  EXPECT_EQ(w.fusec({"compile", model, "--json"}).json()["compiled_kernels"], 1);
  EXPECT_EQ(w.fusec({"cache", "clear", "--json"}).json()["removed"], 1);
  EXPECT_EQ(w.fusec({"cache", "stats", "--json"}).json()["entries"], 0);
}

TEST(Json, Doctor) {
  const Workplace w;
  const Outcome doctor = w.fusec({"doctor", "--json"});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  EXPECT_EQ(doctor.json()["ok"], true);
  EXPECT_THAT(doctor.json()["self-test"].get<std::string>(), HasSubstr("ran right"));
}

TEST(Json, DoctorShowsTheMachineModel) {
  const Workplace w;
  const Outcome doctor = w.fusec({"doctor", "--device", "cpu", "--json"});
  ASSERT_EQ(doctor.code, 0) << doctor.err;
  const nlohmann::json model = doctor.json()["models"][0];
  expect_keys(model, {"device", "key", "digest", "figures"});
  EXPECT_EQ(model["figures"]["memory_copy"]["source"], "estimated, unmeasured");
  EXPECT_EQ(model["figures"]["memory_copy"]["unit"], "GB/s");
  const std::string text = w.fusec({"doctor", "--device", "cpu"}).out;
  EXPECT_THAT(text, HasSubstr("cpu memory_copy"));
  EXPECT_THAT(text, HasSubstr("GB/s, estimated, unmeasured"));
}

TEST(Json, DoctorMeasuresAndKeepsTheModel) {
  const Workplace w;
  const std::string relu = w.file("softmax.fir", kSoftmax);
  const Outcome before = w.fusec({"explain", relu, "--device", "cpu", "--json"});
  const Outcome measured = w.fusec({"doctor", "--device", "cpu", "--measure", "--json"});
  ASSERT_EQ(measured.code, 0) << measured.err << measured.out;
  const nlohmann::json model = measured.json()["models"][0];
  for (const auto& [name, figure] : model["figures"].items()) {
    EXPECT_GT(figure["value"], 0) << name;
    EXPECT_EQ(figure["source"], name == "block_start" ? "estimated, unmeasured" : "measured") << name;
  }
  // Whoever comes later reads it.
  EXPECT_EQ(w.fusec({"doctor", "--device", "cpu", "--json"}).json()["models"][0]["digest"], model["digest"]);
  const nlohmann::json step = w.fusec({"explain", relu, "--device", "cpu", "--json"}).json()["steps"][0];
  EXPECT_NE(step["predicted_us"], before.json()["steps"][0]["predicted_us"]);
  EXPECT_GT(step["predicted_us"], 0);
  EXPECT_GT(step["bound_us"], 0);
}

TEST(Stages, EachPrintsItsText) {
  const Workplace w;
  const std::string model = w.file("softmax.fir", kSoftmax);
  const auto text = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = w.fusec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  };
  EXPECT_EQ(text({"import", model}), kSoftmax);
  EXPECT_THAT(text({"optimize", model}), HasSubstr("graph @main"));
  EXPECT_THAT(text({"optimize", "--list-passes"}), HasSubstr("fold_constants"));
  EXPECT_THAT(text({"optimize", model, "--bisect"}), HasSubstr("all passes verify"));
  EXPECT_THAT(text({"partition", model}), HasSubstr("region r0 kernel"));
  EXPECT_THAT(text({"lower", model}), HasSubstr("kernel @"));
  EXPECT_THAT(text({"select", model}), HasSubstr("picked"));
  EXPECT_THAT(text({"emit", model}), HasSubstr("define "));
  EXPECT_THAT(text({"bind", model}), ContainsRegex("0: @row_softmax_f32_[0-9a-f]{4} .input0.0, output0.0"));
  EXPECT_THAT(
      text({"explain", model, "-v"}),
      AllOf(HasSubstr("step 0: generated"), HasSubstr("  kernel row_softmax_f32_"), HasSubstr("threads: reads ")));
  EXPECT_THAT(text({"explain", model}), HasSubstr("predicted "));
  EXPECT_EQ(text({"emit", model, "--kernel", "k0"}), text({"emit", model}));
  EXPECT_THAT(text({"graph", model, "-o", "-"}), HasSubstr("digraph"));
}

TEST(Stages, ExplainShowsTheVariantThatShapesTake) {
  const Workplace w;
  const std::string model = w.file("relu.fir", R"(graph @main(%x: f32[N]) {
  %0 = relu %x: f32[N]
  return %0 as "y"
}
)");
  const auto text = [&](const std::string& shape) {
    const Outcome outcome = w.fusec({"explain", model, "--target", "sm_90", "-v", "--shape", shape});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(text("N=100"), AllOf(HasSubstr("  when: -N + 2130706432 >= 0\n"), HasSubstr("fits32")));
  EXPECT_THAT(text("N=3000000000"), AllOf(Not(HasSubstr("when:")), Not(HasSubstr("fits32"))));
}

// The same figures as those of emit.
TEST(Stages, ExplainShowsRegistersOfAGpusKernels) {
  const Workplace w;
  const std::string model = w.file("softmax.fir", kSoftmax);
  const auto json = [&](std::vector<std::string> line) {
    const Outcome outcome = w.fusec(std::move(line));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  const nlohmann::json emitted = json({"emit", model, "--target", "sm_90", "--as", "ptx", "--json"})["kernels"];
  if (emitted.at(0).contains("no_figures")) GTEST_SKIP() << emitted[0]["no_figures"];
  const nlohmann::json step = json({"explain", model, "--target", "sm_90", "-v", "--json"})["steps"].at(0);
  bool found = false;
  for (const nlohmann::json& kernel : emitted)
    found = found || (kernel["kernel"] == step["kernels"].at(0) && kernel["parts"] == step["code"]);
  EXPECT_TRUE(found) << step["code"];
  EXPECT_GT(step["code"].at(0)["registers"], 0);
  EXPECT_THAT(w.fusec({"explain", model, "--target", "sm_90", "-v"}).out, HasSubstr(" registers and "));
  EXPECT_FALSE(json({"explain", model, "--target", "sm_90", "--json"})["steps"].at(0).contains("code"));
}

TEST(Stages, DumpKeepsThemAll) {
  const Workplace w;
  const Outcome run = w.fusec({"run", w.file("softmax.fir", kSoftmax), "--dump", w.path("dump")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(read_text(w.path("dump/import.fir")), kSoftmax);
  EXPECT_THAT(read_text(w.path("dump/optimize.fir")), HasSubstr("graph @main"));
  EXPECT_THAT(read_text(w.path("dump/partition.txt")), HasSubstr("region r0 kernel"));
  EXPECT_THAT(read_text(w.path("dump/lower.fir")), HasSubstr("kernel @row_softmax_f32_"));
  EXPECT_THAT(read_text(w.path("dump/select.fir")), HasSubstr("picked"));
  const std::string lower = read_text(w.path("dump/lower.fir"));
  const std::size_t name = lower.find("kernel @") + std::string("kernel @").size();
  const std::string kernel = lower.substr(name, lower.find('(', name) - name);
  EXPECT_THAT(read_text(w.path("dump/emit." + kernel + ".ll")), HasSubstr("define void @" + kernel + "("));
}

}  // namespace
}  // namespace fusec::tool_test
