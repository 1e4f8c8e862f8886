// SPDX-License-Identifier: Apache-2.0
// Type rules of sources, index maps (reshape, slice, gather, pad, ...) and scatters. They prove what constant extents
// decide and leave the rest to run time.

#include <algorithm>

#include "ir/graph/infer_rules.h"

namespace fusec::ir::infer {
namespace {

Status check_count(std::size_t got, int rank, const char* what) {
  if (got == static_cast<std::size_t>(rank)) return Status();
  return bad(std::string(what) + " must have one entry per axis: expected " + str(rank) + ", got " +
             str(static_cast<int64_t>(got)));
}

Status check_index(const Type& type) {
  if (type.dtype == DType::i64 || type.dtype == DType::i32) return Status();
  return bad("indices must be i32 or i64, got " + to_string(type));
}

Shape concat_shapes(const Shape& a, const Shape& b, const Shape& c = {}) {
  Shape out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

}  // namespace

Result<Type> infer_constant(const Args&, const Attrs&) {
  return bad("a constant's type is that of its data; use add_constant");
}

Result<Type> infer_iota(const Args&, const Attrs& attrs) {
  const Shape& shape = attrs.dims("shape");
  FUSEC_TRY(check_axis(attrs.i("axis"), static_cast<int>(shape.size()), "axis"));
  if (attrs.dtype("dtype") == DType::bool_) return bad("the type must be a number, got bool");
  return Type{attrs.dtype("dtype"), shape};
}

Result<Type> infer_dim(const Args&, const Attrs& attrs) {
  if (attrs.dims("value").size() != 1)
    return bad("value must be one expression, got " + to_string(attrs.dims("value")));
  if (attrs.dtype("dtype") == DType::bool_) return bad("the type must be a number, got bool");
  return Type{attrs.dtype("dtype"), {}};
}

Result<Type> infer_broadcast(const Args& in, const Attrs& attrs) {
  const Shape& shape = attrs.dims("shape");
  FUSEC_ASSIGN(const Shape both, broadcast_shapes(in[0].shape, shape));
  if (!(both == shape)) return differ(both, shape, to_string(in[0]) + " does not broadcast to " + to_string(shape));
  return Type{in[0].dtype, shape};
}

Result<Type> infer_reshape(const Args& in, const Attrs& attrs) {
  const Shape& shape = attrs.dims("shape");
  FUSEC_TRY(check_extents(shape, "the shape"));
  const Dim from = num_elements(in[0].shape), to = num_elements(shape);
  if (!(from == to)) {
    return differ(from, to,
                  "element counts differ: " + to_string(in[0].shape) + " has " + from.str() + ", " + to_string(shape) +
                      " has " + to.str());
  }
  return Type{in[0].dtype, shape};
}

Result<Type> infer_transpose(const Args& in, const Attrs& attrs) {
  const std::vector<int64_t>& perm = attrs.ints("perm");
  FUSEC_TRY(check_count(perm.size(), in[0].rank(), "perm"));
  std::vector<bool> seen(perm.size());
  Shape shape;
  for (int64_t axis : perm) {
    FUSEC_TRY(check_axis(axis, in[0].rank(), "perm entry"));
    const std::size_t a = static_cast<std::size_t>(axis);
    if (seen[a]) return bad("perm names axis " + str(axis) + " twice");
    seen[a] = true;
    shape.push_back(in[0].shape[a]);
  }
  return Type{in[0].dtype, shape};
}

namespace {

// If all is constant, the first and last element of a slice axis must lie inside the axis.
Status check_slice_axis(const Dim& extent, const Dim& start, const Dim& size, int64_t step, int64_t axis) {
  if (step == 0) return bad("the step of axis " + str(axis) + " is 0");
  if (size.is(0)) return Status();
  const Dim last = start + step * (size - 1);
  for (const Dim& index : {start, last}) {
    const Dim room = extent - 1 - index;
    if ((index.is_const() && index.value() < 0) || (room.is_const() && room.value() < 0)) {
      return bad("axis " + str(axis) + " of extent " + extent.str() + " has no element " + index.str());
    }
  }
  return Status();
}

}  // namespace

Result<Type> infer_slice(const Args& in, const Attrs& attrs) {
  const Shape &starts = attrs.dims("starts"), &sizes = attrs.dims("sizes");
  const std::vector<int64_t>& steps = attrs.ints("steps");
  FUSEC_TRY(check_count(starts.size(), in[0].rank(), "starts"));
  FUSEC_TRY(check_count(sizes.size(), in[0].rank(), "sizes"));
  FUSEC_TRY(check_count(steps.size(), in[0].rank(), "steps"));
  FUSEC_TRY(check_extents(sizes, "sizes"));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    FUSEC_TRY(check_slice_axis(in[0].shape[i], starts[i], sizes[i], steps[i], static_cast<int64_t>(i)));
  }
  return Type{in[0].dtype, sizes};
}

Result<Type> infer_unfold(const Args& in, const Attrs& attrs) {
  const Shape& sizes = attrs.dims("sizes");
  const std::vector<int64_t>& steps = attrs.ints("steps");
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  if (sizes.size() != 2 || steps.size() != 2)
    return bad("sizes and steps must have one entry for windows, one for places");
  FUSEC_TRY(check_extents(sizes, "sizes"));
  if (steps[0] < 1 || steps[1] < 1) return bad("steps must be 1 or more");
  const auto axis = static_cast<std::size_t>(attrs.i("axis"));
  if (!sizes[0].is(0) && !sizes[1].is(0)) {
    const Dim last = (sizes[0] - 1) * steps[0] + (sizes[1] - 1) * steps[1];
    FUSEC_TRY(check_slice_axis(in[0].shape[axis], last, 1, 1, attrs.i("axis")));
  }
  Shape shape = in[0].shape;
  shape[axis] = sizes[0];
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, sizes[1]);
  return Type{in[0].dtype, shape};
}

