// SPDX-License-Identifier: Apache-2.0
// Imports the ops that only move elements: Concat, Gather, Pad, Reshape, Slice, Split, Transpose and the like. Those
// that amount to a slice or reshape are imported as such, so that partition can treat them as views.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/fold.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

namespace {

std::size_t at(int64_t axis) { return static_cast<std::size_t>(axis); }

// The extents [begin, end) of a.
Shape joined(const Shape& a, std::size_t begin, std::size_t end) {
  return {a.begin() + static_cast<std::ptrdiff_t>(begin), a.begin() + static_cast<std::ptrdiff_t>(end)};
}

Dim product(const Shape& shape, int64_t begin, int64_t end) { return num_elements(joined(shape, at(begin), at(end))); }

Dim divide_extent(const Dim& a, const Dim& b, const char* what) {
  if (b.is(0)) fail_invalid(fmt::format("{}: an extent is divided by 0", what));
  if (std::optional<Dim> exact = a.exact_div(b)) return *exact;
  if (a.is_const() && b.is_const()) fail_invalid(fmt::format("{}: {} does not divide {}", what, b.str(), a.str()));
  fail_unsupported(fmt::format("{}: whether {} divides {} depends on the extents of inputs", what, b.str(), a.str()));
}

void check_block(int64_t block) {
  if (block < 1) fail_invalid(fmt::format("blocksize must be at least 1, got {}", block));
  if (block > 1 << 15) fail_unsupported(fmt::format("a blocksize of {}; fusec takes at most 32768", block));
}

}  // namespace

void import_identity(NodeContext& c) { c.out(c.in(0)); }

void import_concat(NodeContext& c) {
  std::vector<Val> parts;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) parts.push_back(c.in(i));
  if (parts.empty()) fail_invalid("it has no inputs");
  c.out(concat(c.b, parts, normal_axis(c.i("axis", 1), c.b.rank(parts[0]))));
}

