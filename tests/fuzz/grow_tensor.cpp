// SPDX-License-Identifier: Apache-2.0
// Index maps, reductions and anchors.
#include <algorithm>
#include <numeric>

#include "tests/fuzz/grow.h"

namespace fusec::fuzz {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using ir::Type;

using Ints = std::vector<int64_t>;

std::size_t any_axis(Maker& m, ValueId v) { return static_cast<std::size_t>(m.random.below(m.rank(v))); }

// One edit of a shape that keeps the number of elements: merge two axes, split one, add or drop an axis of extent 1.
void edit_shape(Maker& m, Shape& shape) {
  const auto at = static_cast<std::size_t>(m.random.below(static_cast<int64_t>(shape.size()) + 1));
  switch (m.random.below(4)) {
    case 0:
      if (shape.size() < 8) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
      return;
    case 1:
      if (at < shape.size() && shape[at].is(1)) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 2:
      if (at + 1 >= shape.size()) return;
      shape[at] *= shape[at + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      return;
    default:
      if (at >= shape.size() || shape.size() >= 8) return;
      for (const int64_t factor : {2, 3, 4, 5, 8}) {
        const auto rest = shape[at].exact_div(factor);
        if (!rest || m.random.chance(0.4)) continue;
        const bool outside = m.random.chance(0.5);
        shape[at] = outside ? Dim(factor) : *rest;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at) + 1, outside ? *rest : Dim(factor));
        return;
      }
  }
}

ValueId reshape(Maker& m) {
  const ValueId v = any_value(m);
  if (!v.valid()) return {};
  Shape shape = m.shape(v);
  if (m.random.chance(0.1)) shape = {num_elements(shape)};
  for (int64_t n = m.random.between(1, 4); n > 0; --n) edit_shape(m, shape);
  return m.reshape(v, shape);
}

ValueId transpose(Maker& m) {
  const ValueId v = any_value(m, 2);
  if (!v.valid()) return {};
  Ints perm(m.shape(v).size());
  std::iota(perm.begin(), perm.end(), 0);
  if (m.random.chance(0.4)) {
    std::swap(perm[any_axis(m, v)], perm[any_axis(m, v)]);
  } else {
    m.random.shuffle(perm);
  }
  return m.transpose(v, perm);
}

ValueId broadcast(Maker& m) {
  const ValueId v = any_value(m, 0, 6);
  if (!v.valid()) return {};
  Shape shape = m.shape(v);
  for (Dim& d : shape)
    if (d.is(1) && m.random.chance(0.7)) d = m.extent();
  for (int64_t n = m.random.below(3); n > 0; --n)
    shape.insert(shape.begin(), m.random.chance(0.3) ? Dim(1) : m.extent());
  return m.node(TensorOp::broadcast, {v}, {{"shape", shape}});
}

// Start, size and step of one axis.
void slice_axis(Maker& m, const Dim& extent, Dim& start, Dim& size, int64_t& step) {
  const int64_t least = m.least(extent);
  start = 0, size = extent, step = 1;
  if (m.random.chance(0.45)) return;
  if (m.random.chance(0.15)) {  // reversed
    start = extent - 1, step = -1;
    return;
  }
  const int64_t first = m.random.below(least + 1), room = least - first;
  step = m.random.pick({1, 1, 1, 2, 3});
  start = first;
  size = m.random.chance(0.5) && step == 1
             ? extent - first - m.random.below(room + 1)
             : Dim(m.random.between(std::min<int64_t>(1, room), (room + step - 1) / step));
  if (m.random.chance(0.15) && size.is_const() && size.value() > 0) {  // the same elements from the end
    start = first + step * (size.value() - 1);
    step = -step;
  }
}

