// SPDX-License-Identifier: Apache-2.0
// Decides which nodes on constants the import stage evaluates, and evaluates nodes on tensors and on integers known as
// expressions over symbols. Float results may be folded only where every device would compute the same bits.

#include "compiler/import/onnx/fold.h"

#include <algorithm>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/tensor.h"
#include "ir/eval/graph.h"

namespace fusec::importer {

namespace {

// Results with more elements than the operands have a lower limit: folding a broadcast or iota would replace a short
// formula by memory traffic.
constexpr int64_t kMaxFoldElements = 16384, kMaxGrownElements = kMaxShapeElements;

int64_t count(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

// Whether every element of the result is an element of an operand.
bool only_moves(ir::TensorOp op, const ir::Attrs& attrs) {
  const bool scatters = op == ir::TensorOp::scatter_elements || op == ir::TensorOp::scatter_nd;
  return scatters ? attrs.s("reduction") == "none" : ir::info(op).kind == ir::OpPattern::index_map;
}

// Correctly rounded results of narrow types may be computed in f64: double rounding cannot change them, because 53 >=
// 2 * 24 + 2.
bool same_bits_everywhere(ir::Op op, const ir::Attrs& attrs, const ir::Type& type) {
  if (!is_float(type.dtype)) return true;
  return op.is_scalar() ? has(op.scalar(), ir::OpFlag::ieee) : only_moves(op.tensor(), attrs);
}

std::vector<int64_t> row_major(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0; stride *= extents[i]) strides[i] = stride;
  return strides;
}

// The element of a broadcast operand that result element `index` reads.
int64_t broadcast_index(int64_t index, const std::vector<int64_t>& result, const std::vector<int64_t>& operand) {
  std::vector<int64_t> strides = row_major(operand);
  int64_t at = 0;
  std::size_t lead = result.size() - operand.size();
  for (std::size_t i = result.size(); i-- > 0;) {
    int64_t coordinate = index % result[i];
    index /= result[i];
    if (i >= lead && operand[i - lead] != 1) at += coordinate * strides[i - lead];
  }
  return at;
}

using Elements = std::optional<std::vector<Dim>>;

Elements scalar_elements(ir::ScalarOp op, const std::vector<KnownIntegers>& in, const std::vector<int64_t>& result,
                         const Decider& decider) {
  std::vector<Dim> out;
  for (int64_t i = 0; i < count(result); ++i) {
    std::vector<Dim> args;
    for (const KnownIntegers& k : in)
      args.push_back(k.elements[static_cast<std::size_t>(broadcast_index(i, result, k.shape))]);
    std::optional<Dim> value = decider.apply(op, args);
    if (!value || !is_short(*value)) return std::nullopt;
    out.push_back(std::move(*value));
  }
  return out;
}

// A cast between integer types keeps an extent's value: extents are far below the ranges of i32 and up.
Elements cast_elements(const KnownIntegers& in, DType to, const Decider& decider) {
  if (size_of(to) >= 4 && is_int(to)) return in.elements;
  if (to != DType::bool_) return std::nullopt;
  std::vector<Dim> out;
  for (const Dim& d : in.elements) {
    std::optional<bool> zero = decider.equal(d, 0);
    if (!zero) return std::nullopt;
    out.push_back(Dim(*zero ? 0 : 1));
  }
  return out;
}

bool is_index_operand(ir::TensorOp op, std::size_t i) {
  using T = ir::TensorOp;
  return i == 1 && (op == T::gather || op == T::gather_elements || op == T::gather_nd || op == T::scatter_elements ||
                    op == T::scatter_nd);
}

// Evaluates an index map on the positions of the elements, which works because it only moves elements.
Elements moved_elements(ir::TensorOp op, const std::vector<KnownIntegers>& in, const ir::Attrs& attrs) {
  std::vector<Dim> pool;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<int64_t> numbers;
    for (const Dim& d : in[i].elements) {
      bool is_index = is_index_operand(op, i);
      if (is_index && !d.is_const()) return std::nullopt;
      numbers.push_back(is_index ? d.value() : static_cast<int64_t>(pool.size()));
      if (!is_index) pool.push_back(d);
    }
    tensors.push_back(ints_tensor(DType::i64, in[i].shape, numbers));
  }
  std::vector<const Tensor*> operands;
  for (const Tensor& t : tensors) operands.push_back(&t);
  if (op == ir::TensorOp::pad && in.size() == 1) return std::nullopt;
  std::vector<Dim> out;
  for (int64_t number : to_ints(evaluate(op, operands, attrs))) out.push_back(pool[static_cast<std::size_t>(number)]);
  return out;
}

std::optional<ir::ScalarOp> combiner(ir::TensorOp op) {
  switch (op) {
    case ir::TensorOp::reduce_sum:
      return ir::ScalarOp::add;
    case ir::TensorOp::reduce_prod:
      return ir::ScalarOp::mul;
    case ir::TensorOp::reduce_max:
      return ir::ScalarOp::max;
    case ir::TensorOp::reduce_min:
      return ir::ScalarOp::min;
    default:
      return std::nullopt;
  }
}

Elements reduced_elements(ir::TensorOp op, const KnownIntegers& in, const std::vector<int64_t>& axes, int64_t results,
                          const Decider& decider) {
  std::optional<ir::ScalarOp> combine = combiner(op);
  if (!combine || results * 2 > kMaxShapeElements) return std::nullopt;
  std::vector<std::optional<Dim>> out(static_cast<std::size_t>(results));
  for (int64_t i = 0; i < static_cast<int64_t>(in.elements.size()); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (std::size_t axis = in.shape.size(); axis-- > 0; rest /= in.shape[axis]) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end()) continue;
      at += rest % in.shape[axis] * stride;
      stride *= in.shape[axis];
    }
    std::optional<Dim>& sum = out[static_cast<std::size_t>(at)];
    const Dim& element = in.elements[static_cast<std::size_t>(i)];
    sum = sum ? decider.apply(*combine, std::vector<Dim>{*sum, element}) : element;
    if (!sum || !is_short(*sum)) return std::nullopt;
  }
  std::vector<Dim> values;
  for (const std::optional<Dim>& d : out) {
    if (!d) return std::nullopt;
    values.push_back(*d);
  }
  return values;
}

}  // namespace

