// SPDX-License-Identifier: Apache-2.0
// The gradients of poolings: the pooling is written as slices of its operand, one for each position of the window, and
// these are differentiated. Of equal maxima in a window the first one gets the gradient.

#include <limits>
#include <optional>

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {
namespace {

constexpr int64_t kMaxPositions = 64;  // of a window; each one is a few nodes

class Pooling {
 public:
  explicit Pooling(Call& c)
      : c_(c),
        kernel_(c.attrs().ints("kernel")),
        strides_(c.attrs().ints("strides")),
        pads_(c.attrs().ints("pads")),
        dilations_(c.attrs().ints("dilations")),
        first_axis_(c.attrs().s("layout") == "last" ? 1 : 2) {}

  bool is_large() const {
    int64_t positions = 1;
    for (int64_t k : kernel_) {
      if (k > kMaxPositions / positions) return true;
      positions *= k;
    }
    return false;
  }

  ValueId maximum() { return combined(ScalarOp::max, padded(-std::numeric_limits<double>::infinity())); }

  ValueId average() {
    const ValueId sum = combined(ScalarOp::add, padded(0));
    return c_.node(ScalarOp::div, {sum, c_.node(ScalarOp::max, {places(), c_.number(c_.type(sum).dtype, 1)})});
  }

 private:
  std::size_t axis(std::size_t i) const { return first_axis_ + i; }
  Dim before(std::size_t i) const { return pads_[i]; }
  Dim after(std::size_t i) const { return pads_[i + kernel_.size()]; }

  // The operand with `value` around it wherever a window reaches. With ceil_mode windows may reach past the padding.
  ValueId padded(double value) {
    Shape low(c_.shape(c_.in(0)).size(), 0), high = low;
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      low[axis(i)] = before(i);
      high[axis(i)] = past_end(i);
    }
    return pad(c_.in(0), low, high, value);
  }

  ValueId pad(ValueId v, const Shape& low, const Shape& high, double value) {
    if (low == Shape(low.size(), 0) && high == low) return v;
    return c_.node(TensorOp::pad, {v, c_.number(c_.type(v).dtype, value)},
                   {{"before", low}, {"after", high}, {"mode", std::string("constant")}});
  }

  Dim past_end(std::size_t i) const {
    if (c_.attrs().i("ceil_mode") == 0) return after(i);
    const Dim used = (c_.shape(c_.result())[axis(i)] - 1) * strides_[i] + dilations_[i] * (kernel_[i] - 1) + 1;
    return max(after(i), used - before(i) - c_.shape(c_.in(0))[axis(i)]);
  }

  ValueId combined(ScalarOp op, ValueId v) {
    std::vector<int64_t> position(kernel_.size(), 0);
    std::optional<ValueId> all;
    do {
      const ValueId moved = at(v, position);
      all = all ? c_.node(op, {*all, moved}) : moved;
    } while (advance(position));
    return *all;
  }

  // The element at this position of each window.
  ValueId at(ValueId v, const std::vector<int64_t>& position) {
    Shape starts(c_.shape(v).size(), 0), sizes = c_.shape(v);
    std::vector<int64_t> steps(sizes.size(), 1);
    for (std::size_t i = 0; i < position.size(); ++i) {
      starts[axis(i)] = position[i] * dilations_[i];
      sizes[axis(i)] = c_.shape(c_.result())[axis(i)];
      steps[axis(i)] = strides_[i];
    }
    return c_.slice(v, std::move(starts), std::move(sizes), std::move(steps));
  }

  // To the next position in row-major order; false after the last one.
  bool advance(std::vector<int64_t>& position) const {
    std::size_t i = position.size();
    for (; i > 0 && ++position[i - 1] == kernel_[i - 1]; --i) position[i - 1] = 0;
    return i > 0;
  }

  // How many positions of each window count.
  ValueId places() {
    const bool with_padding = c_.attrs().i("count_include_pad") == 1;
    const Shape& input = c_.shape(c_.in(0));
    Shape counting(input.size(), 1), low(input.size(), 0), high = low;
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      counting[axis(i)] = input[axis(i)] + (with_padding ? before(i) + after(i) : Dim(0));
      low[axis(i)] = with_padding ? Dim(0) : before(i);
      high[axis(i)] = past_end(i) - (with_padding ? after(i) : Dim(0));
    }
    return combined(ScalarOp::add, pad(c_.filled(c_.type(c_.in(0)).dtype, 1, counting), low, high, 0));
  }

  Call& c_;
  const std::vector<int64_t> kernel_, strides_, pads_, dilations_;
  const std::size_t first_axis_;
};

}  // namespace

Status pool_rule(Call& c) {
  Pooling pooling(c);
  if (pooling.is_large()) {
    return c.refuse("has no gradient for windows of more than " + std::to_string(kMaxPositions) +
                    " positions; a reduce_mean or reduce_max over whole axes has one");
  }
  const std::size_t first = c.graph().order.size();
  return c.through(first, c.call.op == Op(TensorOp::max_pool) ? pooling.maximum() : pooling.average());
}

}  // namespace fusec::ir::gradient
