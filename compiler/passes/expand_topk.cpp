// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes topk. For few results of long lines, one result after the other is selected from the
// elements that come after the one before it:
//
//   value  = best x[j] of those j that come after the last selected element
//   index  = least of those j with x[j] == value
//
// A line of n elements takes 2 * k reductions over n elements. Other long lines are sorted by merging. They are cut
// into 2^L runs of m = 17 ... 32 elements, and each run is sorted by counting, which takes 2 * m comparisons per
// element:
//
//   place[i] = number of j that come before i;  index[r] = sum of i where place[i] == r
//
// Then each of L levels merges pairs of runs a and b, and keeps the first k elements. Result d searches for the number
// of elements before it that are of a, log2 of the run's length steps, and takes a[i] or b[d - i]:
//
//   i = greatest number with a[i - 1] at or before b[d - i]
//
// That is n * (2 * m + log2(n / m) * log2(n)) steps in all, less where k is small, and a kernel for each level. Short
// lines, and lines of unknown length, are one run. No value of the size of the compared pairs is stored. NaN is greater
// than all numbers, and of equal elements that of the least index comes first. k = 1 becomes argmax or, for the
// smallest of integers, argmin.

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// The most results that are selected one by one; each is about 15 nodes.
constexpr int64_t kMaxSelections = 32;
// The longest line that is one run, and the longest run of others.
constexpr int64_t kMaxLine = 512, kMaxRun = 32;

// One element of each line: its value, its index, and whether it is NaN, for which the value does not tell.
struct Selected {
  ValueId value, index;
  std::optional<ValueId> is_nan;  // of floats
};

class Topk : Expansion {
 public:
  Topk(Graph& graph, const Node& node) : Expansion(graph, node) {}
  ValueId build();

 private:
  ValueId negation(ValueId v) { return node(ScalarOp::not_, {v}); }
  ValueId both(ValueId a, ValueId b) { return node(ScalarOp::and_, {a, b}); }
  ValueId either(ValueId a, ValueId b) { return node(ScalarOp::or_, {a, b}); }
  ValueId choice(ValueId condition, ValueId a, ValueId b) { return node(ScalarOp::where, {condition, a, b}); }

  bool selects() const;
  ValueId select_one_by_one();
  ValueId comes_after(const Selected& last);
  ValueId best(TensorOp op, ValueId v) { return reshape(reduce(op, v, axis_), with(type(v).shape, axis_, 1)); }
  Selected select_largest(std::optional<ValueId> eligible);
  Selected select_smallest(std::optional<ValueId> eligible);
  ValueId in_range(ValueId index);

  ValueId comes_first(ValueId a, ValueId b);
  ValueId places(ValueId x, std::size_t axis);
  ValueId sort_by_counting(ValueId x, std::size_t axis, const Dim& results, DType index);
  ValueId padded(const Dim& extent);
  ValueId chosen(ValueId v, ValueId at);
  ValueId clamped(ValueId v, int64_t most);
  ValueId count_of_first(ValueId pairs, ValueId d, int64_t run);
  ValueId merged_from(ValueId pairs, ValueId d, int64_t run);
  ValueId sort_by_merging();

  const ValueId x_ = in(0);
  const std::size_t axis_ = static_cast<std::size_t>(node_.attrs.i("axis"));
  const Dim extent_ = type(x_).shape[axis_], k_ = node_.attrs.dims("k")[0];
  const bool largest_ = node_.attrs.i("largest") == 1, float_ = is_float(type(x_).dtype);
  ValueId index_;  // of every element of a line, for the selection
};

// Counting costs about as much as selecting half of the elements.
bool Topk::selects() const {
  if (!k_.is_const() || k_.value() > kMaxSelections || k_.is(0)) return false;
  return !extent_.is_const() || extent_.value() > 2 * k_.value();
}

// Whether an element comes after the last one that was selected.
ValueId Topk::comes_after(const Selected& last) {
  const ValueId later = node(ScalarOp::gt, {index_, last.index});
  const ValueId order = node(largest_ ? ScalarOp::lt : ScalarOp::gt, {x_, last.value});
  const ValueId is_number = either(order, both(node(ScalarOp::eq, {x_, last.value}), later));
  if (!float_) return is_number;
  const ValueId nan = node(ScalarOp::is_nan, {x_});
  if (largest_) return choice(*last.is_nan, either(negation(nan), later), is_number);
  return choice(nan, either(negation(*last.is_nan), later), both(negation(*last.is_nan), is_number));
}

// NaN is the greatest, and the maximum of a line that has one.
Selected Topk::select_largest(std::optional<ValueId> eligible) {
  const DType dtype = type(x_).dtype;
  const ValueId value =
      best(TensorOp::reduce_max, eligible ? choice(*eligible, x_, least_or_greatest(dtype, false)) : x_);
  ValueId hit = node(ScalarOp::eq, {x_, value});
  std::optional<ValueId> is_nan;
  if (float_) {
    is_nan = node(ScalarOp::is_nan, {value});
    hit = choice(*is_nan, node(ScalarOp::is_nan, {x_}), hit);
  }
  if (eligible) hit = both(*eligible, hit);
  const ValueId none = bound(index_, extent_);
  return {value, best(TensorOp::reduce_min, choice(hit, index_, none)), is_nan};
}

