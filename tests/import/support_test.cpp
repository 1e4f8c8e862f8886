// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model fusec takes, and why not the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/import/onnx/import.h"
#include "fusec/onnx.h"
#include "onnx/defs/parser.h"

namespace fusec::importer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string parse(const std::string& text) {
  proto::ModelProto model;
  proto::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model.SerializeAsString();
}

Result<std::vector<NodeSupport>> check(const std::string& text) {
  const std::string bytes = parse(text);
  return check_onnx_bytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// "op" of each supported node, "op: reason" of the others.
std::vector<std::string> answers(const std::string& text) {
  const Result<std::vector<NodeSupport>> nodes = check(text);
  if (!nodes.ok()) return {nodes.status().str()};
  std::vector<std::string> out;
  for (const NodeSupport& node : *nodes) {
    EXPECT_EQ(node.supported, node.reason.empty());
    out.push_back(node.op + (node.supported ? "" : ": " + node.reason));
  }
  return out;
}

const std::string kHead = R"(<ir_version: 10, opset_import: ["" : 21, "acme" : 1]> )";

TEST(Support, OfAModelThatIsTaken) {
  EXPECT_THAT(answers(kHead + "m (float[N, 4] x) => (float[N, 4] y) { t = Relu(x) y = Add(t, x) }"),
              ElementsAre("Relu", "Add"));
}

TEST(Support, OfNodesBehindOneThatIsNot) {
  const std::string nodes = "{ t = Relu(x) u = acme.Foo(t) v = Exp(u) w = Tanh(t) y = Add(v, w) }";
  EXPECT_THAT(answers(kHead + "m (float[N, 4] x) => (float[N, 4] y) <float[N, 4] u> " + nodes),
              ElementsAre("Relu", HasSubstr("Foo: "), "Exp", "Tanh", "Add"));
  const std::string unknown =
      ": it reads what a node that is not supported makes, whose type the model does not declare";
  EXPECT_THAT(answers(kHead + "m (float[N, 4] x) => (float[N, 4] y) " + nodes),
              ElementsAre("Relu", HasSubstr("Foo: "), "Exp" + unknown, "Tanh", "Add" + unknown));
}

TEST(Support, NamesTheNodeAndTheReason) {
  const auto nodes = check(kHead + "m (double[2, 3] x) => (double[2] y) { t = Relu(x) y = NonZero(t) }");
  ASSERT_TRUE(nodes.ok()) << nodes.status().str();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ((*nodes)[1].node, "y");
  EXPECT_EQ((*nodes)[1].domain, "ai.onnx");
  EXPECT_EQ((*nodes)[1].reason, "no rule for it");
}

TEST(Support, NodesOfABranchCountForTheirIf) {
  const std::string branches =
      "y = If <then_branch = a () => (float[2] s) { s = acme.Foo(x) }, else_branch = b () => (float[2] s) { s = Exp(x) "
      "}> ";
  EXPECT_THAT(
      answers(kHead + "m (float[2] x) => (float[2] y) { c = Constant <value = bool {1}> () " + branches + "(c) }"),
      ElementsAre("Constant", HasSubstr("If: ")));
  EXPECT_THAT(
      answers(kHead + "m (float[2] x) => (float[2] y) { c = Constant <value = bool {0}> () " + branches + "(c) }"),
      ElementsAre("Constant", "If"));
}

TEST(Support, WhatIsNoModelIsAnError) {
  EXPECT_THAT(check_onnx_bytes({}).status().str(), HasSubstr("invalid_model"));
  EXPECT_THAT(answers(kHead + "m (float[2] x) => (float[2] y) { y = Add(x, z) }"),
              ElementsAre(HasSubstr("it reads 'z', which no earlier node produces")));
  EXPECT_THAT(check_onnx("/nowhere.onnx").status().str(), HasSubstr("/nowhere.onnx"));
}

// Extents that an op needs to be equal are assumed to be, as for an import.
TEST(Support, SymbolsThatMustAgree) {
  EXPECT_THAT(answers(kHead + "m (float[N] x, float[M] z) => (float[N] y) { y = Add(x, z) }"), ElementsAre("Add"));
}

}  // namespace
}  // namespace fusec::importer
