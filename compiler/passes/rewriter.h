// SPDX-License-Identifier: Apache-2.0
// What passes are written with. Rewriter walks a graph forward while replacing values, in linear time, which replacing
// all uses of each value would not take. Expansion helps to replace a composite node by several; taps are the elements
// that one position of every sliding window reads; algebraic rules are lines such as "a*1 -> a" in the language of the
// op table's definitions.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"
#include "ir/ops/op.h"

namespace fusec::compiler {

class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  // Visits the nodes in order, with their operands already replaced. A visit may add nodes.
  void walk(const std::function<void(ir::NodeId)>& visit) {
    const std::vector<ir::NodeId> order = graph_.order;
    for (ir::NodeId id : order) {
      for (ir::ValueId& v : graph_.nodes[id].inputs) v = now(v);
      visit(id);
    }
    for (ir::ValueId& v : graph_.outputs) v = now(v);
  }
  void replace(ir::ValueId from, ir::ValueId to) {
    if (from == to) return;
    map_[from] = to;
    changed_ = true;
  }
  ir::ValueId now(ir::ValueId v) const {
    for (auto it = map_.find(v); it != map_.end(); it = map_.find(v)) v = it->second;
    return v;
  }
  bool changed() const { return changed_; }

 private:
  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> map_;
  bool changed_ = false;
};

// Counts the uses of every value by nodes in order and by the graph's outputs.
ir::IdVector<ir::ValueId, int> use_counts(const ir::Graph& graph);

// Whether all users of the value, by way of a few index maps and scalar ops, are attentions.
bool leads_to_attention(const ir::Graph& graph, const ir::IdVector<ir::ValueId, std::vector<ir::NodeId>>& users,
                        ir::ValueId value);

// a / b, rounded down, for b > 0.
inline int64_t floordiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

class Expansion {
 public:
  using ValueId = ir::ValueId;
  using ScalarOp = ir::ScalarOp;
  using TensorOp = ir::TensorOp;

  Expansion(ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

 protected:
  const ir::Type& type(ValueId v) const { return graph_.type(v); }
  ValueId in(std::size_t i) const { return node_.inputs[i]; }
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return add_node(graph_, op, std::move(inputs), std::move(attrs), node_.origin);
  }
  ValueId number(DType dtype, double value) { return add_scalar_constant(graph_, dtype, value); }
  ValueId cast(ValueId v, DType to) { return type(v).dtype == to ? v : node(ScalarOp::cast, {v}, {{"to", to}}); }
  ValueId reshape(ValueId v, const Shape& shape) {
    return type(v).shape == shape ? v : node(TensorOp::reshape, {v}, {{"shape", shape}});
  }
  // Appends axes of extent 1 to v until it has this rank.
  ValueId aligned(ValueId v, std::size_t rank) {
    Shape shape = type(v).shape;
    shape.resize(rank, Dim(1));
    return reshape(v, shape);
  }
  ValueId reduce(TensorOp op, ValueId v, std::size_t axis) {
    return node(op, {v}, {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}});
  }
  // Emits 0, 1, ... along one axis of a tensor of this rank; the other axes have extent 1.
  ValueId count(std::size_t rank, std::size_t axis, const Dim& extent, DType dtype) {
    Shape shape(rank, Dim(1));
    shape[axis] = extent;
    return node(TensorOp::iota, {}, {{"shape", shape}, {"axis", static_cast<int64_t>(axis)}, {"dtype", dtype}});
  }
  // The elements that sliding windows along one axis of v read: an axis of windows, then one of places of a window.
  // What lies in the padding is `padding`, a scalar.
  ValueId windows(ValueId v, std::size_t axis, const ir::PoolAxis& window, ValueId padding);
  // The least (greatest) value of an integer dtype, minus (plus) infinity of a float dtype.
  ValueId least_or_greatest(DType dtype, bool greatest);
  // An extent as a number of the dtype of v.
  ValueId bound(ValueId v, const Dim& extent) {
    const DType dtype = type(v).dtype;
    if (extent.is_const()) return number(dtype, static_cast<double>(extent.value()));
    return node(TensorOp::dim, {}, {{"value", Shape{extent}}, {"dtype", dtype}});
  }
  // The integer type for counts up to `bound`: i32 if the bound is known to fit, else i64.
  static DType counter(const Dim& bound) {
    return bound.is_const() && bound.value() < std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;
  }
  static Shape with(Shape shape, std::size_t axis, const Dim& extent) {
    shape[axis] = extent;
    return shape;
  }
  static Shape inserted(Shape shape, std::size_t axis, const Dim& extent) {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), extent);
    return shape;
  }

  ir::Graph& graph_;
  const ir::Node node_;
};

constexpr int64_t kMaxTaps = 49;            // 7 x 7: the largest window of a pool that passes unroll
constexpr int64_t kMaxDepthwiseTaps = 121;  // 11 x 11: of a depthwise convolution, whose rows become a loop

// Emits, for each result of `window`, the element of its first operand that lies at `tap` of the result's window: a
// slice, padded with the scalar `padding` where windows leave the image. `window` is a conv or pool whose spatial
// extents are known. Returns nullopt if the tap lies outside the image for all results.
std::optional<ir::ValueId> moved_by_tap(ir::Graph& graph, const ir::Node& window, const std::vector<int64_t>& tap,
                                        ir::ValueId padding);

struct Rule {
  ir::DefNode from, to;
};
Rule parse_rule(std::string_view text);

// The exact rules of apply_rules: both sides have equal bits for every operand, NaN and signed zeros included.
const std::vector<Rule>& exact_rules();
// Powers whose right side is within the error bound that the op table grants `pow`, of any dtype and of floats: a cube
// is rounded twice, while pow may be off by four units in the last place. sqrt differs from a power at -0 and
// -infinity.
const std::vector<Rule>& power_rules();
const std::vector<Rule>& float_power_rules();
// Forms of gelu by tanh and of gelu by erf, which are the ops but for rounding.
const std::vector<Rule>& gelu_rules();
const std::vector<Rule>& erf_gelu_rules();

// The values bound to the operands a, b, c of a rule.
using Binding = std::array<std::optional<ir::ValueId>, 3>;

// Applies the first rule that matches at each node. Inner results of a match must have no other user. A rewrite that
// would change the type is skipped. Returns true if something changed.
bool apply_rule_set(ir::Graph& graph, const std::vector<Rule>& rules,
                    const std::function<bool(const ir::Graph&, const Binding&)>& allowed);

}  // namespace fusec::compiler