std::vector<int64_t> extents(const ir::Type& type) {
  std::vector<int64_t> values;
  for (const Dim& d : type.shape) values.push_back(d.value());
  return values;
}

ir::Attrs cast_attrs(DType to) { return {{"to", to}}; }

bool is_worth_folding(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs,
                      const ir::Type& type) {
  if (!is_const(type.shape) || !same_bits_everywhere(op, attrs, type)) return false;
  Dim n = num_elements(type.shape);
  int64_t most = 0;
  for (const Tensor* t : inputs) most = std::max(most, t->num_elements());
  return n.value() <= (n.value() > most ? kMaxGrownElements : kMaxFoldElements) && most <= kMaxFoldElements * 16;
}

Tensor evaluate(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs) {
  ir::Graph graph;
  std::vector<ir::ValueId> ids;
  std::vector<Tensor> operands;
  for (const Tensor* t : inputs) {
    ids.push_back(ir::add_input(graph, "", {t->dtype(), ir::to_shape(t->shape())}));
    operands.push_back(*t);
  }
  ir::ValueId result = ir::add_node(graph, op, std::move(ids), attrs);
  Result<Tensor> value = ir::evaluate_node(graph, *graph.producer(result), operands);
  if (value.ok()) return std::move(value).value();
  // All operands are constants of the model, so an index out of range makes the model invalid.
  bool is_users = value.status().code() == StatusCode::invalid_argument;
  throw ImportError{is_users ? Status(StatusCode::invalid_model, value.status().message()) : value.status()};
}

std::optional<std::vector<Dim>> evaluate_symbolic(ir::Op op, const std::vector<KnownIntegers>& inputs,
                                                  const ir::Attrs& attrs, const ir::Type& type,
                                                  const Decider& decider) {
  std::vector<int64_t> result = extents(type);
  if (op == ir::Op(ir::ScalarOp::cast)) return cast_elements(inputs[0], type.dtype, decider);
  if (op.is_scalar()) return scalar_elements(op.scalar(), inputs, result, decider);
  if (only_moves(op.tensor(), attrs)) return moved_elements(op.tensor(), inputs, attrs);
  if (!combiner(op.tensor())) return std::nullopt;
  return reduced_elements(op.tensor(), inputs[0], attrs.ints("axes"), count(result), decider);
}

}  // namespace fusec::importer