// DCR: [N, b, b, C', H, W] -> [N, C', H, b, W, b]; CRD: [N, C', b, b, H, W] likewise.
void import_depth_to_space(NodeContext& c) {
  Val x = c.in(0);
  int64_t block = c.i("blocksize", 0);
  std::string mode = c.s("mode", "DCR");
  check_block(block);
  if (mode != "DCR" && mode != "CRD") fail_invalid("mode must be DCR or CRD");
  if (c.b.rank(x) != 4) fail_invalid("the operand must have 4 axes");
  const Shape s = c.b.shape(x);
  Dim depth = divide_extent(s[1], block * block, "blocksize");
  bool dcr = mode == "DCR";
  x = reshape(c.b, x,
              dcr ? Shape{s[0], block, block, depth, s[2], s[3]} : Shape{s[0], depth, block, block, s[2], s[3]});
  x = transpose(c.b, x, dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  c.out(reshape(c.b, x, {s[0], depth, s[2] * block, s[3] * block}));
}

void import_space_to_depth(NodeContext& c) {
  Val x = c.in(0);
  int64_t block = c.i("blocksize", 0);
  std::string mode = c.s("mode", "DCR");
  check_block(block);
  if (mode != "DCR" && mode != "CRD") fail_invalid("mode must be DCR or CRD");
  if (c.b.rank(x) != 4) fail_invalid("the operand must have 4 axes");
  const Shape s = c.b.shape(x);
  Dim rows = divide_extent(s[2], block, "blocksize"), columns = divide_extent(s[3], block, "blocksize");
  x = reshape(c.b, x, {s[0], s[1], rows, block, columns, block});
  x = transpose(c.b, x,
                mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  c.out(reshape(c.b, x, {s[0], s[1] * (block * block), rows, columns}));
}

void import_expand(NodeContext& c) {
  const Shape x = c.b.shape(c.in(0)), dims = c.dims(1, "shapes");
  Result<Shape> shape = ir::broadcast_shapes(x, dims);
  if (!shape.ok()) {
    ImportError error(shape.status());
    error.unequal = find_unequal_broadcast(x, dims);
    throw error;
  }
  c.out(broadcast(c.b, c.in(0), *shape));
}

void import_flatten(NodeContext& c) {
  int64_t rank = c.b.rank(c.in(0)), axis = c.i("axis", 1);
  if (axis < -rank || axis > rank) fail_invalid(fmt::format("axis {} is outside [{}, {}]", axis, -rank, rank));
  if (axis < 0) axis += rank;
  const Shape& shape = c.b.shape(c.in(0));
  c.out(reshape(c.b, c.in(0), {product(shape, 0, axis), product(shape, axis, rank)}));
}

void check_indices(const Builder& b, Val index, const Dim& extent) {
  const Tensor* known = b.data(index);
  if (known == nullptr || !extent.is_const() || !is_int(known->dtype())) return;
  for (int64_t i = 0; i < known->num_elements(); ++i) {
    int64_t value = load_i64(*known, i);
    if (value >= -extent.value() && value < extent.value()) continue;
    fail_invalid(fmt::format("index {} is outside an axis of extent {}", value, extent.str()));
  }
}

void import_gather(NodeContext& c) {
  Val x = c.in(0), index = c.in(1);
  int64_t axis = normal_axis(c.i("axis", 0), c.b.rank(x));
  check_indices(c.b, index, c.b.shape(x)[at(axis)]);
  std::optional<std::vector<Dim>> known = c.b.known_integers(index);
  if (!known || known->size() != 1 || !known->front().is_const()) {
    return c.out(c.b.emit(TensorOp::gather, {x, index}, {{"axis", axis}}));
  }
  // A gather of one known index is a slice, which later stages can turn into a view.
  Dim position = known->front(), extent = c.b.shape(x)[at(axis)];
  if (position.value() < 0) position = position + extent;
  Shape result = joined(c.b.shape(x), 0, at(axis));
  result.insert(result.end(), c.b.shape(index).begin(), c.b.shape(index).end());
  Shape rest = joined(c.b.shape(x), at(axis) + 1, at(c.b.rank(x)));
  result.insert(result.end(), rest.begin(), rest.end());
  c.out(reshape(c.b, slice(c.b, x, axis, position, 1), result));
}

void import_gather_elements(NodeContext& c) {
  int64_t axis = normal_axis(c.i("axis", 0), c.b.rank(c.in(0)));
  check_indices(c.b, c.in(1), c.b.shape(c.in(0))[at(axis)]);
  c.out(c.b.emit(TensorOp::gather_elements, {c.in(0), c.in(1)}, {{"axis", axis}}));
}

void import_gather_nd(NodeContext& c) {
  c.out(c.b.emit(TensorOp::gather_nd, {c.in(0), c.in(1)}, {{"batch_dims", c.i("batch_dims", 0)}}));
}

// In the new shape, 0 copies an extent of the operand, unless allowzero is set, and -1 is inferred from the others.
void import_reshape(NodeContext& c) {
  Val x = c.in(0);
  Shape shape = c.dims(1, "shapes");
  bool copies = c.i("allowzero", 0) == 0;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(-1)) {
      if (open) fail_invalid("the shape has two -1");
      open = i;
      shape[i] = 1;
    } else if (shape[i].is(0) && copies) {
      if (i >= c.b.shape(x).size()) fail_invalid("the shape copies an extent that the operand lacks");
      shape[i] = c.b.shape(x)[i];
    } else if (shape[i].is_const() && shape[i].value() < 0) {
      fail_invalid(fmt::format("the shape has the extent {}", shape[i].str()));
    }
  }
  if (open) shape[*open] = divide_extent(num_elements(c.b.shape(x)), num_elements(shape), "the shape");
  c.out(reshape(c.b, x, shape));
}

