// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes max_pool and avg_pool nodes that no library of the target computes, or computes fast, into
// generated code. A window of few positions over known extents becomes the maximum, or the sum, of the input moved to
// each position.
//
//   y[n, o..., c] = max over places t of x[n, o * stride + t * dilation - pad ..., c], the lowest value outside
//
// Other windows become a reduction for each spatial axis, over the positions that a table lists for each result.
//
//   y[n, o, c] = max over t of padded[n, table[o, t], c],  table[o, t] = o * stride + t * dilation
//
// An average divides the sum by the number of positions that count, which is the product of those along each axis. Sums
// of 16-bit types are f32, rounded once.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

bool is_pool(const Node& node) { return node.op == TensorOp::max_pool || node.op == TensorOp::avg_pool; }

// The window along one spatial axis, which is `axis` of the tensors.
struct PoolAxis : ir::PoolAxis {
  std::size_t axis = 0;
};

std::vector<PoolAxis> pool_axes(const Graph& graph, const Node& node) {
  const auto &kernel = node.attrs.ints("kernel"), &strides = node.attrs.ints("strides"),
             &pads = node.attrs.ints("pads"), &dilations = node.attrs.ints("dilations");
  const Shape &in = graph.type(node.inputs[0]).shape, &out = graph.type(node.output).shape;
  std::vector<PoolAxis> axes;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::size_t axis = i + (node.attrs.s("layout") == "last" ? 1 : 2);
    axes.push_back(
        {{in[axis], out[axis], kernel[i], strides[i], dilations[i], pads[i], pads[i + kernel.size()]}, axis});
  }
  return axes;
}

// Whether the window has few positions, over known extents.
bool is_few(const std::vector<PoolAxis>& axes) {
  int64_t places = 1;
  bool known = true;
  for (const PoolAxis& a : axes) {
    known = known && a.is_known();
    places = a.kernel > kMaxTaps ? a.kernel : places * a.kernel;
    if (places > kMaxTaps) return false;
  }
  return known;
}

class Pool : Expansion {
 public:
  Pool(Graph& graph, const Node& node)
      : Expansion(graph, node),
        dtype_(type(in(0)).dtype),
        compute_(is_max() ? dtype_ : compute_type(dtype_)),
        axes_(pool_axes(graph, node)) {}

  ValueId build() {
    const ValueId result = is_few(axes_) ? over_taps() : over_axes();
    return is_max() ? result : cast(node(ScalarOp::div, {result, places()}), dtype_);
  }

 private:
  bool is_max() const { return node_.op == TensorOp::max_pool; }
  ScalarOp combiner() const { return is_max() ? ScalarOp::max : ScalarOp::add; }

  // The value of padding elements, which do not contribute to the result.
  ValueId neutral(DType dtype) {
    if (!is_max() || is_unsigned_int(dtype)) return number(dtype, 0);
    if (is_float(dtype)) return number(dtype, -std::numeric_limits<double>::infinity());
    return number(dtype, -std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 1));
  }

  ValueId over_taps() {
    const ValueId padding = neutral(dtype_);
    const auto& kernel = node_.attrs.ints("kernel");
    std::vector<int64_t> tap(kernel.size(), 0);
    std::optional<ValueId> all;
    do {
      const std::optional<ValueId> moved = moved_by_tap(graph_, node_, tap, padding);
      if (moved) all = all ? node(combiner(), {*all, cast(*moved, compute_)}) : cast(*moved, compute_);
    } while (advance(tap, kernel));
    return all ? *all : node(TensorOp::broadcast, {neutral(compute_)}, {{"shape", type(node_.output).shape}});
  }

  // Advances to the next tap in row-major order; returns false after the last.
  static bool advance(std::vector<int64_t>& tap, const std::vector<int64_t>& kernel) {
    std::size_t i = tap.size();
    for (; i > 0 && ++tap[i - 1] == kernel[i - 1]; --i) tap[i - 1] = 0;
    return i > 0;
  }

  ValueId over_axes() {
    ValueId v = in(0);
    for (const PoolAxis& a : axes_) v = combined(v, a);
    return v;
  }

  // Combines the windows of v along one axis.
  ValueId combined(ValueId v, const PoolAxis& a) {
    v = windows(v, a.axis, a, neutral(type(v).dtype));
    return reduce(is_max() ? TensorOp::reduce_max : TensorOp::reduce_sum, cast(v, compute_), a.axis + 1);
  }

  // The number of positions of each window that count: at least 1, so that a window of padding alone yields 0.
  ValueId places() {
    ValueId all = number(compute_, 1);
    for (const PoolAxis& a : axes_) all = node(ScalarOp::mul, {all, places_along(a)});
    return node(ScalarOp::max, {all, number(compute_, 1)});
  }

  // The number of positions that count along one axis. Only in ceil_mode do windows reach past the padding.
  ValueId places_along(PoolAxis a) {
    const bool with_padding = node_.attrs.i("count_include_pad") == 1, padded = a.before + a.after > 0;
    if (node_.attrs.i("ceil_mode") == 0 && (with_padding || !padded))
      return number(compute_, static_cast<double>(a.kernel));
    if (with_padding) {
      a.in = a.before + a.in + a.after;
      a.before = 0;
    }
    const Shape line = with(Shape(type(in(0)).shape.size(), 1), a.axis, a.in);
    return combined(node(TensorOp::broadcast, {number(compute_, 1)}, {{"shape", line}}), a);
  }

  const DType dtype_, compute_;
  const std::vector<PoolAxis> axes_;
};

// Whether the library takes a multiple of the time of the generated code.
bool is_slow(const ir::LibraryCapabilities& library, const Graph& graph, const Node& pool) {
  return library.pool.is_slow_average && pool.op == TensorOp::avg_pool && pool.attrs.s("layout") == "last" &&
         is_few(pool_axes(graph, pool));
}

// Whether a library of the target may be asked for the pool and computes it.
bool is_computed(const Graph& graph, const Node& pool, const PassContext& context) {
  return is_computed_by_library(context, [&](const ir::LibraryCapabilities& library) {
    return !is_slow(library, graph, pool) && !library_lacks(library, graph, pool);
  });
}

}  // namespace

std::optional<std::string> library_lacks(const ir::LibraryCapabilities& library, const Graph& graph, const Node& pool) {
  const ir::Type& type = graph.type(pool.inputs[0]);
  if (auto reason = unsupported_reason(library, pool.op.tensor(), compute_type(type.dtype))) return reason;
  if (type.rank() - 2 > library.pool.max_spatial_axes) return "too many spatial axes";
  const bool counts_padding = pool.op == TensorOp::avg_pool && pool.attrs.i("count_include_pad") == 1;
  for (const PoolAxis& a : pool_axes(graph, pool)) {
    if (const char* reason = unsupported_reason(library.pool, a, counts_padding, pool.attrs.i("ceil_mode") == 1))
      return reason;
  }
  return std::nullopt;
}

Result<bool> expand_pools(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!is_pool(node) || is_small_window(graph, node) || is_computed(graph, node, context)) return;
    rewriter.replace(node.output, Pool(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
