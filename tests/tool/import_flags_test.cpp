// SPDX-License-Identifier: Apache-2.0
// --fix, --range and --constant, which say of a model what its file leaves open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/import/hostile_make.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using importer::parse_hostile;
using nlohmann::json;
using testing::HasSubstr;

// y = x in the shape that the input `shape` holds.
std::string reshape_model(const Workplace& w) {
  const auto model = parse_hostile("(float[N, 6] x, int64[2] shape) => (float y) { y = Reshape(x, shape) }");
  return w.file("reshape.onnx", model.SerializeAsString());
}

std::string sum_model(const Workplace& w) {
  return w.file("sum.onnx",
                parse_hostile("(float[N, 6] x, float[M, 6] z) => (float y) { y = Add(x, z) }").SerializeAsString());
}

std::string scaled_model(const Workplace& w) {
  return w.file(
      "scaled.onnx",
      parse_hostile("(float[N] x, float by, uint8[2] c) => (float y, uint8[2] d) { y = Mul(x, by) d = Max(c, c) }")
          .SerializeAsString());
}

constexpr const char* kGraph = R"(graph @main(%x: f32[N, 64]) limits(N = 512) {
  %0 = exp %x: f32[N, 64]
  return %0 as "y"
}
)";

// A decoder of which one branch has stored keys, as exporters merge them.
std::string merged_model(const Workplace& w) {
  return w.file("merged.onnx", parse_hostile(R"((float[N] x, bool[1] use_cache) => (float[r] y) {
                  y = If (use_cache) <then_branch = a () => (float[s] t) { t = Exp(x) },
                                      else_branch = b () => (float[s] u) { u = Neg(x) }>
                })")
                                   .SerializeAsString());
}

// Exit code 2 and one line that holds the text.
void expect_refusal(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(text));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(ImportFlags, FixSetsASymbol) {
  const Workplace w;
  const std::string model = sum_model(w);
  EXPECT_THAT(w.fusec({"import", model}).out, HasSubstr("%x: f32[N, 6], %z: f32[N, 6]"));
  EXPECT_THAT(w.fusec({"import", model, "--fix", "N=8"}).out, HasSubstr("%x: f32[8, 6], %z: f32[8, 6]"));
  for (const char* command : {"run", "verify", "inspect", "explain", "optimize", "bench"}) {
    const Outcome outcome = w.fusec({command, model, "--fix", "M=3"}, 60);
    EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.err;
  }
  expect_refusal(w.fusec({"run", model, "--fix", "K=8"}), "--fix K=8: the model has no symbol 'K'; it has: M, N");
  expect_refusal(w.fusec({"run", model, "--fix", "N=x"}), "--fix N=x: 'x' is no extent, which is a whole number");
  expect_refusal(w.fusec({"run", model, "--fix", "N=-1"}), "--fix N=-1: '-1' is no extent");
  expect_refusal(w.fusec({"run", model, "--fix", "N"}), "--fix 'N' is not NAME=VALUE");
  expect_refusal(w.fusec({"run", model, "--fix", "N=1", "--fix", "N=1"}), "--fix N=1: 'N' is given twice");
}

TEST(ImportFlags, InputsThatDisagreeAreNamed) {
  const Workplace w;
  const std::string model = sum_model(w);
  expect_refusal(w.fusec({"run", model, "--shape", "x=4x6", "--shape", "z=5x6"}),
                 "input 'z' axis 0 is 5, but N is 4 by axis 0 of input 'x'");
  expect_refusal(w.fusec({"run", model, "--shape", "N=4", "--shape", "z=5x6"}),
                 "input 'z' axis 0 is 5, but N is 4 by --shape");
}