// NaN counts as infinity, and its index as one past all indices of numbers.
Selected Topk::select_smallest(std::optional<ValueId> eligible) {
  const ValueId greatest = least_or_greatest(type(x_).dtype, true), none = bound(index_, extent_ * 2);
  if (!float_) {
    const ValueId value = best(TensorOp::reduce_min, eligible ? choice(*eligible, x_, greatest) : x_);
    const ValueId same = node(ScalarOp::eq, {x_, value});
    return {value, best(TensorOp::reduce_min, choice(eligible ? both(*eligible, same) : same, index_, none)), {}};
  }
  const ValueId nan = node(ScalarOp::is_nan, {x_}), is_number = negation(nan), past = bound(index_, extent_);
  const ValueId counts = eligible ? both(*eligible, is_number) : is_number;
  const ValueId value = best(TensorOp::reduce_min, choice(counts, x_, greatest));
  const ValueId of_nan = choice(eligible ? both(*eligible, nan) : nan, node(ScalarOp::add, {index_, past}), none);
  const ValueId of_number = both(counts, node(ScalarOp::eq, {x_, value}));
  const ValueId found = best(TensorOp::reduce_min, choice(of_number, index_, of_nan));
  const ValueId is_nan = node(ScalarOp::ge, {found, past});
  return {value, choice(is_nan, node(ScalarOp::sub, {found, past}), found), is_nan};
}

// As the result has it. A line may turn out to be shorter than k; what is missing has an index in range still.
ValueId Topk::in_range(ValueId index) {
  if (!extent_.is_const())
    index = choice(node(ScalarOp::lt, {index, bound(index, extent_)}), index, number(type(index).dtype, 0));
  return cast(index, DType::i64);
}

ValueId Topk::select_one_by_one() {
  index_ = count(type(x_).shape.size(), axis_, extent_, counter(extent_ * 2));
  std::vector<ValueId> indices;
  std::optional<Selected> last;
  for (int64_t i = 0; i < k_.value(); ++i) {
    const std::optional<ValueId> eligible = last ? std::optional(comes_after(*last)) : std::nullopt;
    last = largest_ ? select_largest(eligible) : select_smallest(eligible);
    indices.push_back(in_range(last->index));
  }
  return indices.size() == 1 ? indices[0] : node(TensorOp::concat, indices, {{"axis", static_cast<int64_t>(axis_)}});
}

// Whether a comes before b or is equal to it. NaN is greater than all numbers.
ValueId Topk::comes_first(ValueId a, ValueId b) {
  const ValueId order = node(largest_ ? ScalarOp::ge : ScalarOp::le, {a, b});
  return float_ ? either(order, node(ScalarOp::is_nan, {largest_ ? a : b})) : order;
}

// The number of elements j of its line that come before element i. Elements equal to i count if j < i.
ValueId Topk::places(ValueId x, std::size_t axis) {
  const Shape shape = type(x).shape;
  const Dim extent = shape[axis];
  const DType dtype = counter(extent);
  const ValueId mine = reshape(x, inserted(shape, axis + 1, 1)), other = reshape(x, inserted(shape, axis, 1));
  const std::size_t rank = shape.size() + 1;
  const ValueId is_earlier =
      node(ScalarOp::lt, {count(rank, axis + 1, extent, dtype), count(rank, axis, extent, dtype)});
  const ValueId before = choice(is_earlier, comes_first(other, mine), negation(comes_first(mine, other)));
  return reduce(TensorOp::reduce_sum, cast(before, dtype), axis + 1);
}

// The indices of the first results of each line.
ValueId Topk::sort_by_counting(ValueId x, std::size_t axis, const Dim& results, DType index) {
  const ValueId place = places(x, axis);
  const Shape shape = type(place).shape;
  const std::size_t rank = shape.size() + 1;
  const ValueId hit =
      node(ScalarOp::eq, {reshape(place, inserted(shape, axis, 1)), count(rank, axis, results, type(place).dtype)});
  const ValueId own = count(rank, axis + 1, shape[axis], index);
  return reduce(TensorOp::reduce_sum, choice(hit, own, number(index, 0)), axis + 1);
}

// Lines of that many elements. No element comes after those that are added, and they come after all that are equal.
ValueId Topk::padded(const Dim& extent) {
  const DType dtype = type(x_).dtype;
  const Shape shape = type(x_).shape, none(shape.size(), Dim(0));
  if (extent == extent_) return x_;
  const ValueId last = largest_ || !float_ ? least_or_greatest(dtype, !largest_)
                                           : number(dtype, std::numeric_limits<double>::quiet_NaN());
  return node(TensorOp::pad, {x_, last},
              {{"before", none}, {"after", with(none, axis_, extent - extent_)}, {"mode", std::string("constant")}});
}

