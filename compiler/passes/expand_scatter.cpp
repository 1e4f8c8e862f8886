// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes scatter_elements and scatter_nd into pull form. Every element of the result finds the
// updates that apply to it, so that no kernel writes to computed positions.
//
//   none  last[p] = greatest q whose index is p, or -1;  y[p] = last[p] < 0 ? x[p] : updates[last[p]]
//   add   y[p] = x[p] + sum over q of (index[q] == p ? updates[q] : 0);  mul, max, min likewise
//
// m updates over n positions take n * m comparisons. scatter_elements compares within each line; scatter_nd compares
// all positions of the indexed axes together, and for reductions other than none repeats this for each element of the
// remaining axes. No value of that size is stored. If the indices are constants, so is `last`, and the scatter becomes
// a gather, or a few for other reductions if their order does not matter.
//
// Where m is known and n * m is large, the updates are sorted by their positions (by topk, which keeps the order of
// equal ones), so that those of a position are neighbours, and each position searches for its last one in log2(m)
// steps:
//
//   after[p] = number of updates whose index is p or less;  last[p] = after[p] - 1, if its index is p
//
// For other reductions each update first takes in those before it that have the same index, 1, 2, 4, ... places ahead:
// log2(m) kernels, whose order of additions depends on the number of updates of the position alone.
//
// Indices first pass through a gather from a table of positions, in a kernel of its own. It counts negative indices
// from the end, and makes a run invalid if an index is out of range. Half floats are combined in f32 and rounded once.
// A -0 to which nothing is added becomes +0.

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

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

// y = op(x, all of the updates), or op(x, nothing).
struct Combination {
  ValueId x, updates;
  ScalarOp op = ScalarOp::add;
  TensorOp all = TensorOp::reduce_sum;
  ValueId nothing = {};
};

// The updates by position: their numbers and positions in that order, and for each position whether it has updates, and
// where the last one is.
struct Sorted {
  ValueId order, target, hit, last;
};

constexpr int64_t kMaxKnown = int64_t{1} << 22;  // elements of the constants that tell updates by position
constexpr std::size_t kMaxRounds = 8;            // updates of one position
// Fewer comparisons take less time than it takes to sort the updates.
constexpr double kMinCompared = 1 << 24;

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
  std::optional<std::vector<int64_t>> known_positions();
  std::optional<std::vector<ValueId>> known_rounds(const Lines& s);
  std::optional<ValueId> known_combination(const Lines& s, const Combination& c);
  bool sorts(const Lines& s) const;
  Sorted sort(const Lines& s);
  ValueId along(const Lines& s, ValueId v, ValueId at);
  ValueId shifted(ValueId v, std::size_t axis, int64_t by, ValueId fill);
  ValueId combine_sorted(const Lines& s, const Combination& c);
  ValueId combine(const Lines& s, const Combination& c);
  ValueId combined(const Lines& s);
};

// Emits indices times `stride`, counted from the start of the axis and checked.
ValueId Scatter::places(ValueId indices, const Dim& extent, const Dim& stride, DType dtype) {
  ValueId table = count(1, 0, extent, dtype);
  if (!stride.is(1)) table = node(ScalarOp::mul, {table, bound(table, stride)});
  return node(TensorOp::gather, {table, indices}, {{"axis", int64_t{0}}});
}

// Emits v through a reduction over an axis of extent 1, which is a kernel of its own, so that the index check, or the
// combination, is not repeated for every use.
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
  const Tensor* indices = graph_.constant(in(1));
  const Shape target = type(s.target).shape;
  const Shape result = with(target, s.axis, type(s.x).shape[s.axis]);
  if (indices == nullptr || !is_const(result) || num_elements(result).value() > kMaxKnown) return std::nullopt;
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

// Extents that are symbols count as 1.
bool Scatter::sorts(const Lines& s) const {
  if (!type(s.target).shape[s.axis].is_const()) return false;
  const bool repeats = node_.attrs.s("reduction") != "none";
  Shape compared = type(repeats ? s.updates : s.target).shape;
  compared.push_back(type(s.x).shape[s.axis]);
  double count = 1;
  for (const Dim& extent : compared) count *= extent.is_const() ? static_cast<double>(extent.value()) : 1;
  return count >= kMinCompared;
}

// The elements at the given places of the lines of v.
ValueId Scatter::along(const Lines& s, ValueId v, ValueId at) {
  const Shape shape = with(type(v).shape, s.axis, type(at).shape[s.axis]);
  if (!(type(at).shape == shape)) at = node(TensorOp::broadcast, {at}, {{"shape", shape}});
  return node(TensorOp::gather_elements, {v, at}, {{"axis", static_cast<int64_t>(s.axis)}});
}

