// SPDX-License-Identifier: Apache-2.0
// Computes windows (offset and strides) of values that are views, for partition and lower.

#include "compiler/partition/domain.h"
#include "compiler/partition/partition.h"

namespace fusec::compiler {

using ir::TensorOp;

namespace {

// A dense view can be reshaped in any way. In other views each axis of `to` must be evenly strided.
std::optional<StridedView> reshape_window(const StridedView& in, const Shape& to) {
  const auto common = factorize({in.shape, to});
  if (!common) {
    if (!(in.strides == contiguous_strides(in.shape))) return std::nullopt;
    return StridedView{in.base, in.offset, to, contiguous_strides(to), std::vector<bool>(to.size())};
  }
  // The strides of the factors inside each axis of `in`.
  Shape factor_strides(common->factors.size());
  std::vector<bool> backwards(common->factors.size());
  size_t next = 0;
  for (size_t axis = 0; axis < in.shape.size(); ++axis) {
    const auto count = static_cast<size_t>(common->groups[0][axis]);
    Dim stride = in.strides[axis];
    for (size_t k = next + count; k-- > next;) {
      factor_strides[k] = stride;
      backwards[k] = in.backwards[axis];
      stride = stride * common->factors[k];
    }
    next += count;
  }
  StridedView out{in.base, in.offset, to, Shape(to.size(), Dim(0)), std::vector<bool>(to.size())};
  next = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const auto count = static_cast<size_t>(common->groups[1][axis]);
    for (size_t k = next; k + 1 < next + count; ++k)
      if (!(factor_strides[k] == factor_strides[k + 1] * common->factors[k + 1])) return std::nullopt;
    if (count > 0)
      out.strides[axis] = factor_strides[next + count - 1], out.backwards[axis] = backwards[next + count - 1];
    next += count;
  }
  return out;
}

StridedView broadcast_window(const StridedView& in, const Shape& shape) {
  StridedView out{in.base, in.offset, shape, Shape(shape.size(), Dim(0)), std::vector<bool>(shape.size())};
  const size_t shift = shape.size() - in.shape.size();
  for (size_t i = 0; i < in.shape.size(); ++i)
    if (!in.shape[i].is(1)) out.strides[i + shift] = in.strides[i], out.backwards[i + shift] = in.backwards[i];
  return out;
}

StridedView transpose_window(const StridedView& in, const std::vector<int64_t>& perm) {
  StridedView out{in.base, in.offset, {}, {}, {}};
  for (int64_t p : perm) {
    out.shape.push_back(in.shape[static_cast<size_t>(p)]);
    out.strides.push_back(in.strides[static_cast<size_t>(p)]);
    out.backwards.push_back(in.backwards[static_cast<size_t>(p)]);
  }
  return out;
}

StridedView slice_window(const StridedView& in, const ir::Attrs& attrs, const Shape& shape) {
  StridedView out{in.base, in.offset, shape, {}, {}};
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t step = attrs.ints("steps")[i];
    out.offset += attrs.dims("starts")[i] * in.strides[i];
    out.strides.push_back(in.strides[i] * Dim(step));
    out.backwards.push_back(in.backwards[i] != (step < 0));
  }
  return out;
}

}  // namespace

std::optional<StridedView> view_through(const ir::Graph& graph, const ir::Node& node, const StridedView& in) {
  if (node.op.is_scalar()) return std::nullopt;
  const Shape& shape = graph.type(node.output).shape;
  switch (node.op.tensor()) {
    case TensorOp::broadcast:
      return broadcast_window(in, shape);
    case TensorOp::transpose:
      return transpose_window(in, node.attrs.ints("perm"));
    case TensorOp::slice:
      return slice_window(in, node.attrs, shape);
    case TensorOp::reshape:
      return reshape_window(in, shape);
    default:
      return std::nullopt;
  }
}

std::optional<StridedView> find_view(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                     ir::ValueId value) {
  if (auto it = storage.find(value); it != storage.end())
    return StridedView{it->second.base, it->second.offset, graph.type(value).shape, it->second.strides,
                       std::vector<bool>(it->second.strides.size())};
  const ir::Node* node = graph.producer(value);
  if (node == nullptr || node->op.is_scalar() || node->inputs.size() != 1) return std::nullopt;
  auto in = find_view(graph, storage, node->inputs[0]);
  return in ? view_through(graph, *node, *in) : std::nullopt;
}

}  // namespace fusec::compiler
