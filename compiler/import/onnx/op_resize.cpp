// SPDX-License-Identifier: Apache-2.0
// Imports Resize and Upsample: reads axes, scales, sizes and modes as each version of the ops defines them.
// compiler/import/onnx/resize.cpp emits the nodes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

namespace {

// floor(extent * scale), in f32 as ONNX infers shapes. For a symbolic extent the scale must be n / 2^k.
Dim scaled_extent(const Dim& extent, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) fail_invalid(fmt::format("a scale of {}", scale));
  if (extent.is_const()) {
    const float length = std::floor(static_cast<float>(extent.value()) * static_cast<float>(scale));
    if (!(length < 0x1p40F)) fail_unsupported(fmt::format("an extent of {} scaled by {}", extent.str(), scale));
    return static_cast<int64_t>(length);
  }
  for (int64_t parts = 1; parts <= 1024; parts *= 2) {
    const double whole = scale * static_cast<double>(parts);
    if (whole == std::floor(whole) && whole < 0x1p20) return floordiv(extent * static_cast<int64_t>(whole), parts);
  }
  fail_unsupported(fmt::format("the extent {} scaled by {}", extent.str(), scale));
}

std::vector<double> known_floats(const NodeContext& c, std::size_t i, const char* what) {
  const Tensor* data = c.b.data(c.in(i));
  if (data == nullptr) fail_unsupported(fmt::format("{} that depend on data", what));
  std::vector<double> values;
  for (int64_t k = 0; k < data->num_elements(); ++k) values.push_back(load_f64(*data, k));
  return values;
}

void check_entries(std::size_t got, std::size_t axes, const char* what) {
  if (got != axes) fail_invalid(fmt::format("{} has {} entries for {} axes", what, got, axes));
}

void set_scales(std::vector<ResizedAxis>& axes, const std::vector<double>& scales) {
  check_entries(scales.size(), axes.size(), "scales");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].scale = scales[i];
    axes[i].out = scaled_extent(axes[i].in, scales[i]);
  }
}

// Sets the result extents from `sizes`. A keep_aspect_ratio_policy other than stretch uses one scale for all axes, the
// least or greatest of sizes / extents, and rounds the sizes.
void set_sizes(std::vector<ResizedAxis>& axes, const std::vector<Dim>& sizes, const std::string& policy) {
  check_entries(sizes.size(), axes.size(), "sizes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].out = sizes[i];
    if (sizes[i].is_const() && sizes[i].value() < 0) fail_invalid(fmt::format("a size of {}", sizes[i].str()));
  }
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller")
    fail_invalid(fmt::format("keep_aspect_ratio_policy '{}'", policy));
  std::optional<double> scale;
  for (const ResizedAxis& a : axes) {
    if (!a.in.is_const() || !a.out.is_const()) fail_unsupported("keep_aspect_ratio_policy where extents are not known");
    if (a.in.is(0)) fail_invalid("an axis without elements has no aspect ratio");
    const double own = static_cast<double>(a.out.value()) / static_cast<double>(a.in.value());
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (ResizedAxis& a : axes) {
    a.scale = scale;
    a.out = static_cast<int64_t>(std::floor(*scale * static_cast<double>(a.in.value()) + 0.5));
  }
}

std::vector<ResizedAxis> all_axes(const NodeContext& c) {
  std::vector<ResizedAxis> axes;
  const int64_t rank = c.b.rank(c.in(0));
  const std::vector<int64_t> named = c.ints("axes").value_or(range_axes(0, rank));
  normal_axes(named, rank);
  for (int64_t axis : named) {
    const int64_t own = normal_axis(axis, rank);
    const Dim& extent = c.b.shape(c.in(0))[static_cast<std::size_t>(own)];
    axes.push_back({.axis = own, .in = extent, .out = extent, .scale = {}});
  }
  return axes;
}

ResizeRules read_rules(const NodeContext& c) {
  ResizeRules rules{.mode = c.s("mode", "nearest"),
                    .coordinates = c.s("coordinate_transformation_mode", "half_pixel"),
                    .nearest = c.s("nearest_mode", "round_prefer_floor"),
                    .cubic_a = c.f("cubic_coeff_a", -0.75),
                    .extrapolation = c.f("extrapolation_value", 0),
                    .exclude_outside = c.i("exclude_outside", 0) != 0,
                    .antialias = c.i("antialias", 0) != 0};
  if (c.opset() < 7 && rules.mode == "bilinear") rules.mode = "linear";
  if (rules.mode != "nearest" && rules.mode != "linear" && rules.mode != "cubic") {
    fail_invalid(fmt::format("mode '{}'", rules.mode));
  }
  return rules;
}

// Resizes as defined before opset 11: positions are i / scale. Nearest rounds down, or up where the scale is below 1.
Val resize_by_scales(const NodeContext& c, const std::vector<double>& scales) {
  ResizeRules rules = read_rules(c);
  rules.coordinates = "asymmetric";
  std::vector<ResizedAxis> axes = all_axes(c);
  set_scales(axes, scales);
  if (rules.mode != "nearest") return resize(c.b, c.in(0), axes, rules);
  Val y = c.in(0);
  for (const ResizedAxis& a : axes) {
    rules.nearest = *a.scale < 1 ? "ceil" : "floor";
    y = resize(c.b, y, {a}, rules);
  }
  return y;
}

}  // namespace

// Up to opset 6 the operand has four axes, and the last two have one scale each.
void import_upsample(NodeContext& c) {
  if (c.has_attr("height_scale"))
    return c.out(resize_by_scales(c, {1, 1, c.f("height_scale", 1), c.f("width_scale", 1)}));
  if (std::optional<std::vector<double>> scales = c.floats("scales")) return c.out(resize_by_scales(c, *scales));
  c.out(resize_by_scales(c, known_floats(c, 1, "scales")));
}

void import_resize(NodeContext& c) {
  if (c.opset() < 11) return c.out(resize_by_scales(c, known_floats(c, 1, "scales")));
  const ResizeRules rules = read_rules(c);
  std::vector<ResizedAxis> axes = all_axes(c);
  const bool scaled = c.has(2) && !num_elements(c.b.shape(c.in(2))).is(0);
  if (scaled) {
    set_scales(axes, known_floats(c, 2, "scales"));
  } else if (c.has(3)) {
    set_sizes(axes, c.dims(3, "sizes"), c.s("keep_aspect_ratio_policy", "stretch"));
  } else {
    fail_invalid("it has neither scales nor sizes");
  }
  if (rules.crops()) {
    const std::vector<double> roi = known_floats(c, 1, "regions of interest");
    check_entries(roi.size(), 2 * axes.size(), "roi");
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i].start = roi[i], axes[i].end = roi[i + axes.size()];
  }
  c.out(resize(c.b, c.in(0), axes, rules));
}

}  // namespace fusec::importer