void import_squeeze(NodeContext& c) {
  Val x = c.in(0);
  std::vector<int64_t> drop;
  if (std::optional<std::vector<int64_t>> axes = c.attr_or_input("axes", 1)) {
    drop = normal_axes(*axes, c.b.rank(x));
  } else {
    for (int64_t i = 0; i < c.b.rank(x); ++i) {
      if (c.b.shape(x)[at(i)].is(1)) drop.push_back(i);
    }
  }
  for (int64_t axis : drop) {
    const Dim& extent = c.b.shape(x)[at(axis)];
    if (extent.is_const() && !extent.is(1))
      fail_invalid(fmt::format("axis {} has extent {}, not 1", axis, extent.str()));
  }
  c.out(drop_axes(c.b, x, drop));
}

void import_unsqueeze(NodeContext& c) {
  std::optional<std::vector<int64_t>> axes = c.attr_or_input("axes", 1);
  if (!axes) fail_invalid("axes are missing");
  int64_t rank = c.b.rank(c.in(0)) + static_cast<int64_t>(axes->size());
  Shape shape = c.b.shape(c.in(0));
  for (int64_t axis : normal_axes(*axes, rank)) shape.insert(shape.begin() + axis, Dim(1));
  c.out(reshape(c.b, c.in(0), shape));
}

// x [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0*d0, r1*d1]
void import_tile(NodeContext& c) {
  Val x = c.in(0);
  std::vector<Dim> repeats = c.dims(1, "repeats");
  if (repeats.size() != c.b.shape(x).size()) fail_invalid("repeats must have one entry per axis");
  Shape split, wide, result;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const Dim& extent = c.b.shape(x)[i];
    if (repeats[i].is_const() && repeats[i].value() < 0) fail_invalid("repeats must not be negative");
    if (!repeats[i].is(1)) split.push_back(1), wide.push_back(repeats[i]);
    split.push_back(extent);
    wide.push_back(extent);
    result.push_back(extent * repeats[i]);
  }
  c.out(reshape(c.b, broadcast(c.b, reshape(c.b, x, split), wide), result));
}

void import_transpose(NodeContext& c) {
  std::vector<int64_t> reversed = range_axes(0, c.b.rank(c.in(0)));
  std::reverse(reversed.begin(), reversed.end());
  c.out(transpose(c.b, c.in(0), c.ints("perm").value_or(reversed)));
}

namespace {

// The sizes of the pieces of an axis of this extent.
std::vector<Dim> split_sizes(const NodeContext& c, const Dim& extent) {
  if (std::optional<std::vector<int64_t>> sizes = c.ints("split")) return {sizes->begin(), sizes->end()};
  if (c.has(1)) return c.dims(1, "split sizes");
  int64_t parts = c.i("num_outputs", static_cast<int64_t>(c.num_outputs()));
  if (parts < 1 || parts != static_cast<int64_t>(c.num_outputs()))
    fail_invalid("num_outputs is not the number of outputs");
  if (c.opset() < 18) return std::vector<Dim>(at(parts), divide_extent(extent, parts, "the number of outputs"));
  std::optional<Dim> exact = extent.exact_div(parts);
  Dim chunk = exact ? *exact : ceildiv(extent, parts);
  std::vector<Dim> sizes(at(parts), chunk);
  sizes.back() = extent - chunk * (parts - 1);
  return sizes;
}

}  // namespace

void import_split(NodeContext& c) {
  Val x = c.in(0);
  int64_t axis = normal_axis(c.i("axis", 0), c.b.rank(x));
  std::vector<Dim> sizes = split_sizes(c, c.b.shape(x)[at(axis)]);
  if (sizes.size() != c.num_outputs()) fail_invalid("the number of split sizes is not the number of outputs");
  const Dim extent = c.b.shape(x)[at(axis)];
  Dim sum = 0, start = 0;
  for (const Dim& size : sizes) {
    if (size.is_const() && size.value() < 0) fail_invalid("a split size is negative");
    sum += size;
  }
  if (sum.is_const() && extent.is_const() && !(sum == extent)) {
    fail_invalid(fmt::format("the split sizes add up to {}, not {}", sum.str(), extent.str()));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (c.wants(i)) c.out(i, slice(c.b, x, axis, start, sizes[i]));
    start += sizes[i];
  }
}