ValueId slice(Maker& m) {
  const ValueId v = any_value(m, 1);
  if (!v.valid()) return {};
  const std::size_t rank = m.shape(v).size();
  Shape starts(rank), sizes(rank);
  Ints steps(rank);
  for (std::size_t i = 0; i < rank; ++i) slice_axis(m, m.shape(v)[i], starts[i], sizes[i], steps[i]);
  return m.node(TensorOp::slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

ValueId concat(Maker& m) {
  const ValueId v = any_value(m, 1);
  if (!v.valid()) return {};
  const std::size_t axis = any_axis(m, v);
  const auto fits = [&](const Type& t) {
    if (t.dtype != m.type(v).dtype || t.rank() != m.rank(v)) return false;
    Shape rest = t.shape;
    rest[axis] = m.shape(v)[axis];
    return rest == m.shape(v);
  };
  std::vector<ValueId> parts = {v};
  for (int64_t n = m.random.between(1, m.random.chance(0.1) ? 9 : 3); n > 0; --n) {
    ValueId part = m.random.chance(0.8) ? m.find(fits) : ValueId{};
    if (!part.valid()) {
      Shape shape = m.shape(v);
      shape[axis] = m.random.chance(0.5) ? Dim(m.random.between(1, 4)) : m.extent();
      part = m.leaf(m.type(v).dtype, shape);
    }
    if (!part.valid()) return {};
    parts.push_back(part);
  }
  m.random.shuffle(parts);
  return m.node(TensorOp::concat, parts, {{"axis", static_cast<int64_t>(axis)}});
}

ValueId unfold(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid()) return {};
  const std::size_t axis = static_cast<std::size_t>(m.random.below(static_cast<int64_t>(m.shape(v).size())));
  const Dim extent = m.shape(v)[axis];
  const int64_t least = m.least(extent);
  if (least < 1) return {};
  const int64_t dilation = m.random.pick({1, 1, 1, 2}), step = m.random.pick({1, 1, 2, 3});
  const int64_t window = m.random.between(1, std::min<int64_t>(4, (least - 1) / dilation + 1));
  const int64_t span = (window - 1) * dilation + 1;
  const Dim windows = step == 1 && m.random.chance(0.5)
                          ? extent - (span - 1)
                          : Dim(m.random.between(1, std::min<int64_t>(8, (least - span) / step + 1)));
  return m.node(
      TensorOp::unfold, {v},
      {{"axis", static_cast<int64_t>(axis)}, {"sizes", Shape{windows, window}}, {"steps", Ints{step, dilation}}});
}

ValueId pad(Maker& m) {
  const ValueId v = any_value(m, 1, 5);
  if (!v.valid()) return {};
  const std::string mode = m.random.pick({"constant", "constant", "constant", "reflect", "edge", "wrap"});
  Shape before(m.shape(v).size(), Dim(0)), after = before;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (m.random.chance(0.5)) continue;
    const int64_t least = m.least(m.shape(v)[i]), most = mode == "reflect" ? least - 1 : mode == "constant" ? 3 : least;
    before[i] = std::max<int64_t>(0, std::min<int64_t>(3, m.random.below(most + 1)));
    after[i] = std::max<int64_t>(0, std::min<int64_t>(3, m.random.below(most + 1)));
  }
  std::vector<ValueId> operands = {v};
  if (m.random.chance(0.4))
    operands.push_back(m.random.chance(0.7) ? m.number(m.type(v).dtype, m.random.pick({0.0, 1.0, -1.0}))
                                            : m.input(m.type(v).dtype, {}));
  return m.node(TensorOp::pad, operands, {{"before", before}, {"after", after}, {"mode", mode}});
}

// Indices into an axis: an input, or computed ones brought into range.
ValueId index_value(Maker& m, const Shape& shape, const Dim& extent) {
  const DType dtype = m.random.pick({DType::i64, DType::i64, DType::i32});
  const ValueId computed = m.find([&](const Type& t) { return t.dtype == dtype && t.shape == shape; });
  if (!computed.valid() || m.least(extent) < 1 || m.random.chance(0.5)) return m.indices(dtype, shape, extent);
  const ValueId count = extent.is_const() ? m.number(dtype, static_cast<double>(extent.value()))
                                          : m.node(TensorOp::dim, {}, {{"value", Shape{extent}}, {"dtype", dtype}});
  return m.scalar(ScalarOp::mod, {computed, count});
}

ValueId gather(Maker& m) {
  const ValueId v = any_value(m, 1, 5);
  if (!v.valid()) return {};
  const std::size_t axis = any_axis(m, v);
  const Shape shape = m.new_shape(static_cast<int>(m.random.below(3)));
  return m.node(TensorOp::gather, {v, index_value(m, shape, m.shape(v)[axis])}, {{"axis", static_cast<int64_t>(axis)}});
}

