// SPDX-License-Identifier: Apache-2.0
// Nodes of a domain of the host as custom calls, and the names of initializers, by which weights are replaced.
#include "fusec/custom_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/onnx/import.h"
#include "fusec/onnx.h"
#include "ir/eval/graph.h"
#include "ir/text/graph_text.h"

namespace fusec::importer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHead = R"(<ir_version: 10, opset_import: ["" : 21, "acme" : 1]> )";

Result<ir::Graph> import(const std::string& text) {
  ImportOptions options;
  options.call_domains = {"acme"};
  return import_onnx_text(kHead + text, options);
}

TEST(CustomCall, OfADomainOfTheHost) {
  const Result<ir::Graph> graph = import(
      "m (float[N, 4] x) => (float[N, 2] y) { t = Relu(x) "
      "y = acme.Halve <axis = 1, mode = \"mean\", scale = 0.5, taps = [1, 2]> (t) }");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  EXPECT_THAT(ir::print(*graph), HasSubstr("custom_call"));
  EXPECT_THAT(ir::print(*graph), HasSubstr("acme.Halve"));
  std::string seen;
  ASSERT_TRUE(register_call("acme.Halve", "cpu",
                            [&](std::span<const CallTensor> inputs, const CallTensor& output,
                                const std::string& attributes, void*) {
                              seen = attributes;
                              const auto* const in = static_cast<const float*>(inputs[0].data);
                              auto* const out = static_cast<float*>(output.data);
                              for (int64_t i = 0; i < 2 * output.shape[0]; ++i) out[i] = in[2 * i] + in[2 * i + 1];
                              return Status();
                            })
                  .ok());
  Tensor x = *Tensor::make(DType::f32, {1, 4});
  for (int i = 0; i < 4; ++i) x.as<float>()[i] = static_cast<float>(i + 1);
  const Result<std::vector<Tensor>> y = ir::evaluate(*graph, {x});
  ASSERT_TRUE(register_call("acme.Halve", "cpu", nullptr).ok());
  ASSERT_TRUE(y.ok()) << y.status().str();
  EXPECT_EQ((*y)[0].as<float>()[0], 3);
  EXPECT_EQ((*y)[0].as<float>()[1], 7);
  EXPECT_EQ(seen, "axis=1 mode=mean scale=0.5 taps=[1, 2]");
}

std::string why(const std::string& text) {
  const Result<ir::Graph> graph = import(text);
  return graph.ok() ? "it is imported" : graph.status().str();
}

TEST(CustomCall, NeedsTheTypeOfItsResult) {
  EXPECT_THAT(why("m (float[N] x) => (float[N] y) { t = acme.F(x) y = Relu(t) }"), HasSubstr("the type of 't'"));
  EXPECT_THAT(why("m (float[N] x) => (float[N] y) <float[M] t> { t = acme.F(x) y = Relu(t) }"),
              HasSubstr("the extent 'M'"));
  EXPECT_THAT(why("m (float[N] x) => (float[N] y, float[N] z) { y, z = acme.F(x) }"), HasSubstr("several outputs"));
  EXPECT_THAT(why("m (float[N] x) => (float[N] y) { y = acme.F(x, , x) }"), HasSubstr("without one of its inputs"));
}

TEST(CustomCall, IsUnsupportedWhereNobodyAskedForTheDomain) {
  const Result<ir::Graph> graph =
      import_onnx_text(kHead + "m (float[N] x) => (float[N] y) { y = acme.F(x) }", ImportOptions());
  EXPECT_EQ(graph.status().code(), StatusCode::unsupported);
}

std::vector<std::string> names(const std::string& text) {
  const Result<ir::Graph> graph = import(text);
  if (!graph.ok()) return {graph.status().str()};
  std::vector<std::string> out;
  for (const auto& [id, name] : graph->weight_names) {
    EXPECT_TRUE(graph->constants.contains(id));
    out.push_back(name);
  }
  return out;
}

TEST(WeightNames, AreThoseOfInitializers) {
  EXPECT_THAT(names("m (float[N, 2] x) => (float[N, 2] y) <float[2] b = {1, 2}, float[2] c = {3, 4}> "
                    "{ t = Mul(x, b) y = Add(t, c) }"),
              ElementsAre("b", "c"));
}

// What is computed at import is no longer the weight.
TEST(WeightNames, AreNotThoseOfWeightsThatTheImportUsed) {
  EXPECT_THAT(names("m (float[N, 2] x) => (float[N, 2] y) <float[2] b = {1, 2}, float[2] c = {3, 4}> "
                    "{ s = Add(b, b) t = Mul(x, s) u = Mul(t, c) y = Add(u, b) }"),
              ElementsAre("c"));
}

}  // namespace
}  // namespace fusec::importer