namespace {

struct SliceSpec {
  std::vector<Dim> starts, ends;
  std::vector<int64_t> axes, steps;
};

SliceSpec read_slice(const NodeContext& c) {
  SliceSpec spec;
  std::optional<std::vector<int64_t>> axes, steps;
  if (c.opset() < 10) {
    std::vector<int64_t> starts = c.ints("starts").value_or(std::vector<int64_t>()),
                         ends = c.ints("ends").value_or(starts);
    spec.starts = {starts.begin(), starts.end()};
    spec.ends = {ends.begin(), ends.end()};
    axes = c.ints("axes");
  } else {
    spec.starts = c.dims(1, "starts");
    spec.ends = c.dims(2, "ends");
    if (c.has(3)) axes = c.const_ints(3, "axes");
    if (c.has(4)) steps = c.const_ints(4, "steps");
  }
  std::size_t n = spec.starts.size();
  spec.axes = axes.value_or(range_axes(0, static_cast<int64_t>(n)));
  spec.steps = steps.value_or(std::vector<int64_t>(n, 1));
  if (spec.ends.size() != n || spec.axes.size() != n || spec.steps.size() != n) {
    fail_invalid("starts, ends, axes and steps must have equal lengths");
  }
  return spec;
}

// Counts negative positions from the end, then clamps to [low, high].
Dim clamp_position(const Dim& position, const Dim& extent, const Dim& low, const Dim& high, const Decider& decider) {
  // Sentinels such as INT64_MAX mean "to the end"; no extent comes near them.
  constexpr int64_t kFar = int64_t{1} << 31;
  if (position.is_const() && position.value() >= kFar - 1) return high;
  if (position.is_const() && position.value() <= -kFar) return low;
  std::optional<bool> negative = decider.less(position, 0);
  if (!negative) fail_unsupported(fmt::format("a position whose sign is not known: {}", position.str()));
  return decider.smaller(decider.larger(*negative ? position + extent : position, low), high);
}

}  // namespace

void import_slice(NodeContext& c) {
  SliceSpec spec = read_slice(c);
  Val x = c.in(0);
  normal_axes(spec.axes, c.b.rank(x));
  const Decider decider = c.b.decider();
  Shape sizes = c.b.shape(x), starts(sizes.size(), Dim(0));
  std::vector<int64_t> steps(sizes.size(), 1);
  for (std::size_t i = 0; i < spec.axes.size(); ++i) {
    std::size_t axis = at(normal_axis(spec.axes[i], c.b.rank(x)));
    const Dim extent = sizes[axis];
    int64_t step = spec.steps[i];
    if (step == 0) fail_invalid(fmt::format("the step of axis {} is 0", axis));
    if (step == INT64_MIN) fail_unsupported(fmt::format("a step of {}", step));  // -step would overflow
    // With a positive step the range is [start, end) in [0, extent]; with a negative one it is (end, start] in [-1,
    // extent - 1].
    Dim low = step > 0 ? Dim(0) : Dim(-1), high = step > 0 ? extent : extent - 1;
    Dim start = clamp_position(spec.starts[i], extent, step > 0 ? low : Dim(0), high, decider);
    Dim end = clamp_position(spec.ends[i], extent, low, high, decider);
    Dim length = step > 0 ? end - start : start - end;
    Dim size = decider.larger(ceildiv(length, step > 0 ? step : -step), 0);
    // An empty range is normalized to start 0, and a range of at most one element to step 1.
    starts[axis] = size.is(0) ? Dim(0) : start;
    steps[axis] = size.is(0) || size.is(1) ? 1 : step;
    sizes[axis] = size;
  }
  bool is_whole = sizes == c.b.shape(x) && std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  c.out(is_whole ? x : c.b.emit(TensorOp::slice, {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}));
}

