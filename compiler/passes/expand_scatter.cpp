// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes scatter_elements and scatter_nd into pull form. Every element of the result finds the
// updates that apply to it, so that no kernel writes to computed positions.
//
//   none  last[p] = greatest q whose index is p, or -1;  y[p] = last[p] < 0 ? x[p] : updates[last[p]]
//   add   y[p] = x[p] + sum over q of (index[q] == p ? updates[q] : 0);  mul, max, min likewise
//
// m updates over n positions take n * m comparisons. scatter_elements compares within each line; scatter_nd compares
// all positions of the indexed axes together, and for reductions other than none repeats this for each element of the
// remaining axes. No value of that size is stored. If the indices are constants and the reduction is none, `last` is a
// constant and the scatter becomes a gather.
//
// Indices first pass through a gather from a table of positions, in a kernel of its own. It counts negative indices
// from the end, and makes a run invalid if an index is out of range. Half floats are combined in f32 and rounded once.
// A -0 to which nothing is added becomes +0.

#include <cmath>
#include <optional>
#include <string>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

// The common form of both scatters. target [..., m, ...] holds the position in 0 ... n-1, along `axis` of x [..., n,
// ..., rest...], to which each line of the updates [..., m, ..., rest...] goes. The other axes of target may be shorter
// than those of x.
struct Lines {
  ValueId x, target, updates;
  std::size_t axis;
};

class Scatter : Expansion {
 public:
  using Expansion::Expansion;
  ValueId build() { return node_.op == TensorOp::scatter_nd ? scatter_nd() : scatter_elements(); }

 private:
  ValueId places(ValueId indices, const Dim& extent, const Dim& stride, DType dtype);
  ValueId stored(ValueId v);
  ValueId scatter_elements();
  ValueId scatter_nd();
  ValueId scattered(const Lines& s);
  ValueId hits(const Lines& s);
  ValueId grown(ValueId v, const Lines& s, ValueId fill);
  ValueId last_update(const Lines& s, int64_t first);
  std::optional<ValueId> known_last_update(const Lines& s);
  ValueId replaced(const Lines& s);
  ValueId min_max(DType dtype, bool greatest);
  ValueId combined(const Lines& s);
};

// Emits indices times `stride`, counted from the start of the axis and checked.
ValueId Scatter::places(ValueId indices, const Dim& extent, const Dim& stride, DType dtype) {
  ValueId table = count(1, 0, extent, dtype);
  if (!stride.is(1)) {
    const ValueId step = stride.is_const() ? number(dtype, static_cast<double>(stride.value()))
                                           : node(TensorOp::dim, {}, {{"value", Shape{stride}}, {"dtype", dtype}});
    table = node(ScalarOp::mul, {table, step});
  }
  return node(TensorOp::gather, {table, indices}, {{"axis", int64_t{0}}});
}

// Emits v through a reduction over an axis of extent 1, which is a kernel of its own, so that the index check is not
// repeated for every pair.
ValueId Scatter::stored(ValueId v) {
  const std::size_t rank = type(v).shape.size();
  return reduce(TensorOp::reduce_sum, aligned(v, rank + 1), rank);
}

ValueId Scatter::scatter_elements() {
  const auto axis = static_cast<std::size_t>(node_.attrs.i("axis"));
  const Dim extent = type(in(0)).shape[axis];
  return scattered({in(0), stored(places(in(1), extent, 1, counter(extent))), in(2), axis});
}

