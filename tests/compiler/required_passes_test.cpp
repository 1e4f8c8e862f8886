// SPDX-License-Identifier: Apache-2.0
// Composites never reach partition, whatever the options leave out.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "ir/text/graph_text.h"

namespace fusec::compiler {
namespace {

bool has_composite(const ir::Graph& graph) {
  return std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) {
    const ir::Op op = graph.nodes[id].op;
    return !op.is_scalar() && info(op.tensor()).kind == ir::OpPattern::composite;
  });
}

bool left_after(const Options& options) {
  Result<ir::Graph> graph = ir::parse_graph(
      "graph @main(%x: f32[8], %i: i64[3], %u: f32[3]) {"
      " %0 = scatter_elements %x, %i, %u {axis = 0, reduction = \"add\"}: f32[8]"
      " %1 = topk %0 {axis = 0, k = [2], largest = 1}: i64[2]"
      " return %1 as \"y\" }");
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  EXPECT_TRUE(has_composite(*graph));
  const Status status = optimize(*graph, {}, options);
  EXPECT_TRUE(status.ok()) << status.str();
  return has_composite(*graph);
}

TEST(RequiredPasses, RunWhenDisabled) {
  Options options;
  for (const Pass& pass : pipeline()) options.disabled_passes.emplace_back(pass.name);
  EXPECT_FALSE(left_after(options));
}

TEST(RequiredPasses, RunBeyondTheLastPass) {
  Options options;
  options.stop_after_passes = 0;
  EXPECT_FALSE(left_after(options));
}

// Lines of 4,000 are compared within runs of 32 at most, not all pairs.
TEST(ExpandTopk, ComparesLongLinesWithinRuns) {
  for (const char* k : {"4000", "100"}) {
    Result<ir::Graph> graph =
        ir::parse_graph(std::string("graph @main(%x: f32[4000]) { %0 = topk %x {axis = 0, k = [") + k +
                        "], largest = 1}: i64[" + k + "] return %0 as \"y\" }");
    ASSERT_TRUE(graph.ok()) << graph.status().str();
    const Status status = optimize(*graph, {}, {});
    ASSERT_TRUE(status.ok()) << status.str();
    int64_t most = 0;
    for (const ir::NodeId id : graph->order)
      most = std::max(most, num_elements(graph->type(graph->nodes[id].output).shape).value());
    EXPECT_LE(most, 4096 * 32);
  }
}

}  // namespace
}  // namespace fusec::compiler