Result<Type> infer_concat(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  const std::size_t axis = static_cast<std::size_t>(attrs.i("axis"));
  Type out = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) {
    Shape rest = in[i].shape;
    if (rest.size() == out.shape.size()) rest[axis] = out.shape[axis];
    if (in[i].dtype != out.dtype || !(rest == out.shape)) {
      const std::string message = "operands must agree in all but axis " + str(static_cast<int64_t>(axis)) + ": got " +
                                  to_string(in[0]) + " and " + to_string(in[i]);
      if (in[i].dtype != out.dtype || rest.size() != out.shape.size()) return bad(message);
      const auto [a, b] = std::mismatch(rest.begin(), rest.end(), out.shape.begin());
      return differ(*a, *b, message);
    }
    out.shape[axis] += in[i].shape[axis];
  }
  return out;
}

Result<Type> infer_pad(const Args& in, const Attrs& attrs) {
  const Shape &before = attrs.dims("before"), &after = attrs.dims("after");
  const std::string& mode = attrs.s("mode");
  FUSEC_TRY(check_count(before.size(), in[0].rank(), "before"));
  FUSEC_TRY(check_count(after.size(), in[0].rank(), "after"));
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return bad("mode must be constant, reflect, edge or wrap, got '" + mode + "'");
  }
  if (in.size() == 2 && (in[1].rank() != 0 || in[1].dtype != in[0].dtype)) {
    return bad("the pad value must be a scalar of the operand's type, got " + to_string(in[1]));
  }
  Type out = in[0];
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Dim &extent = in[0].shape[i], &lo = before[i], &hi = after[i];
    const std::string where = "axis " + str(static_cast<int64_t>(i)) + " of extent " + extent.str();
    for (const Dim& side : {lo, hi}) {
      if (mode == "reflect" && side.is_const() && extent.is_const() && side.value() > 0 &&
          side.value() >= extent.value()) {
        // ONNX does not exclude this; its reference implementation reflects again at the other end.
        return Status(StatusCode::unsupported, where + " reflected by " + side.str());
      }
      if (mode != "constant" && extent.is(0) && !side.is(0)) return bad(where + " has nothing to repeat");
    }
    out.shape[i] = lo + extent + hi;
  }
  return out;
}

