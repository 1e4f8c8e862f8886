// SPDX-License-Identifier: Apache-2.0
// Optimize pass: writes an attention out where neither a library of the target nor a kernel computes it.
//
//   attention(q, k, v, mask) {scale}  ->  softmax(q k^T * scale + mask) v
//   attention(q, k, v) {scale, causal = 1}  ->  softmax(where(key <= query + keys - queries, q k^T * scale, -inf)) v

#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/partition/attention.h"
#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

class WrittenOut : Expansion {
 public:
  using Expansion::Expansion;

  ValueId build() {
    const DType dtype = type(node_.output).dtype;
    ValueId scores = product(in(0), repeated(in(1)), true);
    const double scale = node_.attrs.f("scale");
    if (scale != 1) scores = node(ScalarOp::mul, {scores, number(dtype, scale)});
    if (node_.inputs.size() > 3) {
      const DType wide = type(in(3)).dtype;
      scores = cast(node(ScalarOp::add, {cast(scores, wide), in(3)}), dtype);
    }
    if (node_.attrs.i("causal") == 1) {
      const Dim queries = type(scores).shape[2], keys = type(scores).shape[3];
      const DType counter_type = counter(keys);
      ValueId query = count(2, 0, queries, counter_type);
      const ValueId key = count(2, 1, keys, counter_type);
      if (!(queries == keys)) query = node(ScalarOp::add, {query, bound(query, keys - queries)});
      const ValueId low = number(dtype, -std::numeric_limits<double>::infinity());
      scores = node(ScalarOp::where, {node(ScalarOp::le, {key, query}), scores, low});
    }
    const ValueId e = node(ScalarOp::exp, {node(ScalarOp::sub, {scores, along_keys(TensorOp::reduce_max, scores)})});
    const ValueId weights = node(ScalarOp::div, {e, along_keys(TensorOp::reduce_sum, e)});
    return product(weights, repeated(in(2)), false);
  }

 private:
  ValueId product(ValueId a, ValueId b, bool transposed) {
    return node(TensorOp::matmul, {a, b}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  }

  // Reduced, with the axis kept.
  ValueId along_keys(TensorOp op, ValueId v) { return aligned(reduce(op, v, 3), 4); }

  // One head of keys or values for each of the queries.
  ValueId repeated(ValueId v) {
    const Shape shape = type(v).shape;
    const Dim heads = type(in(0)).shape[1];
    if (shape[1] == heads) return v;
    const Dim times(heads.value() / shape[1].value());
    v = reshape(v, inserted(shape, 2, Dim(1)));
    v = node(TensorOp::broadcast, {v}, {{"shape", inserted(shape, 2, times)}});
    return reshape(v, with(shape, 1, heads));
  }
};

}  // namespace

Result<bool> expand_attention(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!(node.op == TensorOp::attention)) return;
    if (is_computed_attention(context.target, context.options, attention_shape(graph, node))) return;
    rewriter.replace(node.output, WrittenOut(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
