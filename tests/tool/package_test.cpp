// SPDX-License-Identifier: Apache-2.0
// fusec compile -o, and what runs the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kModels = std::string(FUSEC_SOURCE_DIR) + "/tests/models/";

class PackageTool : public testing::Test {
 protected:
  // A package of the model for the machine's own CPU and whatever else.
  std::string compiled(const std::string& model, const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = {"compile", model, "-o", w.path("m.fsc"), "--random-weights", "3"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = w.fusec(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return w.path("m.fsc");
  }
  // The bytes of every output of `fusec run`.
  std::string compute_outputs(const std::vector<std::string>& arguments) {
    const std::string dir = w.path("out");
    std::filesystem::remove_all(dir);
    std::vector<std::string> line = {"run", "--output-dir", dir, "--device", "cpu"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    const Outcome outcome = w.fusec(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(dir))
      all += file.path().filename().string() + read_text(file.path());
    return all;
  }
  Workplace w;
};

TEST_F(PackageTool, SameBitsAsTheModel) {
  for (const char* name : {"mobilenet_v3_small", "squeezenet1_1"}) {
    const std::string model = kModels + name + ".onnx";
    const std::string package = compiled(model, {"--target", "cpu:x86-64-v2,cpu:native"});
    EXPECT_EQ(compute_outputs({package}), compute_outputs({model, "--random-weights", "3"})) << name;
    EXPECT_EQ(compute_outputs({package, "--target", "x86-64-v2"}),
              compute_outputs({model, "--random-weights", "3", "--target", "x86-64-v2"}));
  }
}

TEST_F(PackageTool, CompileShowsWhatTakesTime) {
  const std::string model = kModels + "mobilenet_v3_small.onnx";
  const auto compile = [&](const char* how) {
    return w.fusec({"compile", model, "-o", w.path("m.fsc"), "--random-weights", "3", "--target",
                    "cpu:x86-64-v2,cpu:x86-64-v3", "--no-cache", how});
  };
  const nlohmann::json compiles = compile("--json").json()["compiles"];
  ASSERT_EQ(compiles.size(), 2U);
  for (const nlohmann::json& target : compiles) {
    EXPECT_EQ(target["kernels"].size(), target["compiled_kernels"]);
    EXPECT_GE(target["kernels"].front()["ms"], target["kernels"].back()["ms"]);
    EXPECT_GT(target["stages_ms"]["emit"], 0);
  }
  const std::string text = compile("-v").out;
  EXPECT_THAT(text, AllOf(HasSubstr("cpu:x86-64-v3:\n  optimize "), HasSubstr(" ms of one core:\n")));
}

TEST_F(PackageTool, OptionsOfTheCompileAreKept) {
  const std::string model = kModels + "mobilenet_v3_small.onnx";
  const std::string package = compiled(model, {"--precision", "bf16"});
  EXPECT_EQ(compute_outputs({package, "--precision", "bf16"}),
            compute_outputs({model, "--random-weights", "3", "--precision", "bf16"}));
  const Outcome outcome = w.fusec({"run", package, "--precision", "f16"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--precision is not what"));
  const Outcome other = w.fusec({"run", package, "--batch-invariant"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("--batch-invariant is not what"));
  EXPECT_EQ(w.fusec({"inspect", package, "--json"}).json()["package"]["precision"], "bf16");
  const std::string invariant = compiled(model, {"--batch-invariant"});
  EXPECT_EQ(w.fusec({"run", invariant, "--batch-invariant"}).code, 0);
  EXPECT_EQ(w.fusec({"inspect", invariant, "--json"}).json()["batch_invariant"], true);
}

TEST_F(PackageTool, NeitherCompilerNorImporterIsLoaded) {
  const std::string package = compiled(kModels + "mobilenet_v3_small.onnx");
  setenv("LD_DEBUG", "libs", 1);
  setenv("LD_DEBUG_OUTPUT", w.path("loaded").c_str(), 1);
  const Outcome outcome = w.fusec({"bench", package, "--runs", "1", "--json"});
  unsetenv("LD_DEBUG");
  unsetenv("LD_DEBUG_OUTPUT");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(outcome.json()["median_ms"].get<double>(), 0);
  EXPECT_EQ(outcome.json()["compiled_kernels"], 0);
  std::string loaded;  // by every process: one file each
  for (const auto& file : std::filesystem::directory_iterator(w.path(""))) {
    if (file.path().filename().string().starts_with("loaded")) loaded += read_text(file.path());
  }
  EXPECT_THAT(loaded, AllOf(HasSubstr("calling init:"), HasSubstr("libstdc++")));
  for (const char* library : {"LLVM", "protobuf", "nvrtc", "nvJitLink", "ptx-compiler", "onnx"})
    EXPECT_THAT(loaded, Not(HasSubstr(library)));
}

TEST_F(PackageTool, Inspect) {
  const std::string package = compiled(kModels + "mobilenet_v3_small.onnx");
  const Outcome outcome = w.fusec({"inspect", package, "--json", "--device", "cpu"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto j = outcome.json();
  const auto model =
      w.fusec({"inspect", kModels + "mobilenet_v3_small.onnx", "--random-weights", "3", "--json", "--device", "cpu"})
          .json();
  for (const char* key :
       {"ops", "launches", "generated", "library", "distinct_kernels", "arena_bytes", "constant_bytes", "code_bytes"}) {
    EXPECT_EQ(j[key], model[key]) << key;
  }
  EXPECT_EQ(j["runs_here"], true);
  ASSERT_EQ(j["package"]["sections"].size(), 4u);
  for (const auto& section : j["package"]["sections"]) EXPECT_EQ(section["sha256"].get<std::string>().size(), 64u);
  EXPECT_THAT(w.fusec({"inspect", package}).out, HasSubstr("every byte checked"));
}

TEST_F(PackageTool, OfAnotherMachine) {
  const std::string graph = w.file("exp.fir",
                                   "graph @main(%x: f32[N, 8]) {\n  %0 = exp %x: f32[N, 8]\n"
                                   "  return %0 as \"y\"\n}\n");
  const Outcome compile = w.fusec({"compile", graph, "-o", w.path("m.fsc"), "--target", "cuda:sm_80"});
  if (compile.code == 3) GTEST_SKIP() << compile.err;
  ASSERT_EQ(compile.code, 0) << compile.err;
  const Outcome run = w.fusec({"run", w.path("m.fsc"), "--device", "cpu"});
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no code for this CPU"), HasSubstr("sm_80")));
  EXPECT_THAT(w.fusec({"inspect", w.path("m.fsc")}).out, HasSubstr("code sm_80"));
}

TEST_F(PackageTool, Mistakes) {
  const std::string package = compiled(kModels + "mobilenet_v3_small.onnx");
  const auto expect = [&](const std::vector<std::string>& arguments, int code, const std::string& what) {
    const Outcome outcome = w.fusec(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect({"verify", package}, 2, "run, bench and inspect take those, and verify takes one beside its model");
  expect({"run", package, "--evaluator"}, 2, "no graph to evaluate");
  expect({"run", w.path("none.fsc")}, 2, "cannot be opened");
  expect({"run", w.file("text.fsc", "nothing of the kind, but longer than a header is, which has sixty-four bytes")}, 3,
         "it is no package");
  expect({"run", package, "--input", "nope=zeros"}, 2, "no such input");
  expect({"run", kModels + "squeezenet1_1.onnx", "--target", "x86-64-v2", "--target", "x86-64-v3"}, 2,
         "only compile -o");
  std::filesystem::resize_file(package, 5000);
  expect({"bench", package}, 3, "cut short");
}

}  // namespace
}  // namespace fusec::tool_test