ValueId gather_elements(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid()) return {};
  const std::size_t axis = any_axis(m, v);
  Shape shape = m.shape(v);
  shape[axis] = m.random.chance(0.5) ? shape[axis] : m.extent();
  return m.node(TensorOp::gather_elements, {v, index_value(m, shape, m.shape(v)[axis])},
                {{"axis", static_cast<int64_t>(axis)}});
}

ValueId gather_nd(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid()) return {};
  const int64_t batch = m.rank(v) > 1 && m.random.chance(0.4) ? 1 : 0,
                depth = m.random.between(1, std::min<int64_t>(m.rank(v) - batch, 2));
  Dim extent = m.shape(v)[static_cast<std::size_t>(batch)];
  for (int64_t i = 1; i < depth; ++i) extent = min(extent, m.shape(v)[static_cast<std::size_t>(batch + i)]);
  Shape shape(m.shape(v).begin(), m.shape(v).begin() + batch);
  const Shape more = m.new_shape(static_cast<int>(m.random.below(2)));
  shape.insert(shape.end(), more.begin(), more.end());
  shape.push_back(depth);
  return m.node(TensorOp::gather_nd, {v, m.indices(DType::i64, shape, extent)}, {{"batch_dims", batch}});
}

// Places of the first few in order, or the elements there.
ValueId topk(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid() || m.type(v).dtype == DType::bool_) return {};
  const auto axis = any_axis(m, v);
  const Dim& extent = m.shape(v)[axis];
  const Dim k = m.random.chance(0.2) ? extent : Dim(m.random.below(std::min<int64_t>(m.least(extent), 6) + 1));
  const auto at = static_cast<int64_t>(axis);
  const ValueId index = m.node(TensorOp::topk, {v}, {{"axis", at}, {"k", Shape{k}}, {"largest", m.random.below(2)}});
  if (!index.valid() || m.random.chance(0.5)) return index;
  return m.node(TensorOp::gather_elements, {v, index}, {{"axis", at}});
}

std::string scatter_reduction(Maker& m) { return m.random.pick({"none", "none", "add", "mul", "max", "min"}); }

ValueId updates_for(Maker& m, DType dtype, const Shape& shape) {
  const ValueId found = m.find([&](const Type& t) { return t.dtype == dtype && t.shape == shape; });
  return found.valid() && m.random.chance(0.5) ? found : m.leaf(dtype, shape);
}

ValueId scatter_elements(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid()) return {};
  const std::size_t axis = any_axis(m, v);
  Shape shape = m.shape(v);
  for (Dim& d : shape)
    if (d.is_const() && d.value() > 1 && m.random.chance(0.15)) d = d.value() - 1;
  shape[axis] = m.random.chance(0.5) ? Dim(m.random.below(5)) : m.extent();
  const ValueId updates = updates_for(m, m.type(v).dtype, shape);
  if (!updates.valid()) return {};
  return m.node(TensorOp::scatter_elements, {v, index_value(m, shape, m.shape(v)[axis]), updates},
                {{"axis", static_cast<int64_t>(axis)}, {"reduction", scatter_reduction(m)}});
}

ValueId scatter_nd(Maker& m) {
  const ValueId v = any_value(m, 1, 4);
  if (!v.valid()) return {};
  const int64_t depth = m.random.between(1, std::min<int64_t>(m.rank(v), 2));
  Dim extent = m.shape(v)[0];
  if (depth > 1) extent = min(extent, m.shape(v)[1]);
  Shape shape = m.new_shape(static_cast<int>(m.random.below(3))), lines = shape;
  shape.push_back(depth);
  lines.insert(lines.end(), m.shape(v).begin() + depth, m.shape(v).end());
  const ValueId updates = updates_for(m, m.type(v).dtype, lines);
  if (!updates.valid()) return {};
  return m.node(TensorOp::scatter_nd, {v, m.indices(DType::i64, shape, extent), updates},
                {{"reduction", scatter_reduction(m)}});
}