TEST(ImportFlags, RangeIsHeld) {
  const Workplace w;
  const std::string model = sum_model(w), package = w.path("sum.fsc");
  EXPECT_THAT(w.fusec({"import", model, "--range", "N=4:64"}).out, HasSubstr("limits(N = 4:64)"));
  EXPECT_THAT(w.fusec({"import", model, "--range", "N=:64"}).out, HasSubstr("limits(N = 64)"));
  EXPECT_THAT(w.fusec({"import", model, "--range", "N=4:"}).out, HasSubstr("limits(N = 4:)"));
  const Outcome inspect = w.fusec({"inspect", model, "--range", "N=4:64", "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_EQ(inspect.json()["symbols"], json({{"N", 4}})) << "an unset symbol takes what is next to 1";
  EXPECT_EQ(inspect.json()["smallest_symbols"], json({{"N", 4}}));
  EXPECT_EQ(inspect.json()["largest_symbols"], json({{"N", 64}}));
  ASSERT_EQ(w.fusec({"compile", model, "--range", "N=4:64", "-o", package}).code, 0);
  EXPECT_EQ(w.fusec({"run", package}).code, 0);
  EXPECT_EQ(w.fusec({"run", package, "--shape", "N=64"}).code, 0);
  expect_refusal(w.fusec({"run", package, "--shape", "N=65"}), "the symbol N must be 4 to 64, given is 65");
  expect_refusal(w.fusec({"run", model, "--range", "N=4:64", "--shape", "x=3x6"}),
                 "the symbol N must be 4 to 64, given is 3");
  expect_refusal(w.fusec({"run", model, "--range", "K=4:"}), "--range K=4:: the model has no symbol 'K'; it has: M, N");
  expect_refusal(w.fusec({"run", model, "--range", "N=4:", "--fix", "N=3"}),
                 "the range of 'N' is at least 4, but the model needs it to be 3");
  for (const std::string range : {"N=4", "N=:", "N=5:4", "N=a:b", "N=-1:4", "N=4:x"}) {
    expect_refusal(
        w.fusec({"run", model, "--range", range}),
        "--range " + range + " is no range: give the smallest value, the largest or both, as 1:64, :64 or 2:");
  }
}

TEST(ImportFlags, GraphsInTextTakeRanges) {
  const Workplace w;
  const std::string graph = w.file("graph.fir", kGraph);
  EXPECT_THAT(w.fusec({"import", graph, "--range", "N=2:1024"}).out, HasSubstr("limits(N = 2:512)"));
  expect_refusal(w.fusec({"import", graph, "--range", "N=513:"}), "the graph lets the symbol be at most 512");
  expect_refusal(w.fusec({"import", graph, "--range", "K=1:"}), "--range K: the graph has no such symbol; it has: N");
  expect_refusal(w.fusec({"import", graph, "--fix", "N=1"}),
                 "--fix is for ONNX models: write what N=1 says into the text of the graph");
  expect_refusal(w.fusec({"import", graph, "--constant", "x=1"}), "--constant is for ONNX models");
}

// Indices of 32 bits suffice for every shape in range, so there is no kernel for others.
TEST(ImportFlags, ARangeProvesTheIndexWidth) {
  const Workplace w;
  std::string text = kGraph;
  text.replace(text.find(" limits(N = 512)"), 16, "");
  const std::string graph = w.file("graph.fir", text);
  const Outcome any = w.fusec({"lower", graph, "--target", "sm_90"});
  EXPECT_THAT(any.out, AllOf(HasSubstr("when -64*N + 2130706432"), HasSubstr("// k1")));
  const Outcome few = w.fusec({"lower", graph, "--target", "sm_90", "--range", "N=1:1000000"});
  EXPECT_THAT(few.out, AllOf(HasSubstr("fits32"), Not(HasSubstr("when -64*N")), Not(HasSubstr("// k1"))));
  const Outcome many = w.fusec({"lower", graph, "--target", "sm_90", "--range", "N=1:100000000"});
  EXPECT_THAT(many.out, HasSubstr("when -64*N + 2130706432"));
}

TEST(ImportFlags, ConstantGivesContents) {
  const Workplace w;
  const std::string model = reshape_model(w);
  EXPECT_EQ(w.fusec({"run", model}).code, 3) << "a shape that depends on data";
  EXPECT_THAT(w.fusec({"import", model, "--constant", "shape=3,-1"}).out,
              HasSubstr("%0 = reshape %x {shape = [3, 2*N]}"));
  EXPECT_EQ(w.fusec({"verify", model, "--constant", "shape=3,-1", "--shape", "N=4"}).code, 0);
  EXPECT_EQ(
      w.fusec({"run", w.path("reshape.onnx"), "--fix", "N=4", "--constant", "shape=8,3", "--output-dir", w.path("out")})
          .code,
      0);
  const std::string scaled = scaled_model(w);
  EXPECT_THAT(w.fusec({"import", scaled, "--constant", "by=0.5", "--constant", "c=1,255"}).out,
              AllOf(HasSubstr("constant f32[] {0.5}"), HasSubstr("constant u8[2] {1, 255}")));
  ASSERT_EQ(w.fusec({"run", scaled, "--shape", "N=5", "--output-dir", w.path("out")}).code, 0);
  const Outcome from_file = w.fusec({"import", scaled, "--constant", "x=@" + w.path("out/y.npy")});
  EXPECT_THAT(from_file.out, HasSubstr("constant f32[5]")) << from_file.err;
}

TEST(ImportFlags, AConstantChoosesABranch) {
  const Workplace w;
  const std::string model = merged_model(w);
  EXPECT_EQ(w.fusec({"import", model}).code, 3) << "a condition that depends on data";
  EXPECT_THAT(w.fusec({"import", model, "--constant", "use_cache=true"}).out, HasSubstr("exp %x"));
  EXPECT_THAT(w.fusec({"import", model, "--constant", "use_cache=false"}).out, HasSubstr("neg %x"));
  EXPECT_THAT(w.fusec({"import", model, "--constant", "use_cache=0"}).out, HasSubstr("neg %x"));
}

TEST(ImportFlags, AConstantThatDoesNotFitIsRefused) {
  const Workplace w;
  const std::string model = scaled_model(w);
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"k=1", "--constant k: the model has no such input; it has: x, by, c"},
      {"c=1,256", "--constant c=1,256: a u8 input takes @file.npy, or numbers of it separated by commas"},
      {"c=1,-1", "a u8 input takes @file.npy"},
      {"c=1,x", "a u8 input takes @file.npy"},
      {"c=", "a u8 input takes @file.npy"},
      {"c=1,2,3", "--constant c=1,2,3: the contents given are u8[3], declared is u8[2]"},
      {"by=1,2", "--constant by=1,2: the input has 0 axes; give its contents as @file.npy"},
      {"x=@" + w.path("absent.npy"), "absent.npy"},
  };
  for (const auto& [constant, message] : rows) expect_refusal(w.fusec({"run", model, "--constant", constant}), message);
  expect_refusal(w.fusec({"run", sum_model(w), "--constant", "x=1"}),
                 "--constant x=1: the input has 2 axes; give its contents as @file.npy");
}

}  // namespace
}  // namespace fusec::tool_test