Sorted Scatter::sort(const Lines& s) {
  const DType dtype = type(s.target).dtype;
  const std::size_t rank = type(s.target).shape.size();
  const int64_t m = type(s.target).shape[s.axis].value();
  const auto whole = [&](int64_t value) { return number(dtype, static_cast<double>(value)); };
  Sorted sorted;
  sorted.order = stored(node(TensorOp::topk, {s.target},
                             {{"axis", static_cast<int64_t>(s.axis)}, {"k", Shape{m}}, {"largest", int64_t{0}}}));
  sorted.target = stored(along(s, s.target, sorted.order));
  const ValueId place = count(rank, s.axis, type(s.x).shape[s.axis], dtype);
  ValueId after = node(ScalarOp::mul, {place, whole(0)});
  for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(m))); step > 0; step /= 2) {
    const ValueId next = node(ScalarOp::add, {after, whole(step)});
    const ValueId at = node(ScalarOp::min, {node(ScalarOp::sub, {next, whole(1)}), whole(m - 1)});
    const ValueId is_less = node(ScalarOp::le, {along(s, sorted.target, node(ScalarOp::max, {at, whole(0)})), place});
    const ValueId fits = node(ScalarOp::le, {next, whole(m)});
    after = node(ScalarOp::where, {node(ScalarOp::and_, {fits, is_less}), next, after});
  }
  const ValueId least = node(ScalarOp::max, {node(ScalarOp::sub, {after, whole(1)}), whole(0)});
  sorted.last = node(ScalarOp::min, {least, whole(m - 1)});
  sorted.hit = node(ScalarOp::eq, {along(s, sorted.target, sorted.last), place});
  return sorted;
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
  if (!last && sorts(s)) {
    const Sorted sorted = sort(s);
    const ValueId number_of = along(s, sorted.order, sorted.last);
    last = node(ScalarOp::where, {sorted.hit, number_of, number(type(number_of).dtype, -1)});
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

// The position of each update within its line where the indices are constants, none of them out of range.
std::optional<std::vector<int64_t>> Scatter::known_positions() {
  const Tensor* indices = graph_.constant(in(1));
  const Shape x = type(in(0)).shape;
  if (indices == nullptr || !indices->is_contiguous()) return std::nullopt;
  const bool nd = node_.op == TensorOp::scatter_nd;
  const std::size_t axis = nd ? 0 : static_cast<std::size_t>(node_.attrs.i("axis"));
  const int64_t depth = nd ? type(in(1)).shape.back().value() : 1;
  std::vector<int64_t> positions(static_cast<std::size_t>(depth == 0 ? 0 : indices->num_elements() / depth));
  const auto bytes = static_cast<int64_t>(size_of(indices->dtype()));
  for (int64_t i = 0; i < indices->num_elements(); ++i) {
    const Dim& extent = x[axis + static_cast<std::size_t>(i % depth)];
    if (!extent.is_const()) return std::nullopt;
    int64_t at = ir::load_int(indices->dtype(), indices->as<char>() + i * bytes);
    if (at < 0) at += extent.value();
    if (at < 0 || at >= extent.value()) return std::nullopt;  // the run reports it
    int64_t& position = positions[static_cast<std::size_t>(i / depth)];
    position = position * extent.value() + at;
  }
  return positions;
}

// Constants that tell, for each position, the number of its first update, of its second, and so on; -1 where it has
// none. Returns nullopt if they are not known, or are too many or too large.
std::optional<std::vector<ValueId>> Scatter::known_rounds(const Lines& s) {
  const auto positions = known_positions();
  const Shape target = type(s.target).shape;
  if (!positions || positions->empty()) return std::nullopt;
  const int64_t n = type(s.x).shape[s.axis].value(), m = target[s.axis].value();
  const auto from = target.begin() + static_cast<std::ptrdiff_t>(s.axis);
  const int64_t inner = num_elements({from + 1, target.end()}).value();
  const int64_t elements = static_cast<int64_t>(positions->size()) / m * n;
  std::vector<Tensor> rounds;
  for (std::size_t i = 0; i < positions->size(); ++i) {
    const auto at = static_cast<int64_t>(i), line = at / (m * inner), update = at / inner % m;
    const int64_t place = (line * n + (*positions)[i]) * inner + at % inner;
    std::size_t round = 0;
    while (round < rounds.size() && rounds[round].as<int32_t>()[place] >= 0) ++round;
    if (round == rounds.size()) {
      if (round == kMaxRounds || elements > kMaxKnown / static_cast<int64_t>(round + 1)) return std::nullopt;
      rounds.push_back(*Tensor::make(DType::i32, {elements}));
      std::fill_n(rounds.back().as<int32_t>(), elements, -1);
    }
    rounds[round].as<int32_t>()[place] = static_cast<int32_t>(update);
  }
  std::vector<ValueId> values;
  for (Tensor& round : rounds)
    values.push_back(reshape(add_constant(graph_, std::move(round), node_.origin), with(target, s.axis, n)));
  return values;
}

// Each position takes its own updates, one after the other, where the indices are known and the order does not matter:
// there is one update at most, or the combination gives the same bits in any order.
std::optional<ValueId> Scatter::known_combination(const Lines& s, const Combination& c) {
  const bool any_order = c.op == ScalarOp::max || c.op == ScalarOp::min || !is_float(type(c.updates).dtype);
  const auto rounds = known_rounds(s);
  if (!rounds || (rounds->size() > 1 && !any_order)) return std::nullopt;
  const bool nd = node_.op == TensorOp::scatter_nd;
  ValueId y = c.x;
  for (const ValueId round : *rounds) {
    const ValueId from = node(ScalarOp::max, {round, number(DType::i32, 0)});
    const ValueId value = node(nd ? TensorOp::gather : TensorOp::gather_elements, {c.updates, from},
                               {{"axis", static_cast<int64_t>(s.axis)}});
    const ValueId hit = aligned(node(ScalarOp::ge, {round, number(DType::i32, 0)}), type(value).shape.size());
    y = node(c.op, {y, grown(node(ScalarOp::where, {hit, value, c.nothing}), s, c.nothing)});
  }
  return y;
}

// v with each element `by` places further along the axis, and `fill` in front.
ValueId Scatter::shifted(ValueId v, std::size_t axis, int64_t by, ValueId fill) {
  const Shape shape = type(v).shape, none(shape.size(), Dim(0));
  const ValueId front = node(TensorOp::slice, {v},
                             {{"starts", none},
                              {"sizes", with(shape, axis, shape[axis] - by)},
                              {"steps", std::vector<int64_t>(shape.size(), 1)}});
  return node(TensorOp::pad, {front, fill},
              {{"before", with(none, axis, by)}, {"after", none}, {"mode", std::string("constant")}});
}

ValueId Scatter::combine_sorted(const Lines& s, const Combination& c) {
  const Sorted sorted = sort(s);
  const bool nd = node_.op == TensorOp::scatter_nd;
  const ir::Attrs axis{{"axis", static_cast<int64_t>(s.axis)}};
  const TensorOp gathers = nd ? TensorOp::gather : TensorOp::gather_elements;
  // Each is a kernel of its own, as `stored` makes them.
  const auto kept = [&](ValueId v) {
    return reduce(c.all, aligned(v, type(v).shape.size() + 1), type(v).shape.size());
  };
  ValueId sum = kept(node(gathers, {c.updates, sorted.order}, axis));
  const int64_t m = type(s.target).shape[s.axis].value();
  const ValueId nowhere = number(type(s.target).dtype, -1);
  for (int64_t by = 1; by < m; by *= 2) {
    const ValueId same = node(ScalarOp::eq, {sorted.target, shifted(sorted.target, s.axis, by, nowhere)});
    const ValueId both = node(c.op, {shifted(sum, s.axis, by, c.nothing), sum});
    sum = kept(node(ScalarOp::where, {aligned(same, type(sum).shape.size()), both, sum}));
  }
  const ValueId value = node(gathers, {sum, sorted.last}, axis);
  const ValueId chosen = node(ScalarOp::where, {aligned(sorted.hit, type(value).shape.size()), value, c.nothing});
  return node(c.op, {c.x, grown(chosen, s, c.nothing)});
}

ValueId Scatter::combine(const Lines& s, const Combination& c) {
  if (const auto known = known_combination(s, c)) return *known;
  if (sorts(s)) return combine_sorted(s, c);
  const ValueId hit = hits(s), line = reshape(c.updates, inserted(type(c.updates).shape, s.axis, 1));
  const ValueId chosen = node(ScalarOp::where, {aligned(hit, type(line).shape.size()), line, c.nothing});
  return node(c.op, {c.x, grown(reduce(c.all, chosen, s.axis + 1), s, c.nothing)});
}

// For bools, add and max act as `or`, mul and min as `and`.
ValueId Scatter::combined(const Lines& s) {
  const DType dtype = type(s.x).dtype, compute = dtype == DType::bool_ ? DType::u8 : compute_type(dtype);
  std::string reduction = node_.attrs.s("reduction");
  if (dtype == DType::bool_) reduction = reduction == "add" ? "max" : reduction == "mul" ? "min" : reduction;
  Combination c{cast(s.x, compute), cast(s.updates, compute)};
  if (reduction == "add") {
    std::tie(c.op, c.all, c.nothing) = std::tuple(ScalarOp::add, TensorOp::reduce_sum, number(compute, 0));
  } else if (reduction == "mul") {
    std::tie(c.op, c.all, c.nothing) = std::tuple(ScalarOp::mul, TensorOp::reduce_prod, number(compute, 1));
  } else if (reduction == "max") {
    std::tie(c.op, c.all, c.nothing) =
        std::tuple(ScalarOp::max, TensorOp::reduce_max, least_or_greatest(compute, false));
  } else {
    std::tie(c.op, c.all, c.nothing) =
        std::tuple(ScalarOp::min, TensorOp::reduce_min, least_or_greatest(compute, true));
  }
  return cast(combine(s, c), dtype);
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