namespace {

struct PadSpec {
  Shape before, after;
};

PadSpec read_pads(const NodeContext& c, int64_t rank) {
  std::vector<Dim> pads;
  if (c.opset() < 11) {
    std::vector<int64_t> values = c.ints("pads").value_or(std::vector<int64_t>());
    pads = {values.begin(), values.end()};
  } else {
    pads = c.dims(1, "pads");
  }
  std::vector<int64_t> axes = range_axes(0, rank);
  if (c.has(3)) {
    axes = c.const_ints(3, "axes");
    normal_axes(axes, rank);
  }
  if (pads.size() != 2 * axes.size()) fail_invalid("pads must have two entries per axis");
  PadSpec spec{Shape(at(rank), Dim(0)), Shape(at(rank), Dim(0))};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::size_t axis = at(normal_axis(axes[i], rank));
    spec.before[axis] = pads[i];
    spec.after[axis] = pads[i + axes.size()];
  }
  return spec;
}

// Slices off what negative pads remove, and sets these pads to 0.
Val crop(Builder& b, Val x, PadSpec& spec) {
  for (int64_t axis = 0; axis < b.rank(x); ++axis) {
    Dim &before = spec.before[at(axis)], &after = spec.after[at(axis)];
    auto cut = [](Dim& pad) {
      if (!pad.is_const() || pad.value() >= 0) return Dim(0);
      Dim amount = -pad;
      pad = 0;
      return amount;
    };
    Dim low = cut(before), high = cut(after), left = b.shape(x)[at(axis)] - low - high;
    if (low.is(0) && high.is(0)) continue;
    if (left.is_const() && left.value() < 0) fail_invalid("negative pads take more than there is");
    x = slice(b, x, axis, low, left);
  }
  return x;
}

}  // namespace

void import_pad(NodeContext& c) {
  Val x = c.in(0), value;
  std::string mode = c.s("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    fail_invalid("mode is '" + short_name(mode) + "'");
  if (c.opset() < 11) {
    value = c.b.scalar(c.b.dtype(x), c.f("value", 0));
  } else {
    value = c.has(2) ? reshape(c.b, c.in(2), {}) : c.b.scalar(c.b.dtype(x), 0);
  }
  PadSpec spec = read_pads(c, c.b.rank(x));
  x = crop(c.b, x, spec);
  Shape none(spec.before.size(), Dim(0));
  if (spec.before == none && spec.after == none) return c.out(x);
  std::vector<Val> operands = {x};
  if (mode == "constant") operands.push_back(value);
  c.out(c.b.emit(TensorOp::pad, operands, {{"before", spec.before}, {"after", spec.after}, {"mode", mode}}));
}

// With `upper`, keeps elements where column - row >= k; else those where column - row <= k. Others become 0.
void import_trilu(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0);
  int64_t rank = b.rank(x);
  if (rank < 2) fail_invalid("the operand must have two axes or more");
  Val k = c.has(1) ? reshape(b, c.in(1), {}) : b.scalar(DType::i64, 0);
  const Dim rows = b.shape(x)[at(rank - 2)], columns = b.shape(x)[at(rank - 1)];
  Val row = add(b, iota(b, {rows, 1}, 0, DType::i64), k), column = iota(b, {1, columns}, 1, DType::i64);
  Val keep = binary(b, c.i("upper", 1) != 0 ? ScalarOp::ge : ScalarOp::le, column, row);
  c.out(b.emit(ScalarOp::where, {keep, x, b.scalar(b.dtype(x), 0)}));
}

}  // namespace fusec::importer