// Merges the indexed axes into one and computes the row-major positions of the updates in it.
ValueId Scatter::scatter_nd() {
  const Shape x = type(in(0)).shape, index = type(in(1)).shape;
  const auto depth = static_cast<std::size_t>(index.back().value());
  const Shape indexed(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(depth));
  Shape rest(x.begin() + static_cast<std::ptrdiff_t>(depth), x.end()), lines = rest;
  const Dim total = num_elements(indexed), updates = num_elements({index.begin(), index.end() - 1});
  const Shape strides = contiguous_strides(indexed);
  const ValueId rows = reshape(in(1), {updates, static_cast<int64_t>(depth)});
  std::optional<ValueId> target;
  for (std::size_t i = 0; i < depth; ++i) {
    const ValueId column = node(TensorOp::slice, {rows},
                                {{"starts", Shape{0, static_cast<int64_t>(i)}},
                                 {"sizes", Shape{updates, 1}},
                                 {"steps", std::vector<int64_t>{1, 1}}});
    const ValueId offset = places(reshape(column, {updates}), x[i], strides[i], counter(total));
    target = target ? node(ScalarOp::add, {*target, offset}) : offset;
  }
  rest.insert(rest.begin(), total);
  lines.insert(lines.begin(), updates);
  return reshape(scattered({reshape(in(0), rest), stored(*target), reshape(in(2), lines), 0}), x);
}

ValueId Scatter::scattered(const Lines& s) {
  if (type(s.target).shape[s.axis].is(0)) return s.x;
  return node_.attrs.s("reduction") == "none" ? replaced(s) : combined(s);
}

// Whether update q goes to position p: [..., p, q, ...].
ValueId Scatter::hits(const Lines& s) {
  const Shape target = type(s.target).shape;
  return node(ScalarOp::eq, {reshape(s.target, inserted(target, s.axis, 1)),
                             count(target.size() + 1, s.axis, type(s.x).shape[s.axis], type(s.target).dtype)});
}

// Extends v, which covers the lines of the updates, to the shape of x with `fill`.
ValueId Scatter::grown(ValueId v, const Lines& s, ValueId fill) {
  const Shape from = type(v).shape, to = type(s.x).shape;
  if (from == to) return v;
  Shape after;
  for (std::size_t i = 0; i < to.size(); ++i) after.push_back(to[i] - from[i]);
  return node(TensorOp::pad, {v, fill},
              {{"before", Shape(to.size(), Dim(0))}, {"after", after}, {"mode", std::string("constant")}});
}

// The number of the last update of each position, counted from `first`; first - 1 where there is none.
ValueId Scatter::last_update(const Lines& s, int64_t first) {
  const Dim updates = type(s.target).shape[s.axis];
  const DType dtype = counter(updates);
  ValueId order = count(type(s.target).shape.size() + 1, s.axis + 1, updates, dtype);
  if (first != 0) order = node(ScalarOp::add, {order, number(dtype, static_cast<double>(first))});
  const ValueId none = number(dtype, static_cast<double>(first - 1));
  return reduce(TensorOp::reduce_max, node(ScalarOp::where, {hits(s), order, none}), s.axis + 1);
}

// The same, counted from 0, as a constant: a scatter of 0, 1, ... over -1. Returns nullopt if the indices are not known
// or the constant would be too large.
std::optional<ValueId> Scatter::known_last_update(const Lines& s) {
  constexpr int64_t kMax = int64_t{1} << 22;  // elements of the constant: at most 32 MiB
  const Tensor* indices = graph_.constant(in(1));
  const Shape target = type(s.target).shape;
  const Shape result = with(target, s.axis, type(s.x).shape[s.axis]);
  if (indices == nullptr || !is_const(result) || num_elements(result).value() > kMax) return std::nullopt;
  const bool nd = node_.op == TensorOp::scatter_nd;
  const Shape x = type(in(0)).shape, index = type(in(1)).shape;
  const Shape lines = nd ? Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(index.back().value())) : result;
  const Shape numbers = nd ? Shape(index.begin(), index.end() - 1) : target;
  Graph g;
  const ValueId none = add_node(g, TensorOp::broadcast, {add_scalar_constant(g, DType::i64, -1)}, {{"shape", lines}});
  const ValueId order = add_node(g, TensorOp::iota, {},
                                 {{"shape", target}, {"axis", static_cast<int64_t>(s.axis)}, {"dtype", DType::i64}});
  const ValueId last = add_node(
      g, node_.op, {none, add_constant(g, *indices), add_node(g, TensorOp::reshape, {order}, {{"shape", numbers}})},
      node_.attrs);
  add_output(g, add_node(g, TensorOp::reshape, {last}, {{"shape", result}}), "last");
  Result<std::vector<Tensor>> value = ir::evaluate(g, {});
  if (!value.ok()) return std::nullopt;  // an index is out of range; the run reports it
  return add_constant(graph_, std::move((*value)[0]), node_.origin);
}

