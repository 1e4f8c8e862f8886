// SPDX-License-Identifier: Apache-2.0
// What becomes of the extents that a model declares: expressions, fixed symbols, ranges, and inputs whose contents are
// known.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "compiler/import/onnx/dim_param.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/proto.h"
#include "ir/text/graph_text.h"
#include "tests/import/hostile_make.h"

namespace fusec::importer {
namespace {

std::string parsed(const std::string& text) {
  const auto dim = parse_dim_param(text);
  return dim ? dim->str() : "none";
}

TEST(DimParam, ReadsWhatExportersWrite) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"past_sequence_length + sequence_length", "past_sequence_length + sequence_length"},
      {"past_seq+seq", "past_seq + seq"},
      {"2*N", "2*N"},
      {"batch_size*num_heads", "batch_size*num_heads"},
      {"floor(N/2)+1", "floordiv(N, 2) + 1"},
      {"floor(height/2 - 1/2) + 1", "floordiv(height + 1, 2)"},
      {"ceiling(N/4)", "floordiv(N + 3, 4)"},
      {"(s0 - 1)//4 + 1", "floordiv(s0 + 3, 4)"},
      {"2*((s0 + 1)//2)", "2*floordiv(s0 + 1, 2)"},
      {"Max(1, s0 - 2)", "max(1, s0 - 2)"},
      {"s0 % 4", "mod(s0, 4)"},
      {"Mod(s0, 4)", "mod(s0, 4)"},
      {"4*N/2", "2*N"},
      {"N*M/M", "N"},
      {"-(1 - N)", "N - 1"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(parsed(text), expected) << text;
}

TEST(DimParam, LeavesNamesAlone) {
  for (const std::string text : {"N",
                                 "past_seq",
                                 "unk__12",
                                 "a.b",
                                 "sequence length",
                                 "N/2",
                                 "N/0",
                                 "N//0",
                                 "N % 0",
                                 "2 + 3",
                                 "8",
                                 "N +",
                                 "(N",
                                 "N)",
                                 "log(N)",
                                 "floor(N, 2)",
                                 "N**2",
                                 "N + 9223372036854775808",
                                 "4611686018427387904*4*N",
                                 "",
                                 "<dyn>",
                                 "9223372036854775807 + N + 1",
                                 "N / -2",
                                 "é"}) {
    EXPECT_EQ(parsed(text), "none") << text;
  }
}

TEST(DimParam, IsBounded) {
  std::string sum = "(a", nested = "N", text;
  for (char c = 'b'; c <= 'z'; ++c) sum += std::string("+") + c;
  sum += ")";
  EXPECT_NE(parsed(sum), "none");
  EXPECT_EQ(parsed(sum + "*" + sum), "none");
  for (int i = 0; i < 100; ++i) nested = "(" + nested + ")";
  EXPECT_EQ(parsed(nested), "none");
  for (int i = 0; i < 100; ++i) text += "N + ";
  EXPECT_EQ(parsed(text + "N"), "none");
}

// The graph in text with the dim_params that `params` puts in place of those of the text.
Result<ir::Graph> import_with(const std::string& text, const std::map<std::string, std::string>& params,
                              const ImportOptions& options = {}) {
  proto::ModelProto model = parse_hostile(text);
  for (proto::ValueInfoProto& input : *model.mutable_graph()->mutable_input()) {
    for (auto& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (const auto param = params.find(dim.dim_param()); param != params.end()) dim.set_dim_param(param->second);
  }
  return import_onnx(model, options);
}

// The first line of the graph's text, or the error.
std::string head(const Result<ir::Graph>& graph) {
  if (!graph.ok()) return graph.status().message();
  const std::string text = ir::print(*graph);
  return text.substr(0, text.find(" {\n"));
}

const std::string kTwo = "(float[A] x, float[C] z) => (float y) { y = Relu(z) t = Relu(x) }";

TEST(Symbols, AnExpressionOfOtherAxesIsOne) {
  EXPECT_EQ(head(import_with(kTwo, {{"C", "2*A + 1"}})), "graph @main(%x: f32[A], %z: f32[2*A + 1])");
  EXPECT_EQ(head(import_with(kTwo, {{"A", "2*C"}})), "graph @main(%x: f32[2*C], %z: f32[C])");
}

TEST(Symbols, AnExpressionOfOtherNamesIsAName) {
  EXPECT_EQ(head(import_with(kTwo, {{"C", "batch-size"}})), "graph @main(%x: f32[A], %z: f32[batch_size])");
  EXPECT_EQ(head(import_with(kTwo, {{"C", "2*A + B"}})), "graph @main(%x: f32[A], %z: f32[_2_A___B])");
  EXPECT_EQ(head(import_with(kTwo, {{"A", "2*A"}, {"C", "2*A"}})), "graph @main(%x: f32[_2_A], %z: f32[_2_A])");
}

const std::string kStored =
    "(float[B, S] x, float[B, P] past, float[B, T] mask) => (float y) { all = Concat <axis = 1> (past, x) y = Mul(all, "
    "mask) }";

TEST(Symbols, StoredAndNewAgree) {
  const std::string sum = "graph @main(%x: f32[B, S], %past: f32[B, P], %mask: f32[B, P + S])";
  EXPECT_EQ(head(import_with(kStored, {})), sum);
  EXPECT_EQ(head(import_with(kStored, {{"T", "P + S"}})), sum);
  EXPECT_EQ(head(import_with(kStored, {{"T", "S+P"}})), sum);
}

// A decoder that was exported for one new token, and takes several.
TEST(Symbols, AnExpressionThatAnOpContradictsIsAName) {
  EXPECT_EQ(head(import_with(kStored, {{"T", "P + 1"}})),
            "graph @main(%x: f32[B, S], %past: f32[B, P], %mask: f32[B, P + S])");
}

TEST(Symbols, ExpressionsThatMustBeEqualFixTheirSymbols) {
  const std::string text = "(float[N] n, float[M] m, float[A] x, float[C] z) => (float y) { y = Add(x, z) }";
  EXPECT_EQ(head(import_with(text, {{"A", "2*N"}, {"C", "2*M"}})),
            "graph @main(%n: f32[N], %m: f32[N], %x: f32[2*N], %z: f32[2*N])");
}

TEST(Symbols, AReshapeOrAConvolutionFixesThem) {
  const std::vector<std::array<std::string, 3>> rows = {
      {"float[N, 3] x", ints("2, 6", "y = Reshape(x, c)"), "%x: f32[4, 3]"},
      {"float[B, S, 4] x, float[B, T] z", "c = Shape(z) y = Reshape(x, c)", "%x: f32[B, S, 4], %z: f32[B, 4*S]"},
      {"float[1, C, 8, 8] x, float[4, 4, 3, 3] w", "y = Conv(x, w)", "%x: f32[1, 4, 8, 8], %w: f32[4, 4, 3, 3]"},
      {"float[1, C, 8, 8] x, float[4, 2, 3, 3] w, float[K] b", "y = Conv <group = 2> (x, w, b)",
       "%x: f32[1, 4, 8, 8], %w: f32[4, 2, 3, 3], %b: f32[4]"},
  };
  for (const auto& [inputs, nodes, expected] : rows)
    EXPECT_EQ(head(import_with("(" + inputs + ") => (float y) { " + nodes + " }", {})),
              "graph @main(" + expected + ")");
}

TEST(Symbols, FixedOnesAreNumbersInExpressions) {
  ImportOptions options;
  options.symbols = {{"A", 4}};
  EXPECT_EQ(head(import_with(kTwo, {{"C", "2*A + 1"}}, options)), "graph @main(%x: f32[4], %z: f32[9])");
  EXPECT_EQ(head(import_with(kTwo, {{"A", "N"}, {"C", "2*A + N"}}, options)),
            "graph @main(%x: f32[N], %z: f32[N + 8])");
  options.symbols = {{"2*A", 6}};
  EXPECT_EQ(head(import_with(kTwo, {{"C", "2*A"}}, options)), "graph @main(%x: f32[A], %z: f32[6])");
  options.symbols = {{"N", 4}};
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the model has no symbol 'N'; it has: A, C");
}

TEST(Symbols, RangesAreLimitsOfTheGraph) {
  ImportOptions options;
  options.ranges = {{"A", {2, 64}}, {"C", {0, 8}}};
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "graph @main(%x: f32[A], %z: f32[C]) limits(A = 2:64, C = 8)");
  options.ranges = {{"N", {2, 64}}};
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the model has no symbol 'N'; it has: A, C");
  options.ranges = {{"A", {2, 64}}};
  options.symbols = {{"A", 65}};
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the range of 'A' is 2 to 64, but the model needs it to be 65");
}

// A range of what a symbol turns out to be equal to.
TEST(Symbols, RangesFollowAssumptions) {
  ImportOptions options;
  options.ranges = {{"T", {1, 128}}};
  EXPECT_EQ(head(import_with(kStored, {}, options)),
            "graph @main(%x: f32[B, S], %past: f32[B, P], %mask: f32[B, P + S]) limits(P + S = 1:128)");
  const std::string table =
      "(float[S] x) => (float y) <float[4] table = {1, 2, 3, 4}> { c = Constant <value_ints = [0]> () n = Shape(x) "
      "t = Slice(table, c, n) y = Add(x, t) }";
  options.ranges = {{"S", {2, 9}}};
  EXPECT_EQ(head(import_with(table, {}, options)), "graph @main(%x: f32[S]) limits(S = 2:4)");
  options.ranges = {{"S", {5, 9}}};
  EXPECT_EQ(head(import_with(table, {}, options)), "the range of 'S' is 5 to 9, but the model needs it to be 4");
}

TEST(Symbols, RangesDecideComparisons) {
  const std::string text =
      "(float[N] x) => (float y) { n = Shape(x) one = Constant <value_ints = [1]> () is = Equal(n, one) two = Constant "
      "<value_ints = [2]> () s = Where(is, two, n) y = Expand(x, s) }";
  EXPECT_FALSE(import_with(text, {}).ok());
  ImportOptions options;
  options.ranges = {{"N", {2, INT64_MAX}}};
  EXPECT_EQ(head(import_with(text, {}, options)), "graph @main(%x: f32[N]) limits(N = 2:)");
}

TEST(Symbols, ContentsOfInputsFixSymbols) {
  ImportOptions options;
  options.constants.emplace("x", *Tensor::make(DType::f32, {5}));
  EXPECT_EQ(head(import_with(kTwo, {{"C", "A"}}, options)), "graph @main(%z: f32[5])");
  EXPECT_EQ(head(import_with(kTwo, {{"C", "2*A"}}, options)), "graph @main(%z: f32[10])");
  options.symbols = {{"A", 4}};
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the contents given are f32[5], declared is f32[4]");
  options.symbols.clear();
  options.constants.at("x") = *Tensor::make(DType::f32, {5, 1});
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the contents given are f32[5, 1], declared is f32[A]");
  options.constants.at("x") = *Tensor::make(DType::i32, {5});
  EXPECT_EQ(head(import_with(kTwo, {}, options)), "the contents given are i32[5], declared is f32[5]");
}

}  // namespace
}  // namespace fusec::importer
