// SPDX-License-Identifier: Apache-2.0
// The gradients of gathers, which are scatters that add, and of scatters, which are gathers.

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {
namespace {

ValueId zeros(Call& c, std::size_t operand) { return c.filled(c.type(c.in(operand)).dtype, 0, c.shape(c.in(operand))); }

// Axes first ... first + count - 1 of a value of `rank` axes in front of the others.
std::vector<int64_t> in_front(std::size_t first, std::size_t count, std::size_t rank) {
  std::vector<int64_t> perm;
  for (std::size_t i = 0; i < count; ++i) perm.push_back(static_cast<int64_t>(first + i));
  for (std::size_t i = 0; i < rank; ++i)
    if (i < first || i >= first + count) perm.push_back(static_cast<int64_t>(i));
  return perm;
}

// The first axis behind the `axis` axes that follow it.
std::vector<int64_t> first_behind(std::size_t axis, std::size_t rank) {
  std::vector<int64_t> perm;
  for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(i < axis ? i + 1 : (i == axis ? 0 : i)));
  return perm;
}

ValueId scatter_add_nd(Call& c, ValueId onto, ValueId indices, ValueId updates) {
  return c.node(TensorOp::scatter_nd, {onto, indices, updates}, {{"reduction", std::string("add")}});
}

}  // namespace

// y[p, i, q] = x[p, index[i], q]: lines of dy are added along the first axis of x with that axis in front.
Status gather_rule(Call& c) {
  const auto axis = static_cast<std::size_t>(c.attrs().i("axis"));
  const Shape &data = c.shape(c.in(0)), &index = c.shape(c.in(1));
  Shape rows = index, front{data[axis]};
  rows.push_back(1);
  for (std::size_t i = 0; i < data.size(); ++i)
    if (i != axis) front.push_back(data[i]);
  const ValueId updates = c.transpose(c.dy, in_front(axis, index.size(), c.shape(c.dy).size()));
  const ValueId none = c.filled(c.type(c.dy).dtype, 0, std::move(front));
  const ValueId sums = scatter_add_nd(c, none, c.reshape(c.in(1), std::move(rows)), updates);
  c.give(0, c.transpose(sums, first_behind(axis, data.size())));
  return {};
}

namespace {

// Whether there is one index for each line along the axis, as the label of a cross entropy.
bool has_one_per_line(Call& c) {
  return c.shape(c.in(1)) == with(c.shape(c.in(0)), static_cast<std::size_t>(c.attrs().i("axis")), 1);
}

// dy where the index points. A gather from the positions makes indices count from 0, and checks them.
ValueId at_index(Call& c) {
  const auto axis = static_cast<std::size_t>(c.attrs().i("axis"));
  const Shape& data = c.shape(c.in(0));
  const auto positions = [&](const Shape& shape, std::size_t along) {
    return c.node(TensorOp::iota, {},
                  {{"shape", shape}, {"axis", static_cast<int64_t>(along)}, {"dtype", c.type(c.in(1)).dtype}});
  };
  const ValueId index = c.node(TensorOp::gather, {positions({data[axis]}, 0), c.in(1)}, {{"axis", int64_t{0}}});
  const ValueId hit = c.node(ScalarOp::eq, {positions(with(Shape(data.size(), 1), axis, data[axis]), axis), index});
  return c.node(ScalarOp::where, {hit, c.dy, c.number(c.type(c.dy).dtype, 0)});
}

}  // namespace

Status gather_elements_rule(Call& c) {
  if (has_one_per_line(c)) {
    c.give(0, at_index(c));
    return {};
  }
  c.give(0, c.node(TensorOp::scatter_elements, {zeros(c, 0), c.in(1), c.dy},
                   {{"axis", c.attrs().i("axis")}, {"reduction", std::string("add")}}));
  return {};
}

// Batch axes become indices of their own.
Status gather_nd_rule(Call& c) {
  const auto batch = static_cast<std::size_t>(c.attrs().i("batch_dims"));
  ValueId indices = c.in(1);
  if (batch > 0) {
    const Type type = c.type(indices);
    const auto last = type.shape.size() - 1;
    std::vector<ValueId> columns;
    for (std::size_t i = 0; i < batch; ++i) {
      columns.push_back(
          c.node(TensorOp::iota, {},
                 {{"shape", with(type.shape, last, 1)}, {"axis", static_cast<int64_t>(i)}, {"dtype", type.dtype}}));
    }
    columns.push_back(indices);
    indices = c.node(TensorOp::concat, std::move(columns), {{"axis", static_cast<int64_t>(last)}});
  }
  c.give(0, scatter_add_nd(c, zeros(c, 0), indices, c.dy));
  return {};
}

namespace {

// The two forms of scatters: how they put values at the indices and read what is there.
struct Form {
  TensorOp scatter, gather;
  Attrs scatter_attrs, gather_attrs;

  ValueId put(Call& c, ValueId onto, ValueId updates) const {
    return c.node(scatter, {onto, c.in(1), updates}, scatter_attrs);
  }
  ValueId read(Call& c, ValueId from) const { return c.node(gather, {from, c.in(1)}, gather_attrs); }
};

// Which updates stay: those that find their own number where they were put.
ValueId staying(Call& c, const Form& form) {
  const Shape &updates = c.shape(c.in(2)), &data = c.shape(c.in(0));
  ValueId numbers = c.node(TensorOp::iota, {},
                           {{"shape", Shape{num_elements(updates)}}, {"axis", int64_t{0}}, {"dtype", DType::i64}});
  numbers = c.reshape(numbers, updates);
  const ValueId found = form.read(c, form.put(c, c.filled(DType::i64, 0, data), numbers));
  return c.node(ScalarOp::eq, {found, numbers});
}

// add:  dx = dy, dupdates = dy at the indices
// none: dx = dy with zeros at the indices, dupdates = dy at the indices where the update stays
Status scatter_rule(Call& c, const Form& form) {
  const std::string& reduction = c.attrs().s("reduction");
  if (reduction != "add" && reduction != "none") {
    return c.refuse("has no gradient with reduction " + reduction + "; add and none have one");
  }
  const bool adds = reduction == "add";
  const ValueId nothing = c.number(c.type(c.dy).dtype, 0);
  if (c.wants(0)) c.give(0, adds ? c.dy : form.put(c, c.dy, c.broadcast(nothing, c.shape(c.in(2)))));
  if (!c.wants(2)) return {};
  const ValueId read = form.read(c, c.dy);
  c.give(2, adds ? read : c.node(ScalarOp::where, {staying(c, form), read, nothing}));
  return {};
}

}  // namespace

Status scatter_elements_rule(Call& c) {
  return scatter_rule(
      c, {TensorOp::scatter_elements, TensorOp::gather_elements, c.attrs(), {{"axis", c.attrs().i("axis")}}});
}

Status scatter_nd_rule(Call& c) {
  return scatter_rule(c, {TensorOp::scatter_nd, TensorOp::gather_nd, c.attrs(), {{"batch_dims", int64_t{0}}}});
}

}  // namespace fusec::ir::gradient
