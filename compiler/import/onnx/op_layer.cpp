// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions, pooling, softmax and dropout.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

// Windows of a convolution or pooling.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: begins, then ends
};

void check_count(const std::vector<int64_t>& values, std::size_t n, int64_t least, const char* what) {
  if (values.size() != n) fail_invalid(fmt::format("{} must have {} entries, got {}", what, n, values.size()));
  for (int64_t v : values) {
    // Past 2^31 no real window lies, and sums of such numbers stay within 64 bits.
    if (v < least || v >= int64_t{1} << 31) fail_invalid(fmt::format("{} has the entry {}", what, v));
  }
}

// Total padding that makes ceil(extent / stride) windows: (ceil(extent / stride) - 1) * stride + reach - extent, at
// least 0. With stride 1 it does not depend on the extent.
int64_t same_padding(const Dim& extent, int64_t stride, int64_t reach) {
  if (stride == 1) return reach - 1;
  if (!extent.is_const())
    fail_unsupported(fmt::format("auto_pad with stride {} on an extent {}", stride, extent.str()));
  return std::max<int64_t>(((extent.value() + stride - 1) / stride - 1) * stride + reach - extent.value(), 0);
}

Window read_window(const NodeContext& c, const Shape& spatial, std::vector<int64_t> kernel) {
  std::size_t n = spatial.size();
  std::vector<int64_t> ones(n, 1);
  Window w{std::move(kernel), c.ints("strides").value_or(ones), c.ints("dilations").value_or(ones),
           c.ints("pads").value_or(std::vector<int64_t>(2 * n, 0))};
  check_count(w.kernel, n, 1, "kernel_shape");
  check_count(w.strides, n, 1, "strides");
  check_count(w.dilations, n, 1, "dilations");
  check_count(w.pads, 2 * n, 0, "pads");
  std::string mode = c.s("auto_pad", "NOTSET");
  if (mode == "NOTSET") return w;
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    fail_invalid("auto_pad is '" + mode.substr(0, 20) + "'");
  for (std::size_t i = 0; i < n; ++i) {
    int64_t total =
        mode == "VALID" ? 0 : same_padding(spatial[i], w.strides[i], w.dilations[i] * (w.kernel[i] - 1) + 1);
    w.pads[i] = mode == "SAME_LOWER" ? total - total / 2 : total / 2;
    w.pads[i + n] = total - w.pads[i];
  }
  return w;
}

Shape spatial_extents(const NodeContext& c, Val x) {
  if (c.b.rank(x) < 3) fail_invalid("the operand must have a batch, a channel and spatial axes");
  return {c.b.shape(x).begin() + 2, c.b.shape(x).end()};
}

}  // namespace

void import_conv(NodeContext& c) {
  Val x = c.in(0), filter = c.in(1);
  Shape spatial = spatial_extents(c, x);
  std::vector<int64_t> kernel;
  if (c.b.rank(filter) != c.b.rank(x)) fail_invalid("the filter must have as many axes as the operand");
  for (std::size_t i = 2; i < c.b.shape(filter).size(); ++i) {
    const Dim& extent = c.b.shape(filter)[i];
    if (!extent.is_const()) fail_unsupported("a filter whose extents are not known");
    kernel.push_back(extent.value());
  }
  if (c.ints("kernel_shape").value_or(kernel) != kernel) fail_invalid("kernel_shape is not the shape of the filter");
  Window w = read_window(c, spatial, kernel);
  std::vector<Val> operands = {x, filter};
  if (c.has(2)) operands.push_back(c.in(2));
  c.out(c.b.emit(TensorOp::conv, operands,
                 {{"strides", w.strides},
                  {"pads", w.pads},
                  {"dilations", w.dilations},
                  {"groups", c.i("group", 1)},
                  {"layout", std::string("first")}}));
}

void import_max_pool(NodeContext& c) {
  if (c.wants(1)) fail_unsupported("the output Indices");
  Window w = read_window(c, spatial_extents(c, c.in(0)), c.ints("kernel_shape").value_or(std::vector<int64_t>()));
  int64_t ceil_mode = c.i("ceil_mode", 0) != 0;
  c.out(c.b.emit(TensorOp::max_pool, {c.in(0)},
                 {{"kernel", w.kernel},
                  {"strides", w.strides},
                  {"pads", w.pads},
                  {"dilations", w.dilations},
                  {"ceil_mode", ceil_mode},
                  {"layout", std::string("first")}}));
}

void import_average_pool(NodeContext& c) {
  Window w = read_window(c, spatial_extents(c, c.in(0)), c.ints("kernel_shape").value_or(std::vector<int64_t>()));
  int64_t ceil_mode = c.i("ceil_mode", 0) != 0, count_pads = c.i("count_include_pad", 0) != 0;
  c.out(c.b.emit(TensorOp::avg_pool, {c.in(0)},
                 {{"kernel", w.kernel},
                  {"strides", w.strides},
                  {"pads", w.pads},
                  {"dilations", w.dilations},
                  {"ceil_mode", ceil_mode},
                  {"count_include_pad", count_pads},
                  {"layout", std::string("first")}}));
}

