// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes matmul that no library of the target computes (integers on a GPU, or all where there is no
// library) into products summed along the last axis.
//
//   y[..., i, j] = sum over k of a[..., i, 1, k] * b[..., 1, j, k]
//
// Products and sums of 16-bit floats are f32, rounded once.

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {
namespace {

class Product : Expansion {
 public:
  using Expansion::Expansion;

  ValueId build() {
    const DType dtype = type(node_.output).dtype, compute = is_float(dtype) ? compute_type(dtype) : dtype;
    const ValueId a = cast(along_k(in(0), node_.attrs.i("transpose_a") == 1, 1), compute);
    const ValueId b = cast(along_k(in(1), node_.attrs.i("transpose_b") == 0, 2), compute);
    const ValueId products = node(ScalarOp::mul, {a, b});
    const ValueId sums = cast(reduce(TensorOp::reduce_sum, products, type(products).shape.size() - 1), dtype);
    return reshape(sums, type(node_.output).shape);
  }

 private:
  // The matrix with k as its last axis and with an axis of extent 1, for the other matrix, `before_last` axes before
  // the end. A vector has only the axis k.
  ValueId along_k(ValueId v, bool swapped, std::size_t before_last) {
    Shape shape = type(v).shape;
    if (shape.size() == 1) {
      shape.insert(shape.begin(), Dim(1));
      v = reshape(v, shape);
    } else if (swapped) {
      std::vector<int64_t> perm(shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      v = node(TensorOp::transpose, {v}, {{"perm", perm}});
      shape = type(v).shape;
    }
    return reshape(v, inserted(shape, shape.size() - before_last, Dim(1)));
  }
};

}  // namespace

Result<bool> expand_products(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!(node.op == TensorOp::matmul) || is_library_product(context, graph.type(node.output).dtype)) return;
    rewriter.replace(node.output, Product(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