ValueId iota(Maker& m) {
  const ValueId v = any_value(m, 1, 5);
  if (!v.valid()) return {};
  return m.node(TensorOp::iota, {},
                {{"shape", m.shape(v)}, {"axis", static_cast<int64_t>(any_axis(m, v))}, {"dtype", m.number_type()}});
}

ValueId dim(Maker& m) {
  const ValueId v = any_value(m, 1);
  if (!v.valid()) return {};
  return m.node(TensorOp::dim, {},
                {{"value", Shape{m.shape(v)[any_axis(m, v)] + m.random.below(2)}}, {"dtype", m.number_type()}});
}

Ints some_axes(Maker& m, ValueId v) {
  Ints axes;
  const int64_t rank = m.rank(v);
  if (m.random.chance(0.35)) return rank == 0 ? axes : Ints{rank - 1};
  for (int64_t a = 0; a < rank; ++a)
    if (m.random.chance(0.45)) axes.push_back(a);
  if (axes.empty() && rank > 0 && m.random.chance(0.9)) axes.push_back(m.random.below(rank));
  return axes;
}

ValueId pick_one(Maker& m, const std::vector<Choice>& choices) {
  std::vector<double> weights;
  for (const Choice& c : choices) weights.push_back(c.weight);
  return choices[m.random.weighted(weights)].grow(m);
}

}  // namespace

ValueId index_map_node(Maker& m) {
  static const std::vector<Choice> choices = {{4, reshape},     {4, transpose}, {2, broadcast}, {4, slice},
                                              {3, concat},      {2, pad},       {1.5, gather},  {0.5, gather_elements},
                                              {0.5, gather_nd}, {0.7, iota},    {0.3, dim},     {1, unfold}};
  return pick_one(m, choices);
}

ValueId composite_node(Maker& m) {
  static const std::vector<Choice> choices = {{1, topk}, {1, scatter_elements}, {1, scatter_nd}};
  return pick_one(m, choices);
}

ValueId reduction_node(Maker& m) {
  std::vector<TensorOp> rows;
  for (std::size_t i = 0; i < ir::all_tensor_ops().size(); ++i)
    if (ir::all_tensor_ops()[i].kind == ir::OpPattern::reduction) rows.push_back(static_cast<TensorOp>(i));
  const TensorOp op = m.random.pick(rows);
  const std::string_view attributes = info(op).attributes;
  const bool axes = attributes.starts_with("axes");
  const ValueId v = any_value(m, axes ? 0 : 1);
  if (!v.valid()) return {};
  if (!axes) {
    ir::Attrs attrs = {{"axis", static_cast<int64_t>(any_axis(m, v))}};
    for (const char* flag : {"last", "exclusive", "reverse"})
      if (attributes.find(flag) != std::string_view::npos) attrs.set(flag, m.random.below(2));
    return m.node(op, {v}, attrs);
  }
  const bool keep = m.random.chance(0.6);
  const ValueId r = m.reduce(op, v, some_axes(m, v), keep);
  if (!keep || !r.valid() || m.random.chance(0.4)) return r;
  return m.scalar(m.random.pick({ScalarOp::sub, ScalarOp::add, ScalarOp::mul, ScalarOp::max}), {v, r});
}

namespace {

DType anchor_type(Maker& m, ValueId v) { return m.type(v).dtype; }

ValueId matmul(Maker& m) {
  const ValueId a = m.random.chance(0.9) ? float_value(m, 1, 5) : any_value(m, 1, 4);
  if (!a.valid()) return {};
  const bool ta = m.random.chance(0.2), tb = m.random.chance(0.35);
  const Shape& x = m.shape(a);
  const Dim k = ta && x.size() > 1 ? x[x.size() - 2] : x.back();
  Dim n = m.random.between(1, 9);
  if (m.random.chance(0.4)) n = m.extent();
  Shape other = tb ? Shape{n, k} : Shape{k, n};
  if (m.random.chance(0.1)) other = {k};
  if (m.random.chance(0.3) && other.size() == 2 && x.size() > 2) other.insert(other.begin(), x.begin(), x.end() - 2);
  ValueId b = m.find([&](const Type& t) { return t.dtype == anchor_type(m, a) && t.shape == other; });
  if (!b.valid()) b = m.leaf(anchor_type(m, a), other);
  return m.node(TensorOp::matmul, {a, b}, {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}});
}

