// SPDX-License-Identifier: Apache-2.0
// Decides which max_pool nodes are small windows, and maps their positions to input coordinates, for partition and
// lower.

#include <algorithm>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"

namespace fusec::compiler {
namespace {

// Each position costs a load and a maximum.
constexpr int64_t kMaxPlaces = 16;

// One spatial axis: position `place` of the window of result o reads element o * step + place - before.
struct WindowAxis {
  Dim in, out;
  int64_t kernel, step, before;

  // Whether the first and the last window reach into the image.
  bool reaches_inside() const { return before < kernel && proves_nonneg(in - 1 - ((out - 1) * step - before), {}); }

  Dim at(const Dim& coord, int64_t place, const DimRanges& ranges) const {
    Dim d = coord * step + Dim(place - before);
    if (!proves_nonneg(d, ranges)) d = max(d, 0);
    if (!proves_nonneg(in - 1 - d, ranges)) d = min(d, in - 1);
    return d;
  }
};

// Axis i + 1 of the tensors is spatial axis i.
std::vector<WindowAxis> collect_axes(const Graph& graph, const Node& node) {
  const auto &kernel = node.attrs.ints("kernel"), &steps = node.attrs.ints("strides"), &pads = node.attrs.ints("pads");
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < kernel.size(); ++i) {
    axes.push_back(
        {graph.type(node.inputs[0]).shape[i + 1], graph.type(node.output).shape[i + 1], kernel[i], steps[i], pads[i]});
  }
  return axes;
}

}  // namespace

int64_t window_size(const Node& node) {
  int64_t places = 1;
  for (const int64_t extent : node.attrs.ints("kernel")) places *= extent;
  return places;
}

bool windows_overlap(const Node& node) {
  const auto &kernel = node.attrs.ints("kernel"), &steps = node.attrs.ints("strides");
  return !std::equal(kernel.begin(), kernel.end(), steps.begin(), std::less_equal<>());
}

bool is_small_window(const Graph& graph, const Node& node) {
  if (!(node.op == TensorOp::max_pool) || node.attrs.s("layout") != "last" || window_size(node) > kMaxPlaces)
    return false;
  const auto& dilations = node.attrs.ints("dilations");
  const std::vector<WindowAxis> axes = collect_axes(graph, node);
  return std::all_of(dilations.begin(), dilations.end(), [](int64_t d) { return d == 1; }) &&
         std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) { return a.reaches_inside(); });
}

std::vector<Coords> window_coords(const Graph& graph, const Node& node, const Coords& coords, const DimRanges& ranges) {
  std::vector<Coords> places{coords};
  const std::vector<WindowAxis> axes = collect_axes(graph, node);
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<Coords> more;
    for (const Coords& c : places) {
      for (int64_t place = 0; place < axes[i].kernel; ++place) {
        more.push_back(c);
        more.back()[i + 1] = axes[i].at(coords[i + 1], place, ranges);
      }
    }
    places = std::move(more);
  }
  return places;
}

}  // namespace fusec::compiler
