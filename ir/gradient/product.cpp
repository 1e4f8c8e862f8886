// SPDX-License-Identifier: Apache-2.0
// The gradients of matmul, which are matmuls, and of attention, which is decomposed first.

#include <utility>

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {
namespace {

// The operands and the result of numpy's matmul as matrices: a vector on the left is a row, on the right a column.
struct Matrices {
  ValueId a, b, dy;
  bool transpose_a, transpose_b;
};

Matrices matrices(Call& c) {
  Matrices m{c.in(0), c.in(1), c.dy, c.attrs().i("transpose_a") == 1, c.attrs().i("transpose_b") == 1};
  const Shape a = c.shape(m.a), b = c.shape(m.b);
  Shape result = c.shape(m.dy);
  if (b.size() == 1) {
    m.b = c.reshape(m.b, {b[0], 1});
    m.transpose_b = false;
    result.push_back(1);
  }
  if (a.size() == 1) {
    m.a = c.reshape(m.a, {1, a[0]});
    m.transpose_a = false;
    result.insert(result.end() - 1, 1);
  }
  m.dy = c.reshape(m.dy, std::move(result));
  return m;
}

// [batch..., m, n] -> [batch * m, n]
ValueId as_one_matrix(Call& c, ValueId v) {
  const Shape shape = c.shape(v);
  return c.reshape(v, {num_elements({shape.begin(), shape.end() - 1}), shape.back()});
}

ValueId left_gradient(Call& c, const Matrices& m) {
  return m.transpose_a ? c.matmul(m.b, m.dy, m.transpose_b, true) : c.matmul(m.dy, m.b, false, !m.transpose_b);
}

// A weight that all batches share is one product over all of their rows.
ValueId right_gradient(Call& c, Matrices m) {
  if (c.shape(m.b).size() == 2 && c.shape(m.a).size() > 2 && !m.transpose_a) {
    m.a = as_one_matrix(c, m.a);
    m.dy = as_one_matrix(c, m.dy);
  }
  return m.transpose_b ? c.matmul(m.dy, m.a, true, m.transpose_a) : c.matmul(m.a, m.dy, !m.transpose_a, false);
}

// Sums over batches that were broadcast; a vector loses the axis that it got.
ValueId like_operand(Call& c, ValueId gradient, ValueId matrix, ValueId operand) {
  return c.reshape(c.sum_to(gradient, c.shape(matrix)), c.shape(operand));
}

}  // namespace

// Of y = a b: da = dy b^T and db = a^T dy, with each matrix as it is stored.
Status matmul_rule(Call& c) {
  const Matrices m = matrices(c);
  if (c.wants(0)) c.give(0, like_operand(c, left_gradient(c, m), m.a, c.in(0)));
  if (c.wants(1)) c.give(1, like_operand(c, right_gradient(c, m), m.b, c.in(1)));
  return {};
}

namespace {

// One head of keys or values for each of the queries.
ValueId repeated(Call& c, ValueId v) {
  const Shape shape = c.shape(v);
  const Dim& heads = c.shape(c.in(0))[1];
  if (shape[1] == heads) return v;
  Shape split = shape;
  split.insert(split.begin() + 2, Dim(1));
  v = c.reshape(v, split);
  v = c.broadcast(v, with(split, 2, heads.value() / shape[1].value()));
  return c.reshape(v, with(shape, 1, heads));
}

ValueId along_keys(Call& c, TensorOp op, ValueId v) { return c.reshape(c.reduce(op, v, {3}), with(c.shape(v), 3, 1)); }

}  // namespace

// softmax(q k^T * scale + mask) v. The maximum is held: the softmax does not depend on it.
Status attention_rule(Call& c) {
  if (c.attrs().i("causal") == 1) return c.refuse("has no gradient where it is causal; give it a mask instead");
  const std::size_t first = c.graph().order.size();
  const DType dtype = c.type(c.dy).dtype;
  ValueId scores = c.matmul(c.in(0), repeated(c, c.in(1)), false, true);
  scores = c.node(ScalarOp::mul, {scores, c.number(dtype, c.attrs().f("scale"))});
  if (c.operands() > 3) {
    const DType wide = c.type(c.in(3)).dtype;
    scores = c.cast(c.node(ScalarOp::add, {c.cast(scores, wide), c.in(3)}), dtype);
  }
  const ValueId highest = along_keys(c, TensorOp::reduce_max, scores);
  const ValueId e = c.node(ScalarOp::exp, {c.node(ScalarOp::sub, {scores, highest})});
  const ValueId weights = c.node(ScalarOp::div, {e, along_keys(c, TensorOp::reduce_sum, e)});
  return c.through(first, c.matmul(weights, repeated(c, c.in(2)), false, false), {highest});
}

}  // namespace fusec::ir::gradient