// A product of 16-bit floats by a constant matrix, as kernels of a GPU multiply them, maybe behind a gate and before a
// bias.
ValueId own_product(Maker& m) {
  const DType dtype = m.random.pick({DType::f16, DType::f16, DType::bf16});
  const int64_t k = 2 * m.random.between(1, 40), n = 2 * m.random.between(1, 12);
  const Dim samples = m.random.chance(0.5) ? m.extent() : Dim(m.random.between(1, 3));
  ValueId x = m.leaf(dtype, {samples, m.random.between(1, 24), k});
  if (!x.valid()) return {};
  if (m.random.chance(0.4)) x = m.scalar(ScalarOp::mul, {x, m.leaf(dtype, {samples, 1, k})});
  const bool transposed = m.random.chance(0.5);
  const std::vector<int64_t> shape = transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  ValueId y = m.node(TensorOp::matmul, {x, m.constant(dtype, shape)},
                     {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  if (m.random.chance(0.5)) y = m.scalar(ScalarOp::add, {y, m.constant(dtype, {n})});
  return y;
}

ir::Attrs window(Maker& m, std::size_t axes, bool last) {
  Ints strides, pads, dilations;
  for (std::size_t i = 0; i < axes; ++i) {
    strides.push_back(m.random.pick({1, 1, 2}));
    dilations.push_back(m.random.pick({1, 1, 1, 2}));
  }
  for (std::size_t i = 0; i < 2 * axes; ++i) pads.push_back(m.random.below(2));
  return {
      {"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"layout", std::string(last ? "last" : "first")}};
}

ValueId image(Maker& m) {
  ValueId v = float_value(m, 3, 5);
  if (v.valid() && m.rank(v) >= 3 && m.random.chance(0.6)) return v;
  Shape shape = {m.random.chance(0.5) ? m.extent() : Dim(2), m.random.pick({1, 2, 3, 4, 8, 16})};
  for (int64_t n = m.random.pick({1, 2, 2, 2, 3}); n > 0; --n) shape.push_back(m.random.between(3, 7));
  return m.leaf(m.random.pick({DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16}), shape);
}

ValueId conv(Maker& m) {
  const ValueId v = image(m);
  if (!v.valid()) return {};
  const bool last = m.random.chance(0.3);
  const std::size_t axes = m.shape(v).size() - 2;
  const Dim channels = m.shape(v)[last ? axes + 1 : 1];
  if (!channels.is_const() || channels.value() < 1) return {};
  const int64_t groups = m.random.chance(0.25)                               ? channels.value()
                         : channels.value() % 2 == 0 && m.random.chance(0.2) ? 2
                                                                             : 1;
  const int64_t out = groups * m.random.pick({1, 1, 2, 3, 4});
  Shape filter = {out, channels.value() / groups};
  for (std::size_t i = 0; i < axes; ++i) filter.push_back(m.random.between(1, 3));
  std::vector<ValueId> operands = {v, m.leaf(m.type(v).dtype, filter)};
  if (m.random.chance(0.5)) operands.push_back(m.leaf(m.type(v).dtype, {out}));
  ir::Attrs attrs = window(m, axes, last);
  attrs.set("groups", groups);
  return m.node(TensorOp::conv, operands, attrs);
}

// Few places along an axis, now and then many.
Ints places(Maker& m, std::size_t axes) {
  Ints kernel;
  for (std::size_t i = 0; i < axes; ++i) kernel.push_back(m.random.between(1, 3));
  if (m.random.chance(0.1)) kernel[0] = m.random.pick({5, 8, 50});
  return kernel;
}

ValueId pool(Maker& m) {
  const bool is_max = m.random.chance(0.5);
  ValueId v = is_max && m.random.chance(0.2) ? m.leaf(m.random.pick({DType::i8, DType::u8, DType::i32}),
                                                      {m.extent(), 3, m.random.between(3, 7), 5})
                                             : image(m);
  if (!v.valid()) return {};
  const std::size_t axes = m.shape(v).size() - 2;
  ir::Attrs attrs = window(m, axes, m.random.chance(0.3));
  const Ints kernel = places(m, axes);
  Ints pads = attrs.ints("pads");
  for (const std::size_t at : {std::size_t{0}, axes}) {
    if (kernel[0] > 3) pads[at] = m.random.pick({kernel[0] / 2, kernel[0] - 1});  // so that the window fits
  }
  attrs.set("pads", pads);
  // A window in the padding alone has no elements: out of the generator's scope.
  for (std::size_t i = 0; i < 2 * axes; ++i)
    if (pads[i] >= kernel[i % axes]) return {};
  attrs.set("kernel", kernel);
  attrs.set("ceil_mode", m.random.below(2));
  if (is_max) return m.node(TensorOp::max_pool, {v}, attrs);
  attrs.set("count_include_pad", m.random.below(2));
  return m.node(TensorOp::avg_pool, {v}, attrs);
}

// Products of one value side by side: rows of w x^T, or channels of 1x1 convolutions, as an Inception has them.
ValueId branches(Maker& m) {
  const bool rows = m.random.chance(0.4);
  const ValueId x = rows ? float_value(m, 2, 4) : image(m);
  if (!x.valid()) return {};
  const Shape& shape = m.shape(x);
  const Dim k = rows ? shape.back() : shape[1];
  if (!k.is_const() || k.value() < 1) return {};
  const std::size_t axes = shape.size() - 2;
  const int64_t axis = rows ? static_cast<int64_t>(axes) : 1;
  std::vector<ValueId> parts;
  for (int64_t n = m.random.between(2, 3); n > 0; --n) {
    Shape weight = {m.random.between(1, 4), k};
    if (!rows) weight.insert(weight.end(), axes, Dim(1));
    const ValueId w = m.leaf(m.type(x).dtype, weight);
    if (!w.valid()) return {};
    const Ints ones(axes, 1), none(2 * axes, 0);
    parts.push_back(rows ? m.node(TensorOp::matmul, {w, x}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}})
                         : m.node(TensorOp::conv, {x, w},
                                  {{"strides", ones},
                                   {"pads", none},
                                   {"dilations", ones},
                                   {"groups", int64_t{1}},
                                   {"layout", std::string("first")}}));
  }
  return m.node(TensorOp::concat, parts, {{"axis", axis}});
}

// A bias, scale, activation or residual.
ValueId epilogue(Maker& m, ValueId v) {
  if (!v.valid()) return {};
  const DType dtype = m.type(v).dtype;
  const Shape shape = m.shape(v);
  if (!is_float(dtype)) return m.scalar(ScalarOp::relu, {v});
  switch (m.random.below(7)) {
    case 0:
      return shape.empty() ? v : m.scalar(ScalarOp::add, {v, m.leaf(dtype, {shape.back()})});
    case 1: {
      if (shape.size() < 3) return v;
      Shape channel(shape.size() - 1, Dim(1));
      channel[0] = shape[1];
      return m.scalar(m.random.pick({ScalarOp::mul, ScalarOp::add}), {v, m.leaf(dtype, channel)});
    }
    case 2:
      return m.scalar(m.random.pick({ScalarOp::relu, ScalarOp::silu, ScalarOp::gelu, ScalarOp::hard_swish,
                                     ScalarOp::sigmoid, ScalarOp::tanh}),
                      {v});
    case 3: {
      const ValueId residual = m.find([&](const Type& t) { return t.dtype == dtype && t.shape == shape; });
      return m.scalar(m.random.pick({ScalarOp::add, ScalarOp::mul, ScalarOp::max}), {v, residual});
    }
    case 4:
      return m.scalar(ScalarOp::mul, {v, m.number(dtype, 0.125)});
    case 5:
      return m.scalar(ScalarOp::clamp, {v, m.number(dtype, 0), m.number(dtype, 6)});
    default:
      return m.scalar(ScalarOp::hard_sigmoid, {v, m.number(dtype, 0.2), m.number(dtype, 0.5)});
  }
}

}  // namespace

ValueId anchor_node(Maker& m) {
  static const std::vector<Choice> choices = {{3, matmul}, {3, conv}, {1.5, pool}, {0.7, branches}, {1, own_product}};
  ValueId v = pick_one(m, choices);
  for (int64_t n = m.random.below(4); n > 0; --n) v = epilogue(m, v);
  return v;
}

}  // namespace fusec::fuzz
