// SPDX-License-Identifier: Apache-2.0
// Optimize pass: puts convolutions and pools into layout "last" between transposes, which sink_transposes moves and
// cancels afterwards. It does nothing in exact numerics.

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// N C spatial... -> N spatial... C, and back.
std::vector<int64_t> to_last(int rank) {
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

std::vector<int64_t> to_first(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}

bool is_spatial(const Node& node) {
  return node.op == TensorOp::conv || node.op == TensorOp::max_pool || node.op == TensorOp::avg_pool;
}

}  // namespace

// op(x) -> transpose(op'(transpose(x))) with op' in layout "last". The channels-last kernels of a library are rarely
// slower than its plain ones, and up to 40 times faster for depthwise filters (docs/performance.md). cuDNN's for f32
// windows larger than 1 are slower, because they convert images, but the models around them are faster channels last in
// most cases (docs/advise.md tells which are not). sink_transposes removes the transposes that meet their inverse.
// Those left at the ends of a chain cost the time to move their elements.
Result<bool> channels_last(Graph& graph, const PassContext& context) {
  if (context.options.numerics == Numerics::exact) return false;
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!is_spatial(node) || node.attrs.s("layout") != "first") return;
    const int rank = graph.type(node.output).rank();
    if (rank < 3) return;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = add_node(graph, TensorOp::transpose, {inputs[0]}, {{"perm", to_last(rank)}}, node.origin);
    ir::Attrs attrs = node.attrs;
    attrs.set("layout", std::string("last"));
    const ValueId result = add_node(graph, node.op, inputs, attrs, node.origin);
    rewriter.replace(node.output,
                     add_node(graph, TensorOp::transpose, {result}, {{"perm", to_first(rank)}}, node.origin));
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
