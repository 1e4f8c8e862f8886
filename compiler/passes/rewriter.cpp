// SPDX-License-Identifier: Apache-2.0
// Helpers for passes of the optimize stage: counts the uses of values, for passes that may rewrite only values with a
// single use, makes the ends of a dtype's range, and emits what sliding windows read: the elements of one tap, as a
// slice and a pad, or whole windows along an axis.

#include "compiler/passes/rewriter.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/ops/cast.h"

namespace fusec::compiler {

bool leads_to_attention(const ir::Graph& graph, const ir::IdVector<ir::ValueId, std::vector<ir::NodeId>>& users,
                        ir::ValueId value) {
  constexpr std::size_t kMaxValues = 64;
  std::vector<ir::ValueId> found{value};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const std::vector<ir::NodeId>& readers = users[found[next]];
    if (readers.empty() || found.size() > kMaxValues) return false;
    for (const ir::NodeId id : readers) {
      const ir::Node& user = graph.nodes[id];
      if (user.op == ir::TensorOp::attention) continue;
      if (!user.op.is_scalar() && !is_kind(user.op, ir::OpPattern::index_map)) return false;
      if (std::find(found.begin(), found.end(), user.output) == found.end()) found.push_back(user.output);
    }
  }
  return true;
}

ir::IdVector<ir::ValueId, int> use_counts(const ir::Graph& graph) {
  ir::IdVector<ir::ValueId, int> counts(graph.values.size(), 0);
  for (ir::NodeId id : graph.order)
    for (ir::ValueId v : graph.nodes[id].inputs) ++counts[v];
  for (ir::ValueId v : graph.outputs) ++counts[v];
  return counts;
}

using ir::TensorOp;
using ir::ValueId;

ValueId Expansion::windows(ValueId v, std::size_t axis, const ir::PoolAxis& a, ValueId padding) {
  const Dim after = max((a.out - 1) * a.stride + a.dilated_extent() - (a.before + a.in), 0);
  if (!Dim(a.before).is(0) || !after.is(0)) {
    const Shape none(type(v).shape.size(), 0);
    v = node(TensorOp::pad, {v, padding},
             {{"before", with(none, axis, a.before)},
              {"after", with(none, axis, after)},
              {"mode", std::string("constant")}});
  }
  return node(TensorOp::unfold, {v},
              {{"axis", static_cast<int64_t>(axis)},
               {"sizes", Shape{a.out, Dim(a.kernel)}},
               {"steps", std::vector<int64_t>{a.stride, a.dilation}}});
}

ValueId Expansion::least_or_greatest(DType dtype, bool greatest) {
  if (is_float(dtype)) return number(dtype, greatest ? HUGE_VAL : -HUGE_VAL);
  Tensor value = *Tensor::make(dtype, {});
  int64_t end = greatest ? -1 : 0;  // unsigned: all ones
  if (is_signed_int(dtype)) {
    const int64_t half = int64_t{1} << (8 * size_of(dtype) - 2);  // in two halves, which do not overflow 64 bits
    end = greatest ? half - 1 + half : -half - half;
  }
  ir::store_int(dtype, value.data(), end);
  return add_constant(graph_, std::move(value), node_.origin);
}

namespace {

// What one tap reads along one spatial axis: results first .. first + count - 1 read the elements start, start + step,
// ...; other results read padding.
struct TapRange {
  int64_t first = 0, count = 0, start = 0, step = 1;
};

TapRange tap_range(int64_t in, int64_t out, int64_t step, int64_t shift) {
  TapRange r;
  r.step = step;
  r.first = shift < 0 ? (-shift + step - 1) / step : 0;
  const int64_t last = in - 1 - shift < 0 ? -1 : std::min(out - 1, (in - 1 - shift) / step);
  r.count = std::max<int64_t>(0, last - r.first + 1);
  r.start = r.first * step + shift;
  return r;
}

}  // namespace

std::optional<ValueId> moved_by_tap(ir::Graph& graph, const ir::Node& window, const std::vector<int64_t>& tap,
                                    ValueId padding) {
  const ValueId x = window.inputs[0];
  const Shape in = graph.type(x).shape, out = graph.type(window.output).shape;
  const auto &strides = window.attrs.ints("strides"), &pads = window.attrs.ints("pads"),
             &dilations = window.attrs.ints("dilations");
  const std::size_t first = window.attrs.s("layout") == "last" ? 1 : 2;
  Shape starts(in.size(), 0), sizes = in, before(in.size(), 0), after(in.size(), 0);
  std::vector<int64_t> steps(in.size(), 1);
  bool padded = false;
  for (std::size_t i = 0; i < tap.size(); ++i) {
    const std::size_t axis = first + i;
    const int64_t count = out[axis].value();
    const TapRange r = tap_range(in[axis].value(), count, strides[i], tap[i] * dilations[i] - pads[i]);
    if (r.count == 0) return std::nullopt;
    starts[axis] = r.start;
    sizes[axis] = r.count;
    steps[axis] = r.step;
    before[axis] = r.first;
    after[axis] = count - r.first - r.count;
    padded = padded || r.count < count;
  }
  const ir::Attrs places{{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
  const ValueId moved = add_node(graph, TensorOp::slice, {x}, places, window.origin);
  if (!padded) return moved;
  const ir::Attrs ends{{"before", before}, {"after", after}, {"mode", std::string("constant")}};
  return add_node(graph, TensorOp::pad, {moved, padding}, ends, window.origin);
}

}  // namespace fusec::compiler
