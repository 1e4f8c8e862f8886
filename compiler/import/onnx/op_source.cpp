// SPDX-License-Identifier: Apache-2.0
// Imports the ops that make tensors from attributes, counters or shapes: Constant, ConstantOfShape, EyeLike, OneHot,
// Range, Shape and Size.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/fold.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

void import_constant(NodeContext& c) {
  if (std::optional<Tensor> value = c.tensor("value")) return c.out(c.b.constant(std::move(*value)));
  auto count = [](const auto& values) { return std::vector<int64_t>{static_cast<int64_t>(values.size())}; };
  if (c.has_attr("value_int")) return c.out(c.b.constant(ints_tensor(DType::i64, {}, {c.i("value_int", 0)})));
  if (c.has_attr("value_float")) return c.out(c.b.scalar(DType::f32, c.f("value_float", 0)));
  if (auto values = c.ints("value_ints")) return c.out(c.b.constant(ints_tensor(DType::i64, count(*values), *values)));
  if (auto values = c.floats("value_floats")) {
    Tensor tensor = make_tensor(DType::f32, count(*values));
    for (std::size_t i = 0; i < values->size(); ++i) store_f64(tensor, static_cast<int64_t>(i), (*values)[i]);
    return c.out(c.b.constant(std::move(tensor)));
  }
  for (const char* name : {"sparse_value", "value_string", "value_strings"}) {
    if (c.has_attr(name)) fail_unsupported(fmt::format("a constant given by '{}'", name));
  }
  fail_invalid("it has no value");
}

void import_constant_of_shape(NodeContext& c) {
  Shape shape = c.dims(0, "shapes");
  Tensor value = c.tensor("value").value_or(scalar_tensor(DType::f32, 0));
  if (value.num_elements() != 1) fail_invalid("value must have one element");
  c.out(broadcast(c.b, reshape(c.b, c.b.constant(std::move(value)), {}), shape));
}

void import_eye_like(NodeContext& c) {
  Builder& b = c.b;
  const Shape shape = b.shape(c.in(0));
  if (shape.size() != 2) fail_invalid("the operand must have two axes");
  DType dtype = c.has_attr("dtype") ? to_dtype(c.i("dtype", 0)) : b.dtype(c.in(0));
  Val row = add(b, iota(b, {shape[0], 1}, 0, DType::i64), b.constant(ints_tensor(DType::i64, {}, {c.i("k", 0)})));
  c.out(cast(b, binary(b, ScalarOp::eq, row, iota(b, {1, shape[1]}, 1, DType::i64)), dtype));
}

namespace {

// The depth of a OneHot, which may have any numeric type.
Dim one_hot_depth(const NodeContext& c) {
  const Tensor* data = c.b.data(c.in(1));
  if (data != nullptr && is_float(data->dtype())) {
    const double depth = c.const_float(1, "a depth");
    if (!(depth >= 0)) fail_invalid(fmt::format("a depth of {}", depth));
    if (depth >= 0x1p40) fail_unsupported(fmt::format("a depth of {}", depth));
    return static_cast<int64_t>(depth);
  }
  const std::vector<Dim> known = c.dims(1, "depths");
  if (known.size() != 1) fail_invalid("depth must be a scalar");
  return known[0];
}

}  // namespace

// The new axis holds `on` at the position that the index names, and `off` elsewhere. Negative indices count from the
// end.
void import_one_hot(NodeContext& c) {
  Builder& b = c.b;
  const Dim depth = one_hot_depth(c);
  Val index = cast(b, c.in(0), DType::i64);
  int64_t rank = b.rank(index) + 1, axis = normal_axis(c.i("axis", -1), rank);
  Shape spread = b.shape(index), counter(static_cast<std::size_t>(rank), Dim(1));
  spread.insert(spread.begin() + axis, Dim(1));
  counter[static_cast<std::size_t>(axis)] = depth;
  Val is_negative = binary(b, ScalarOp::lt, index, b.scalar(DType::i64, 0));
  index = b.emit(ScalarOp::where, {is_negative, add(b, index, b.integers(DType::i64, {}, {depth})), index});
  Val hit = binary(b, ScalarOp::eq, reshape(b, index, spread), iota(b, counter, axis, DType::i64));
  Val off = reshape(b, slice(b, c.in(2), 0, 0, 1), {}), on = reshape(b, slice(b, c.in(2), 0, 1, 1), {});
  c.out(b.emit(ScalarOp::where, {hit, on, off}));
}

namespace {

// max(ceil((limit - start) / delta), 0)
Dim range_length(const Dim& start, const Dim& limit, const Dim& delta, const Decider& decider) {
  if (delta.is(0)) fail_invalid("delta is 0");
  std::optional<bool> negative = decider.less(delta, 0);
  if (!negative || (!delta.is_const() && *negative)) fail_unsupported(fmt::format("a delta of {}", delta.str()));
  return decider.larger(*negative ? ceildiv(start - limit, -delta) : ceildiv(limit - start, delta), 0);
}

Dim float_range_length(const NodeContext& c) {
  double start = c.const_float(0, "a start"), limit = c.const_float(1, "a limit"), delta = c.const_float(2, "a delta");
  double length = std::ceil((limit - start) / delta);
  if (!std::isfinite(length)) fail_invalid("start, limit and delta give no finite length");
  if (std::fabs(length) >= 0x1p62) fail_unsupported(fmt::format("a length of {}", length));
  return static_cast<int64_t>(std::max(length, 0.0));
}

}  // namespace

// start + delta * i
void import_range(NodeContext& c) {
  Builder& b = c.b;
  Val start = reshape(b, c.in(0), {}), delta = reshape(b, c.in(2), {});
  DType dtype = b.dtype(start);
  Dim length = is_float(dtype) ? float_range_length(c)
                               : range_length(c.dims(0, "starts")[0], c.dims(1, "limits")[0], c.dims(2, "deltas")[0],
                                              c.b.decider());
  Val values = iota(b, {length}, 0, dtype);
  const Tensor *first = b.data(start), *step = b.data(delta);
  if (step == nullptr || load_f64(*step, 0) != 1) values = mul(b, values, delta);
  if (first == nullptr || load_f64(*first, 0) != 0) values = add(b, values, start);
  c.out(values);
}

void import_shape(NodeContext& c) {
  const Shape& shape = c.b.shape(c.in(0));
  auto rank = static_cast<int64_t>(shape.size());
  auto position = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  int64_t start = position(c.i("start", 0)), end = std::max(start, position(c.i("end", rank)));
  c.out(c.b.integers(DType::i64, {end - start}, {shape.begin() + start, shape.begin() + end}));
}

void import_size(NodeContext& c) { c.out(c.b.integers(DType::i64, {}, {num_elements(c.b.shape(c.in(0)))})); }

}  // namespace fusec::importer
