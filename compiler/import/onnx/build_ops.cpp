// SPDX-License-Identifier: Apache-2.0
// Emits the short node sequences from which op handlers are composed in the import stage: casts, reshapes, slices,
// reductions and per-channel parameters.

#include "compiler/import/onnx/build_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/fold.h"

namespace fusec::importer {

Val unary(Builder& b, ScalarOp op, Val x) { return b.emit(op, {x}); }
Val binary(Builder& b, ScalarOp op, Val x, Val y) { return b.emit(op, {x, y}); }
Val add(Builder& b, Val x, Val y) { return binary(b, ScalarOp::add, x, y); }
Val sub(Builder& b, Val x, Val y) { return binary(b, ScalarOp::sub, x, y); }
Val mul(Builder& b, Val x, Val y) { return binary(b, ScalarOp::mul, x, y); }
Val div(Builder& b, Val x, Val y) { return binary(b, ScalarOp::div, x, y); }
Val mul(Builder& b, Val x, double y) { return mul(b, x, b.scalar(b.dtype(x), y)); }
Val add(Builder& b, Val x, double y) { return add(b, x, b.scalar(b.dtype(x), y)); }

Val cast(Builder& b, Val x, DType to) { return b.dtype(x) == to ? x : b.emit(ScalarOp::cast, {x}, cast_attrs(to)); }

Val reshape(Builder& b, Val x, const Shape& shape) {
  return b.shape(x) == shape ? x : b.emit(TensorOp::reshape, {x}, {{"shape", shape}});
}

Val broadcast(Builder& b, Val x, const Shape& shape) {
  return b.shape(x) == shape ? x : b.emit(TensorOp::broadcast, {x}, {{"shape", shape}});
}

Val transpose(Builder& b, Val x, const std::vector<int64_t>& perm) {
  bool is_identity = static_cast<int64_t>(perm.size()) == b.rank(x) && std::is_sorted(perm.begin(), perm.end());
  return is_identity && perm == range_axes(0, b.rank(x)) ? x : b.emit(TensorOp::transpose, {x}, {{"perm", perm}});
}

Val concat(Builder& b, const std::vector<Val>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : b.emit(TensorOp::concat, parts, {{"axis", axis}});
}

Val iota(Builder& b, const Shape& shape, int64_t axis, DType dtype) {
  return b.emit(TensorOp::iota, {}, {{"shape", shape}, {"axis", axis}, {"dtype", dtype}});
}

Val slice(Builder& b, Val x, int64_t axis, const Dim& start, const Dim& size, int64_t step) {
  auto at = static_cast<std::size_t>(axis);
  Shape sizes = b.shape(x), starts(sizes.size(), Dim(0));
  if (start.is(0) && step == 1 && sizes[at] == size) return x;
  std::vector<int64_t> steps(sizes.size(), 1);
  starts[at] = start;
  sizes[at] = size;
  steps[at] = step;
  return b.emit(TensorOp::slice, {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

Val reduce(Builder& b, TensorOp op, Val x, const std::vector<int64_t>& axes, bool keep) {
  if (axes.empty()) return x;
  Shape kept = b.shape(x);
  for (int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  Val result = b.emit(op, {x}, {{"axes", axes}});
  return keep ? reshape(b, result, kept) : result;
}

Val drop_axes(Builder& b, Val x, const std::vector<int64_t>& axes) {
  Shape rest;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    bool drop = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!drop) rest.push_back(b.shape(x)[static_cast<std::size_t>(i)]);
  }
  return reshape(b, x, rest);
}

Val along_axis(Builder& b, Val vector, int64_t axis, int64_t rank) {
  if (b.rank(vector) != 1) fail_invalid("a parameter per channel must have one axis, got " + to_string(b.type(vector)));
  if (axis >= rank)
    fail_invalid("parameters per channel want an operand with an axis " + std::to_string(axis) + ", its rank is " +
                 std::to_string(rank));
  Shape shape(static_cast<std::size_t>(rank - axis), Dim(1));
  shape[0] = b.shape(vector)[0];
  return reshape(b, vector, shape);
}

void fail_groups(const Dim& channels, int64_t groups) {
  const std::string message = fmt::format("{} channels do not split into {} groups", channels.str(), groups);
  if (groups < 1 || channels.is_const()) fail_invalid(message);
  fail_unsupported(message + ", unless the extents of inputs are such");
}

Val widen(Builder& b, Val x) { return cast(b, x, compute_type(b.dtype(x))); }

std::vector<int64_t> range_axes(int64_t begin, int64_t end) {
  std::vector<int64_t> axes;
  for (int64_t i = begin; i < end; ++i) axes.push_back(i);
  return axes;
}

}  // namespace fusec::importer
