// SPDX-License-Identifier: Apache-2.0
// Reads and checks the window attributes of convolutions and pooling in the import stage, and emits `conv` nodes in
// layout "first".

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"

namespace fusec::importer {

// No real window reaches 2^31, and sums of such numbers stay within 64 bits.
constexpr int64_t kFar = int64_t{1} << 31;

void check_count(const std::vector<int64_t>& values, std::size_t n, int64_t least, const char* what) {
  if (values.size() != n) fail_invalid(fmt::format("{} must have {} entries, got {}", what, n, values.size()));
  for (int64_t v : values) {
    if (v < least) fail_invalid(fmt::format("{} has the entry {}", what, v));
    if (v >= kFar) fail_unsupported(fmt::format("{} with the entry {}", what, v));
  }
}

Window read_window(const NodeContext& c, std::vector<int64_t> kernel) {
  std::size_t n = kernel.size();
  std::vector<int64_t> ones(n, 1);
  Window w{std::move(kernel), c.ints("strides").value_or(ones), c.ints("dilations").value_or(ones),
           c.ints("pads").value_or(std::vector<int64_t>(2 * n, 0))};
  check_count(w.kernel, n, 1, "kernel_shape");
  check_count(w.strides, n, 1, "strides");
  check_count(w.dilations, n, 1, "dilations");
  check_count(w.pads, 2 * n, 0, "pads");
  for (std::size_t i = 0; i < n; ++i) {
    if (w.dilated_extent(i) >= kFar)
      fail_unsupported(fmt::format("kernel_shape and dilations that span {} elements", w.dilated_extent(i)));
  }
  return w;
}

std::string read_auto_pad(const NodeContext& c) {
  std::string mode = c.s("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    fail_invalid("auto_pad is '" + short_name(mode) + "'");
  return mode;
}

void split_padding(Window& w, std::size_t i, int64_t total, bool more_at_begin) {
  w.pads[i] = more_at_begin ? total - total / 2 : total / 2;
  w.pads[i + w.axes()] = total - w.pads[i];
}

namespace {

// The total padding that makes ceil(extent / stride) windows: (ceil(extent / stride) - 1) * stride + reach - extent, at
// least 0. With stride 1 it does not depend on the extent.
int64_t same_padding(const Dim& extent, int64_t stride, int64_t dilated_extent) {
  if (stride == 1) return dilated_extent - 1;
  if (!extent.is_const())
    fail_unsupported(fmt::format("auto_pad with stride {} on an extent {}", stride, extent.str()));
  // This is Dim arithmetic because an extent beside an empty axis may be any number: Dims throw on overflow.
  const Dim total = (ceildiv(extent, stride) - 1) * stride + dilated_extent - extent;
  return std::max<int64_t>(total.value(), 0);
}

}  // namespace

Window read_window(const NodeContext& c, const Shape& spatial, std::vector<int64_t> kernel) {
  check_count(kernel, spatial.size(), 1, "kernel_shape");
  Window w = read_window(c, std::move(kernel));
  std::string mode = read_auto_pad(c);
  for (std::size_t i = 0; i < w.axes() && mode != "NOTSET"; ++i) {
    int64_t total = mode == "VALID" ? 0 : same_padding(spatial[i], w.strides[i], w.dilated_extent(i));
    split_padding(w, i, total, mode == "SAME_LOWER");
  }
  return w;
}

Window read_pool_window(const NodeContext& c) {
  return read_window(c, spatial_extents(c.b, c.in(0)), c.ints("kernel_shape").value_or(std::vector<int64_t>()));
}

Shape spatial_extents(const Builder& b, Val x) {
  if (b.rank(x) < 3) fail_invalid("the operand must have a batch, a channel and spatial axes");
  return {b.shape(x).begin() + 2, b.shape(x).end()};
}

std::vector<int64_t> filter_extents(const NodeContext& c, Val x, Val filter) {
  if (c.b.rank(filter) != c.b.rank(x)) fail_invalid("the filter must have as many axes as the operand");
  std::vector<int64_t> kernel;
  for (const Dim& extent : spatial_extents(c.b, filter)) {
    if (!extent.is_const()) fail_unsupported("a filter whose extents are not known");
    kernel.push_back(extent.value());
  }
  if (c.ints("kernel_shape").value_or(kernel) != kernel) fail_invalid("kernel_shape is not the shape of the filter");
  return kernel;
}

Val conv(Builder& b, Val x, Val filter, Val bias, const Window& w, int64_t groups) {
  std::vector<Val> operands = {x, filter};
  if (bias.valid()) operands.push_back(bias);
  return b.emit(TensorOp::conv, operands,
                {{"strides", w.strides},
                 {"pads", w.pads},
                 {"dilations", w.dilations},
                 {"groups", groups},
                 {"layout", std::string("first")}});
}

ir::Attrs pool_attrs(const Window& w, int64_t ceil_mode) {
  return {{"kernel", w.kernel},       {"strides", w.strides},   {"pads", w.pads},
          {"dilations", w.dilations}, {"ceil_mode", ceil_mode}, {"layout", std::string("first")}};
}

}  // namespace fusec::importer
