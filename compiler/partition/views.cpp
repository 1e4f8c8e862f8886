// SPDX-License-Identifier: Apache-2.0
// Computes windows (offset and strides) of values that are views, for partition and lower, and tells which of them
// libraries read.

#include <algorithm>

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

constexpr int64_t kRowBytes = 16;  // of which the rows that attention reads begin at multiples

// Whether several elements share one place in memory. GPU libraries do not take such images and matrices, and host
// libraries are slow with them.
bool repeats(const StridedView& w, size_t from) {
  for (size_t i = from; i < w.strides.size(); ++i)
    if (w.strides[i].is(0) && !w.shape[i].is(1)) return true;
  return false;
}

// Whether the view is dense, as functions of the host take their operands.
bool is_row_major(const StridedView& w) {
  Dim stride(1);
  for (size_t i = w.shape.size(); i-- > 0;) {
    if (!w.shape[i].is(1) && !(w.strides[i] == stride)) return false;
    stride = stride * w.shape[i];
  }
  return true;
}

// Whether the channels of each head lie side by side and begin at a multiple of 16 bytes.
bool has_aligned_rows(const StridedView& w, DType dtype) {
  const Dim step(kRowBytes / static_cast<int64_t>(size_of(dtype)));
  if (!w.strides.back().is(1) || repeats(w, 0) || !w.offset.exact_div(step)) return false;
  for (size_t i = 0; i + 1 < w.strides.size(); ++i)
    if (!w.shape[i].is(1) && !w.strides[i].exact_div(step)) return false;
  return true;
}

}  // namespace

bool reads_view(const ir::Node& anchor, size_t i, DType dtype, const StridedView& w, const ir::StrideLimits& limits) {
  if (is_kind(anchor.op, ir::OpPattern::opaque)) return is_row_major(w);
  const bool is_backwards = std::find(w.backwards.begin(), w.backwards.end(), true) != w.backwards.end();
  if (is_backwards && !limits.backwards) return false;
  const ir::Role role = ir::roles_of(anchor.op.tensor())[i];
  if (role == ir::Role::bias) return true;
  if (role == ir::Role::mask) return w.strides.back().is(1) || w.shape.back().is(1);
  if (anchor.op == TensorOp::attention) return has_aligned_rows(w, dtype);
  const size_t rank = w.strides.size();
  const bool is_image = anchor.attrs.find("layout") != nullptr;  // else a matrix
  if (!limits.repeated && repeats(w, is_image ? 0 : rank - std::min<size_t>(rank, 2))) return false;
  if (limits.scattered) return true;
  if (!is_image) return rank < 2 || w.strides[rank - 1].is(1) || w.strides[rank - 2].is(1) || w.shape[rank - 1].is(1);
  if (role == ir::Role::weight) return true;
  const bool last = anchor.attrs.s("layout") == "last";
  return !last || w.strides[rank - 1].is(1) || w.shape[rank - 1].is(1);
}

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