Result<Type> infer_gather(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_index(in[1]));
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  const auto axis = in[0].shape.begin() + attrs.i("axis");
  return Type{in[0].dtype, concat_shapes({in[0].shape.begin(), axis}, in[1].shape, {axis + 1, in[0].shape.end()})};
}

Result<Type> infer_gather_elements(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_index(in[1]));
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  FUSEC_TRY(check_rank(in[1], in[0].shape.size(), "indices"));
  for (std::size_t i = 0; i < in[0].shape.size(); ++i) {
    const Dim room = in[0].shape[i] - in[1].shape[i];
    if (static_cast<int64_t>(i) != attrs.i("axis") && room.is_const() && room.value() < 0) {
      return bad("indices " + to_string(in[1]) + " pass the operand " + to_string(in[0]) + " on axis " +
                 str(static_cast<int64_t>(i)));
    }
  }
  return Type{in[0].dtype, in[1].shape};
}

static Status unknown_depth(const Dim& depth) {
  return Status(StatusCode::unsupported, "a last extent of indices, " + depth.str() + ", that is not known");
}

// in[1] is [batch..., outer..., depth]; each innermost row indexes `depth` axes of the operand after the batch axes.
Result<Type> infer_gather_nd(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_index(in[1]));
  const int64_t batch = attrs.i("batch_dims");
  const Shape &data = in[0].shape, &index = in[1].shape;
  if (batch < 0 || batch >= std::min(in[0].rank(), in[1].rank())) {
    return bad("batch_dims " + str(batch) + " is not below both ranks: " + to_string(in[0]) + " and " +
               to_string(in[1]));
  }
  const Dim& depth = index.back();
  if (!depth.is_const()) return unknown_depth(depth);
  if (depth.value() < 1 || depth.value() > in[0].rank() - batch) {
    return bad("the last extent of indices, " + depth.str() + ", must be from 1 to " + str(in[0].rank() - batch));
  }
  for (int64_t i = 0; i < batch; ++i) {
    const std::size_t a = static_cast<std::size_t>(i);
    if (!(data[a] == index[a]))
      return differ(data[a], index[a], "batch extents " + data[a].str() + " and " + index[a].str() + " differ");
  }
  return Type{in[0].dtype,
              concat_shapes({index.begin(), index.end() - 1}, {data.begin() + batch + depth.value(), data.end()})};
}

namespace {

// Checks what both scatters require of (data, indices, updates), except the extents of the updates.
Status check_scatter(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_index(in[1]));
  if (in[2].dtype != in[0].dtype) {
    return bad("updates must have the operand's type: got " + to_string(in[2]) + " for " + to_string(in[0]));
  }
  const std::string& reduction = attrs.s("reduction");
  for (const char* known : {"none", "add", "mul", "max", "min"})
    if (reduction == known) return Status();
  return bad("reduction must be none, add, mul, max or min, got '" + reduction + "'");
}

Status check_updates(const Type& updates, const Shape& expected) {
  if (updates.shape == expected) return Status();
  return differ(updates.shape, expected,
                "updates must have shape " + to_string(expected) + ", got " + to_string(updates));
}

}  // namespace

Result<Type> infer_scatter_elements(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_scatter(in, attrs));
  FUSEC_TRY(check_updates(in[2], in[1].shape));
  FUSEC_TRY(infer_gather_elements({in[0], in[1]}, attrs).status());
  return in[0];
}

// in[1] is [outer..., depth]; in[2] is [outer..., the operand's axes after the first `depth`].
Result<Type> infer_scatter_nd(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_scatter(in, attrs));
  FUSEC_ASSIGN(const Type rows, infer_gather_nd({in[0], in[1]}, {{"batch_dims", int64_t{0}}}));
  FUSEC_TRY(check_updates(in[2], rows.shape));
  return in[0];
}

}  // namespace fusec::ir::infer
