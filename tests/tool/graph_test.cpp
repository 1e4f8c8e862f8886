// SPDX-License-Identifier: Apache-2.0
// `fusec graph --onnx` through the command. tests/python/test_graph_onnx.py reads the files with ONNX's own package.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDrawn =
    "graph @main(%x: f32[N, 512]) {\n"
    "  %0 = constant f32[512, 512] {random 7}\n"
    "  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[N, 512]  // /head/MatMul\n"
    "  %2 = exp %1: f32[N, 512]  // /head/Exp\n"
    "  %3 = reduce_sum %2 {axes = [1]}: f32[N]  // /head/Sum\n"
    "  return %3 as \"y\"\n"
    "}\n";

TEST(GraphOnnx, HasRegionsAndNoWeights) {
  const Workplace w;
  const std::string model = w.file("model.fir", kDrawn), out = w.path("out.onnx");
  const Outcome outcome = w.fusec({"graph", model, "--onnx", out, "--device", "cpu", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["regions"], 2);
  const std::string bytes = read_text(out);
  EXPECT_LT(bytes.size(), 4096u);  // of weights there is a megabyte
  EXPECT_THAT(bytes, AllOf(HasSubstr("/head/MatMul"), HasSubstr("predicted_us"), HasSubstr("row_exp_sum_f32_"),
                           Not(HasSubstr("measured_us"))));
}

TEST(GraphOnnx, TakesOrMeasuresTimes) {
  const Workplace w;
  const std::string model = w.file("model.fir", kDrawn), out = w.path("out.onnx");
  const Outcome bench = w.fusec({"bench", model, "--device", "cpu", "--runs", "1", "--steps", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  const std::string times = w.file("times.json", bench.out);
  const Outcome outcome = w.fusec({"graph", model, "--onnx", out, "--device", "cpu", "--times", times});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto timed = AllOf(HasSubstr("measured_us"), HasSubstr("score"), HasSubstr("implementation"));
  EXPECT_THAT(read_text(out), timed);
  const std::string own = w.path("own.onnx");
  EXPECT_EQ(w.fusec({"graph", model, "--onnx", own, "--device", "cpu", "--steps"}).code, 0);
  EXPECT_THAT(read_text(own), timed);
}

TEST(GraphOnnx, Refusals) {
  const Workplace w;
  const std::string model = w.file("model.fir", kDrawn), out = w.path("out.onnx");
  const auto expect_refused = [&](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> line = {"graph", model};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = w.fusec(line);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  expect_refused({"--onnx", out, "-o", "y.dot"}, "-o and --onnx name one file each");
  expect_refused({"--shape", "N=2"}, "--shape is for --onnx FILE");
  expect_refused({"--steps"}, "--steps is for --onnx FILE");
  expect_refused({"--onnx", out, "--steps", "--times", model}, "--steps measures the times that --times reads");
  expect_refused({"--times", model}, "--times is for --onnx FILE");
  expect_refused({"--onnx", out, "--times", w.path("absent")}, "absent' cannot be opened");
  expect_refused({"--onnx", out, "--times", model}, "is not what fusec bench MODEL --steps --json prints");
  expect_refused({"--onnx", out, "--times", w.file("other.json", R"({"steps": [{"us": 1}]})")},
                 "is not what fusec bench");
  expect_refused({"--onnx", w.path("absent/out.onnx")}, "absent/out.onnx' cannot be written");
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace fusec::tool_test