ValueId Scatter::replaced(const Lines& s) {
  std::optional<ValueId> last = known_last_update(s);
  // A gather needs at least one element. If there may be no updates, a line of zeros is put before them.
  const bool may_be_empty = !type(s.target).shape[s.axis].is_const();
  const int64_t first = may_be_empty ? 1 : 0;
  ValueId updates = s.updates;
  if (may_be_empty) {
    const ValueId zeros =
        node(TensorOp::broadcast, {number(type(updates).dtype, 0)}, {{"shape", with(type(updates).shape, s.axis, 1)}});
    updates = node(TensorOp::concat, {zeros, updates}, {{"axis", static_cast<int64_t>(s.axis)}});
  }
  if (!last) last = last_update(s, first);
  const DType dtype = type(*last).dtype;
  const ValueId is_hit = node(ScalarOp::ge, {*last, number(dtype, static_cast<double>(first))});
  const ValueId from = node(ScalarOp::max, {*last, number(dtype, 0)});
  const bool nd = node_.op == TensorOp::scatter_nd;
  const ValueId value = node(nd ? TensorOp::gather : TensorOp::gather_elements, {updates, from},
                             {{"axis", static_cast<int64_t>(s.axis)}});
  const ValueId hit = nd ? aligned(is_hit, type(s.x).shape.size()) : grown(is_hit, s, number(DType::bool_, 0));
  return node(ScalarOp::where, {hit, grown(value, s, number(type(value).dtype, 0)), s.x});
}

// The min (max) of an integer dtype, or minus (plus) infinity of a float dtype.
ValueId Scatter::min_max(DType dtype, bool greatest) {
  if (is_float(dtype)) return number(dtype, greatest ? HUGE_VAL : -HUGE_VAL);
  const auto bits = 8 * size_of(dtype);
  Tensor value = *Tensor::make(dtype, {});
  int64_t end = greatest ? -1 : 0;  // unsigned: all ones
  if (is_signed_int(dtype)) {
    const int64_t half = int64_t{1} << (bits - 2);  // in two halves, which do not overflow 64 bits
    end = greatest ? half - 1 + half : -half - half;
  }
  ir::store_int(dtype, value.data(), end);
  return add_constant(graph_, std::move(value), node_.origin);
}

// For bools, add and max act as `or`, mul and min as `and`.
ValueId Scatter::combined(const Lines& s) {
  const DType dtype = type(s.x).dtype, compute = dtype == DType::bool_ ? DType::u8 : compute_type(dtype);
  std::string reduction = node_.attrs.s("reduction");
  if (dtype == DType::bool_) reduction = reduction == "add" ? "max" : reduction == "mul" ? "min" : reduction;
  const ValueId hit = hits(s), x = cast(s.x, compute), updates = cast(s.updates, compute);
  const auto fold = [&](ScalarOp op, TensorOp all, ValueId nothing) {
    const ValueId line = reshape(updates, inserted(type(updates).shape, s.axis, 1));
    const ValueId chosen = node(ScalarOp::where, {aligned(hit, type(line).shape.size()), line, nothing});
    return cast(node(op, {x, grown(reduce(all, chosen, s.axis + 1), s, nothing)}), dtype);
  };
  if (reduction == "add") return fold(ScalarOp::add, TensorOp::reduce_sum, number(compute, 0));
  if (reduction == "mul") return fold(ScalarOp::mul, TensorOp::reduce_prod, number(compute, 1));
  if (reduction == "max") return fold(ScalarOp::max, TensorOp::reduce_max, min_max(compute, false));
  return fold(ScalarOp::min, TensorOp::reduce_min, min_max(compute, true));
}

}  // namespace

Result<bool> expand_scatter(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!(node.op == TensorOp::scatter_elements) && !(node.op == TensorOp::scatter_nd)) return;
    rewriter.replace(node.output, Scatter(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
