// SPDX-License-Identifier: Apache-2.0
// ONNX's own cases (Debian: libonnx-testdata) by the evaluator and by compiled code, and the runner's way with cases
// that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kSuite = "/usr/share/libonnx-testdata/data/";

// Debian's cases of a group that must not fall back to unsupported, by the count seen when a rule was last added. The
// relative tolerance is a hundredth of ONNX's, the absolute one ONNX's own: expected values come from numpy in f32,
// whose sums near zero are not right to a hundredth of it. The window functions' were made with pi = 3.1415.
void run_group(const std::string& group, const std::string& engine, int least_passed) {
  if (!fs::exists(kSuite + group)) GTEST_SKIP() << "no cases of " << group;
  const Workplace w;
  const Outcome run = w.fusec({"conformance", kSuite + group, "--engine", engine, "--device", "cpu", "--rtol", "1e-5",
                               "--atol", "1e-7", "--json"});
  ASSERT_LE(run.code, 1) << run.err;
  const auto json = run.json();
  for (const auto& c : json["cases"]) {
    if (c["status"] != "wrong" || c["name"].get<std::string>().find("window") != std::string::npos) continue;
    ADD_FAILURE() << c["name"] << ": " << c["reason"];
  }
  EXPECT_GE(json["passed"], least_passed);
}

TEST(Conformance, NodeByTheEvaluator) { run_group("node", "evaluator", 804); }
TEST(Conformance, ConvertedByTheEvaluator) { run_group("pytorch-converted", "evaluator", 82); }
TEST(Conformance, OperatorsByTheEvaluator) { run_group("pytorch-operator", "evaluator", 35); }
TEST(Conformance, SimpleByTheEvaluator) { run_group("simple", "evaluator", 7); }
TEST(Conformance, NodeCompiled) { run_group("node", "compiled", 804); }
TEST(Conformance, ConvertedCompiled) { run_group("pytorch-converted", "compiled", 82); }
TEST(Conformance, OperatorsCompiled) { run_group("pytorch-operator", "compiled", 35); }
TEST(Conformance, SimpleCompiled) { run_group("simple", "compiled", 7); }

TEST(Conformance, AResultThatDiffersIsWrong) {
  if (!fs::exists(kSuite)) GTEST_SKIP() << "no cases";
  const Workplace w;
  const fs::path to = w.path("case"), from = kSuite + "node/test_relu";
  fs::copy(from, to, fs::copy_options::recursive);
  fs::copy_file(from / "test_data_set_0/input_0.pb", to / "test_data_set_0/output_0.pb",
                fs::copy_options::overwrite_existing);
  const Outcome run = w.fusec({"conformance", to.string(), "--engine", "evaluator", "--json"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.json()["wrong"], 1);
  EXPECT_THAT(run.json()["cases"][0]["reason"].get<std::string>(), HasSubstr("expected"));
}

TEST(Conformance, ACaseWithoutDataIsWrong) {
  if (!fs::exists(kSuite)) GTEST_SKIP() << "no cases";
  const Workplace w;
  fs::create_directories(w.path("case"));
  fs::copy_file(kSuite + "node/test_relu/model.onnx", w.path("case/model.onnx"));
  EXPECT_EQ(w.fusec({"conformance", w.path("case"), "--engine", "evaluator"}).code, 1);
}

TEST(Conformance, ACaseWithoutEndIsWrong) {
  if (!fs::exists(kSuite)) GTEST_SKIP() << "no cases";
  const Workplace w;
  const Outcome run = w.fusec({"conformance", kSuite + "node", "--only", "test_relu", "--engine", "evaluator",
                               "--time-limit", "1e-9", "--json"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.json()["cases"][0]["reason"].get<std::string>(), HasSubstr("longer than"));
}

TEST(Conformance, ATreeWithoutCasesIsAnError) {
  const Workplace w;
  const Outcome run = w.fusec({"conformance", w.path("")});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("model.onnx"));
}

}  // namespace
}  // namespace fusec::tool_test