// The elements of each run that `at` tells, which may be the same for all runs.
ValueId Topk::chosen(ValueId v, ValueId at) {
  const std::size_t axis = axis_ + 1;
  const Shape shape = with(type(v).shape, axis, type(at).shape[axis]);
  if (!(type(at).shape == shape)) at = node(TensorOp::broadcast, {at}, {{"shape", shape}});
  return node(TensorOp::gather_elements, {v, at}, {{"axis", static_cast<int64_t>(axis)}});
}

ValueId Topk::clamped(ValueId v, int64_t most) {
  const DType dtype = type(v).dtype;
  return node(ScalarOp::max, {node(ScalarOp::min, {v, number(dtype, static_cast<double>(most))}), number(dtype, 0)});
}

// The number of elements of the first run among the first d of each pair of runs.
ValueId Topk::count_of_first(ValueId pairs, ValueId d, int64_t run) {
  const DType dtype = type(d).dtype;
  const ValueId length = number(dtype, static_cast<double>(run)), most = node(ScalarOp::min, {d, length});
  ValueId i = node(ScalarOp::max, {node(ScalarOp::sub, {d, length}), number(dtype, 0)});
  for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(run))); step > 0; step /= 2) {
    const ValueId next = node(ScalarOp::add, {i, number(dtype, static_cast<double>(step))});
    const ValueId a = chosen(pairs, clamped(node(ScalarOp::sub, {next, number(dtype, 1)}), run - 1));
    const ValueId b = chosen(pairs, node(ScalarOp::add, {clamped(node(ScalarOp::sub, {d, next}), run - 1), length}));
    i = choice(both(node(ScalarOp::le, {next, most}), comes_first(a, b)), next, i);
  }
  return i;
}

// Where in its pair of runs result d comes from.
ValueId Topk::merged_from(ValueId pairs, ValueId d, int64_t run) {
  const DType dtype = type(d).dtype;
  const ValueId length = number(dtype, static_cast<double>(run)), i = count_of_first(pairs, d, run);
  const ValueId j = node(ScalarOp::sub, {d, i}), first = clamped(i, run - 1);
  const ValueId second = node(ScalarOp::add, {clamped(j, run - 1), length});
  const ValueId is_first = comes_first(chosen(pairs, first), chosen(pairs, second));
  const ValueId has_first = node(ScalarOp::lt, {i, length}), has_second = node(ScalarOp::lt, {j, length});
  return choice(both(has_first, either(negation(has_second), is_first)), first, second);
}

ValueId Topk::sort_by_merging() {
  const int64_t n = extent_.value(), k = k_.value();
  auto runs = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((n + kMaxRun - 1) / kMaxRun)));
  const int64_t length = (n + runs - 1) / runs;
  const DType dtype = counter(runs * length);
  const Shape lines = type(x_).shape;
  const auto cut = [&](ValueId v, int64_t count, int64_t of) {
    return reshape(v, inserted(with(lines, axis_, of), axis_, count));
  };
  ValueId values = cut(padded(runs * length), runs, length);
  int64_t run = std::min(length, k);
  ValueId index = sort_by_counting(values, axis_ + 1, run, dtype);
  values = chosen(values, index);
  const ValueId starts =
      node(ScalarOp::mul, {count(lines.size() + 1, axis_, runs, dtype), number(dtype, static_cast<double>(length))});
  index = node(ScalarOp::add, {index, starts});
  for (; runs > 1; runs /= 2) {
    const int64_t results = std::min(2 * run, k);
    const ValueId pairs = cut(values, runs / 2, 2 * run), indices = cut(index, runs / 2, 2 * run);
    const ValueId d = count(lines.size() + 1, axis_ + 1, results, dtype);
    const ValueId from = merged_from(pairs, d, run);
    values = chosen(pairs, from), index = chosen(indices, from);
    run = results;
  }
  return cast(reshape(index, with(lines, axis_, k)), DType::i64);
}

ValueId Topk::build() {
  if (k_.is(1) && (largest_ || !float_)) {  // argmin treats NaN as the least
    const ValueId best = node(largest_ ? TensorOp::argmax : TensorOp::argmin, {x_},
                              {{"axis", static_cast<int64_t>(axis_)}, {"last", int64_t{0}}});
    return reshape(best, type(node_.output).shape);
  }
  if (selects()) return select_one_by_one();
  const bool merges = extent_.is_const() && k_.is_const() && extent_.value() > kMaxLine && !k_.is(0);
  return merges ? sort_by_merging() : sort_by_counting(x_, axis_, k_, DType::i64);
}

}  // namespace

Result<bool> expand_topk(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (node.op == TensorOp::topk) rewriter.replace(node.output, Topk(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
