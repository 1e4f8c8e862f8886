// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes topk. For few results of long lines, one result after the other is selected from the
// elements that come after the one before it:
//
//   value  = best x[j] of those j that come after the last selected element
//   index  = least of those j with x[j] == value
//
// A line of n elements takes 2 * k reductions over n elements. Otherwise every element computes its own position by
// counting, which takes n * (n + k) comparisons and two kernels:
//
//   place[i] = number of j that come before i;  index[r] = sum of i where place[i] == r
//
// No value of the size of the compared pairs is stored. NaN is greater than all numbers, and of equal elements that of
// the least index comes first. k = 1 becomes argmax or, for the smallest of integers, argmin.

#include <optional>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// The most results that are selected one by one; each is about 15 nodes.
constexpr int64_t kMaxSelections = 32;

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
  ValueId places();
  ValueId count_places();

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
ValueId Topk::places() {
  const Shape shape = type(x_).shape;
  const DType dtype = counter(extent_);
  const ValueId mine = reshape(x_, inserted(shape, axis_ + 1, 1)), other = reshape(x_, inserted(shape, axis_, 1));
  const std::size_t rank = shape.size() + 1;
  const ValueId is_earlier =
      node(ScalarOp::lt, {count(rank, axis_ + 1, extent_, dtype), count(rank, axis_, extent_, dtype)});
  const ValueId before = choice(is_earlier, comes_first(other, mine), negation(comes_first(mine, other)));
  return reduce(TensorOp::reduce_sum, cast(before, dtype), axis_ + 1);
}

ValueId Topk::count_places() {
  const ValueId place = places();
  const std::size_t rank = type(place).shape.size() + 1;
  const ValueId hit = node(
      ScalarOp::eq, {reshape(place, inserted(type(place).shape, axis_, 1)), count(rank, axis_, k_, type(place).dtype)});
  const ValueId index = count(rank, axis_ + 1, extent_, DType::i64);
  return reduce(TensorOp::reduce_sum, choice(hit, index, number(DType::i64, 0)), axis_ + 1);
}

ValueId Topk::build() {
  if (k_.is(1) && (largest_ || !float_)) {  // argmin treats NaN as the least
    const ValueId best = node(largest_ ? TensorOp::argmax : TensorOp::argmin, {x_},
                              {{"axis", static_cast<int64_t>(axis_)}, {"last", int64_t{0}}});
    return reshape(best, type(node_.output).shape);
  }
  return selects() ? select_one_by_one() : count_places();
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