void import_global_average_pool(NodeContext& c) {
  spatial_extents(c, c.in(0));
  c.out(reduce(c.b, TensorOp::reduce_mean, c.in(0), range_axes(2, c.b.rank(c.in(0))), true));
}

void import_global_max_pool(NodeContext& c) {
  spatial_extents(c, c.in(0));
  c.out(reduce(c.b, TensorOp::reduce_max, c.in(0), range_axes(2, c.b.rank(c.in(0))), true));
}

void import_matmul(NodeContext& c) {
  c.out(c.b.emit(TensorOp::matmul, {c.in(0), c.in(1)}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}}));
}

// alpha * A' B' + beta * C
void import_gemm(NodeContext& c) {
  Builder& b = c.b;
  double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  int64_t ta = c.i("transA", 0) != 0, tb = c.i("transB", 0) != 0;
  if (b.rank(c.in(0)) != 2 || b.rank(c.in(1)) != 2) fail_invalid("A and B must have two axes");
  Val y = b.emit(TensorOp::matmul, {c.in(0), c.in(1)}, {{"transpose_a", ta}, {"transpose_b", tb}});
  if (alpha != 1) y = mul(b, y, alpha);
  if (!c.has(2) || beta == 0) return c.out(y);
  Shape result = b.shape(y);
  y = add(b, y, beta == 1 ? c.in(2) : mul(b, c.in(2), beta));
  if (b.shape(y) != result)
    fail_invalid(fmt::format("C {} does not broadcast to {}", to_string(b.type(c.in(2))), to_string(result)));
  c.out(y);
}

namespace {

// Before opset 13 softmax flattened to [prod(:axis), prod(axis:)], which is the same as reducing all axes from axis on.
std::vector<int64_t> softmax_axes(const NodeContext& c, Val x) {
  int64_t rank = c.b.rank(x);
  if (c.opset() >= 13) return {normal_axis(c.i("axis", -1), rank)};
  int64_t axis = c.i("axis", 1);
  return range_axes(axis == rank ? rank : normal_axis(axis, rank), rank);
}

}  // namespace

// exp(x - max) / sum(exp(x - max))
void import_softmax(NodeContext& c) {
  Builder& b = c.b;
  Val x = widen(b, c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, x);
  Val e = unary(b, ScalarOp::exp, sub(b, x, reduce(b, TensorOp::reduce_max, x, axes, true)));
  c.out(cast(b, div(b, e, reduce(b, TensorOp::reduce_sum, e, axes, true)), b.dtype(c.in(0))));
}

// (x - max) - log(sum(exp(x - max)))
void import_log_softmax(NodeContext& c) {
  Builder& b = c.b;
  Val x = widen(b, c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, x);
  Val d = sub(b, x, reduce(b, TensorOp::reduce_max, x, axes, true));
  Val sum = reduce(b, TensorOp::reduce_sum, unary(b, ScalarOp::exp, d), axes, true);
  c.out(cast(b, sub(b, d, unary(b, ScalarOp::log, sum)), b.dtype(c.in(0))));
}

// 1 at the first maximum, else 0.
void import_hardmax(NodeContext& c) {
  Builder& b = c.b;
  const Shape shape = b.shape(c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, c.in(0));
  Shape flat;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()) && (axes.empty() || i < axes[0]); ++i)
    flat.push_back(shape[static_cast<std::size_t>(i)]);
  Dim row = 1;
  for (int64_t axis : axes) row *= shape[static_cast<std::size_t>(axis)];
  bool trails = axes.size() != 1 || axes[0] + 1 == b.rank(c.in(0));
  Val x = c.in(0);
  auto axis = static_cast<int64_t>(flat.size());
  flat.push_back(row);
  if (trails) x = reshape(b, x, flat);
  Val top = b.emit(TensorOp::argmax, {x}, {{"axis", axis}, {"last", int64_t{0}}});
  Shape kept = b.shape(x), counter(kept.size(), Dim(1));
  counter[static_cast<std::size_t>(axis)] = kept[static_cast<std::size_t>(axis)];
  kept[static_cast<std::size_t>(axis)] = 1;
  Val hit = binary(b, ScalarOp::eq, reshape(b, top, kept), iota(b, counter, axis, DType::i64));
  c.out(reshape(b, cast(b, hit, b.dtype(x)), shape));
}

// Inference: the identity; the mask is all true.
void import_dropout(NodeContext& c) {
  if (c.opset() >= 12 && c.has(2)) {
    std::vector<int64_t> training = c.const_ints(2, "training modes");
    if (training.size() == 1 && training[0] != 0) fail_unsupported("training mode");
  }
  c.out(c.in(0));
  DType mask = c.opset() < 10 ? c.b.dtype(c.in(0)) : DType::bool_;
  if (c.wants(1)) c.out(1, broadcast(c.b, c.b.scalar(mask, 1), c.b.shape(c.in(0))));
}

}  // namespace fusec::importer
