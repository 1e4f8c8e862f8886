// SPDX-License-Identifier: Apache-2.0
// Type rules of reductions, topk, cumsum, matmul, convolutions and poolings. They prove what constant extents decide
// and leave the rest to run time.

#include <algorithm>

#include "fusec/custom_call.h"
#include "ir/graph/infer_rules.h"

namespace fusec::ir::infer {
namespace {

Status check_number(const Type& type, const char* what = "the operand") {
  if (type.dtype != DType::bool_) return Status();
  return bad(std::string(what) + " must be of a number type, got " + to_string(type));
}

Status check_float(const Type& type, const char* what) {
  if (is_float(type.dtype)) return Status();
  return bad(std::string(what) + " must be of a float type, got " + to_string(type));
}

Status check_flag(const Attrs& attrs, const char* name) {
  const int64_t v = attrs.i(name);
  if (v == 0 || v == 1) return Status();
  return bad(std::string(name) + " must be 0 or 1, got " + str(v));
}

Result<Shape> without_axes(const Shape& shape, const std::vector<int64_t>& axes) {
  std::vector<bool> drop(shape.size());
  for (int64_t axis : axes) {
    FUSEC_TRY(check_axis(axis, static_cast<int>(shape.size()), "axis"));
    if (drop[static_cast<std::size_t>(axis)]) return bad("axis " + str(axis) + " is named twice");
    drop[static_cast<std::size_t>(axis)] = true;
  }
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!drop[i]) out.push_back(shape[i]);
  }
  return out;
}

Result<Type> infer_reduce(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_number(in[0]));
  FUSEC_ASSIGN(Shape shape, without_axes(in[0].shape, attrs.ints("axes")));
  return Type{in[0].dtype, std::move(shape)};
}

Result<Type> infer_arg(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_number(in[0]));
  FUSEC_TRY(check_flag(attrs, "last"));
  FUSEC_ASSIGN(Shape shape, without_axes(in[0].shape, {attrs.i("axis")}));
  if (in[0].shape[static_cast<std::size_t>(attrs.i("axis"))].is(0))
    return bad("axis " + str(attrs.i("axis")) + " of " + to_string(in[0]) + " is empty");
  return Type{DType::i64, std::move(shape)};
}

}  // namespace

Result<Type> infer_reduce_sum(const Args& in, const Attrs& attrs) { return infer_reduce(in, attrs); }
Result<Type> infer_reduce_prod(const Args& in, const Attrs& attrs) { return infer_reduce(in, attrs); }
Result<Type> infer_reduce_mean(const Args& in, const Attrs& attrs) { return infer_reduce(in, attrs); }

// Over an empty axis, floats give -inf or +inf, integers their lowest or highest value.
Result<Type> infer_reduce_max(const Args& in, const Attrs& attrs) { return infer_reduce(in, attrs); }
Result<Type> infer_reduce_min(const Args& in, const Attrs& attrs) { return infer_reduce(in, attrs); }

Result<Type> infer_argmax(const Args& in, const Attrs& attrs) { return infer_arg(in, attrs); }
Result<Type> infer_argmin(const Args& in, const Attrs& attrs) { return infer_arg(in, attrs); }

Result<Type> infer_topk(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_number(in[0]));
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  FUSEC_TRY(check_flag(attrs, "largest"));
  if (attrs.dims("k").size() != 1) return bad("k must be one expression, got " + to_string(attrs.dims("k")));
  FUSEC_TRY(check_extents(attrs.dims("k"), "k"));
  const Dim& k = attrs.dims("k")[0];
  Type out{DType::i64, in[0].shape};
  Dim& extent = out.shape[static_cast<std::size_t>(attrs.i("axis"))];
  const Dim room = extent - k;
  if (room.is_const() && room.value() < 0) {
    return bad("k is " + k.str() + ", axis " + str(attrs.i("axis")) + " of " + to_string(in[0]) + " has fewer");
  }
  extent = k;
  return out;
}

Result<Type> infer_cumsum(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_number(in[0]));
  FUSEC_TRY(check_axis(attrs.i("axis"), in[0].rank(), "axis"));
  FUSEC_TRY(check_flag(attrs, "exclusive"));
  FUSEC_TRY(check_flag(attrs, "reverse"));
  return in[0];
}

Result<Type> infer_matmul(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_flag(attrs, "transpose_a"));
  FUSEC_TRY(check_flag(attrs, "transpose_b"));
  const std::string both = to_string(in[0]) + " and " + to_string(in[1]);
  if (in[0].dtype != in[1].dtype) return bad("operands must have one type, got " + both);
  FUSEC_TRY(check_number(in[0]));
  if (in[0].rank() < 1 || in[1].rank() < 1) return bad("operands must have rank 1 or more, got " + both);
  // numpy's rule: a vector on the left is a row, on the right a column, and its axis is removed from the result.
  Shape a = in[0].shape, b = in[1].shape;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (attrs.i("transpose_a") && !row) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (attrs.i("transpose_b") && !column) std::swap(b[b.size() - 1], b[b.size() - 2]);
  const Dim &ka = a[a.size() - 1], &kb = b[b.size() - 2];
  if (!(ka == kb))
    return differ(ka, kb, "inner extents " + ka.str() + " and " + kb.str() + " differ: operands are " + both);
  FUSEC_ASSIGN(Shape shape, broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
  if (!row) shape.push_back(a[a.size() - 2]);
  if (!column) shape.push_back(b[b.size() - 1]);
  return Type{in[0].dtype, std::move(shape)};
}

// The number of heads of q that share one of k and v must be known.
Result<Type> infer_custom_call(const Args& in, const Attrs& attrs) {
  if (attrs.s("name").empty()) return bad("a custom call needs the name of its function");
  if (in.size() > kMaxCallInputs) return bad("a custom call has at most " + str(kMaxCallInputs) + " inputs");
  FUSEC_TRY(check_extents(attrs.dims("shape"), "the result"));
  return Type{attrs.dtype("dtype"), attrs.dims("shape")};
}

Result<Type> infer_attention(const Args& in, const Attrs& attrs) {
  const Type &q = in[0], &k = in[1], &v = in[2];
  for (const Type& type : {q, k, v}) FUSEC_TRY(check_rank(type, 4, "query, key and value"));
  FUSEC_TRY(check_float(q, "the query"));
  const std::string all = to_string(q) + ", " + to_string(k) + " and " + to_string(v);
  if (k.dtype != q.dtype || v.dtype != q.dtype) return bad("query, key and value must have one type, got " + all);
  const Shape expected{q.shape[0], v.shape[1], v.shape[2], q.shape[3]};
  if (!(k.shape == expected) || !(v.shape[0] == q.shape[0])) {
    return differ({k.shape[0], k.shape[1], k.shape[2], k.shape[3], v.shape[0]},
                  {q.shape[0], v.shape[1], v.shape[2], q.shape[3], q.shape[0]},
                  "the shapes of query, key and value do not fit: " + all);
  }
  const Dim &heads = q.shape[1], &shared = k.shape[1];
  const bool splits =
      heads.is_const() && shared.is_const() && shared.value() > 0 && heads.value() % shared.value() == 0;
  if (!(heads == shared) && !splits) return bad(heads.str() + " heads of queries do not share " + shared.str());
  FUSEC_TRY(check_flag(attrs, "causal"));
  if (attrs.i("causal") == 1) {
    if (in.size() > 3) return bad("a causal attention has no mask");
    const Dim stored = k.shape[2] - q.shape[2];
    if (!proves_nonneg(stored, {})) {
      const std::string message = "a causal attention has no more queries than keys, got " + all;
      return stored.is_const() ? bad(message)
                               : Status(StatusCode::unsupported, message + "; which are more is not known");
    }
  }
  if (in.size() > 3) {
    const Shape scores{q.shape[0], heads, q.shape[2], k.shape[2]};
    FUSEC_TRY(check_float(in[3], "the mask"));
    FUSEC_ASSIGN(const Shape shape, broadcast_shapes(in[3].shape, scores));
    if (!(shape == scores)) return differ(shape, scores, "the mask must broadcast to " + to_string(scores));
    if (in[3].shape.empty() || !(in[3].shape.back() == k.shape[2]))
      return bad("the mask must have a value per key, got " + to_string(in[3]));
  }
  return Type{q.dtype, {q.shape[0], heads, q.shape[2], v.shape[3]}};
}

namespace {

// The sliding window of a convolution or pooling over n spatial axes.
struct Window {
  std::vector<Dim> kernel;
  std::vector<int64_t> strides, pads, dilations;  // pads: all begins, then all ends
  bool ceil_mode = false;
};

Status check_window(const Window& w, std::size_t axes) {
  const auto expect = [](std::size_t got, std::size_t n, const char* what) {
    if (got == n) return Status();
    return bad(std::string(what) + " must have " + std::to_string(n) + " entries, got " + std::to_string(got));
  };
  FUSEC_TRY(expect(w.kernel.size(), axes, "kernel"));
  FUSEC_TRY(expect(w.strides.size(), axes, "strides"));
  FUSEC_TRY(expect(w.dilations.size(), axes, "dilations"));
  FUSEC_TRY(expect(w.pads.size(), 2 * axes, "pads"));
  const auto below = [](int64_t least) { return [least](int64_t v) { return v < least; }; };
  if (std::any_of(w.strides.begin(), w.strides.end(), below(1))) return bad("strides must be at least 1");
  if (std::any_of(w.dilations.begin(), w.dilations.end(), below(1))) return bad("dilations must be at least 1");
  if (std::any_of(w.pads.begin(), w.pads.end(), below(0))) return bad("pads must be at least 0");
  if (std::any_of(w.kernel.begin(), w.kernel.end(), [](const Dim& k) { return k.is_const() && k.value() < 1; })) {
    return bad("kernel extents must be at least 1");
  }
  return Status();
}

// floordiv(H + pads - (dilation*(k-1) + 1), stride) + 1. With ceil_mode the division rounds up, but a window may not
// start in the end padding, so there are at most floordiv(H + begin - 1, stride) + 1 starts.
Result<Dim> window_extent(const Dim& extent, const Window& w, std::size_t i) {
  const int64_t begin = w.pads[i], end = w.pads[i + w.strides.size()], stride = w.strides[i];
  const Dim dilated_extent = w.dilations[i] * (w.kernel[i] - 1) + 1, room = extent + begin + end - dilated_extent;
  if (room.is_const() && room.value() < 0) {
    return bad("the window of " + dilated_extent.str() + " does not fit the padded extent " +
               (extent + begin + end).str() + " of spatial axis " + str(static_cast<int64_t>(i)));
  }
  if (!w.ceil_mode) return floordiv(room, stride) + 1;
  return min(ceildiv(room, stride), floordiv(extent + begin - 1, stride)) + 1;
}

Result<bool> channels_last(const std::string& layout) {
  if (layout == "first" || layout == "last") return layout == "last";
  return bad("layout must be first or last, got '" + layout + "'");
}

// Replaces the spatial extents of `type`.
Result<Type> slide(Type type, const Window& w, bool last) {
  const std::size_t axes = type.shape.size() - 2, first = last ? 1 : 2;
  FUSEC_TRY(check_window(w, axes));
  for (std::size_t i = 0; i < axes; ++i) {
    FUSEC_ASSIGN(type.shape[first + i], window_extent(type.shape[first + i], w, i));
  }
  return type;
}

Result<Type> infer_pool(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_flag(attrs, "ceil_mode"));
  FUSEC_ASSIGN(const bool last, channels_last(attrs.s("layout")));
  if (in[0].rank() < 3)
    return bad("the operand must have a batch, a channel and spatial axes, got " + to_string(in[0]));
  const std::vector<int64_t>& kernel = attrs.ints("kernel");
  return slide(in[0],
               {{kernel.begin(), kernel.end()},
                attrs.ints("strides"),
                attrs.ints("pads"),
                attrs.ints("dilations"),
                attrs.i("ceil_mode") == 1},
               last);
}

}  // namespace

Result<Type> infer_max_pool(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_number(in[0]));
  return infer_pool(in, attrs);
}

Result<Type> infer_avg_pool(const Args& in, const Attrs& attrs) {
  FUSEC_TRY(check_float(in[0], "the operand"));
  FUSEC_TRY(check_flag(attrs, "count_include_pad"));
  return infer_pool(in, attrs);
}

Result<Type> infer_conv(const Args& in, const Attrs& attrs) {
  FUSEC_ASSIGN(const bool last, channels_last(attrs.s("layout")));
  const Type &x = in[0], &w = in[1];
  FUSEC_TRY(check_number(x));
  for (const Type& type : in) {
    if (type.dtype != x.dtype)
      return bad("operands must have one type, got " + to_string(x) + " and " + to_string(type));
  }
  if (x.rank() < 3) return bad("the operand must have a batch, a channel and spatial axes, got " + to_string(x));
  FUSEC_TRY(check_rank(w, x.shape.size(), "the filter"));
  const int64_t groups = attrs.i("groups");
  if (groups < 1) return bad("groups must be at least 1, got " + str(groups));
  const std::size_t channel = last ? x.shape.size() - 1 : 1;
  if (!(x.shape[channel] == w.shape[1] * groups)) {
    return differ(x.shape[channel], w.shape[1] * groups,
                  "the operand has " + x.shape[channel].str() + " channels, the filter takes " + w.shape[1].str() +
                      " in each of " + str(groups) + " groups");
  }
  if (const std::optional<Dim> filters = w.shape[0].exact_div(groups); !filters) {
    const std::string message = w.shape[0].str() + " filters do not split into " + str(groups) + " groups";
    if (w.shape[0].is_const()) return bad(message);
    return Status(StatusCode::unsupported, message + ", unless the extents of inputs are such");
  }
  if (in.size() == 3 && !(in[2].shape == Shape{w.shape[0]})) {
    return differ(in[2].shape, {w.shape[0]},
                  "the bias must have shape [" + w.shape[0].str() + "], got " + to_string(in[2]));
  }
  Type out = x;
  out.shape[channel] = w.shape[0];
  return slide(
      std::move(out),
      {{w.shape.begin() + 2, w.shape.end()}, attrs.ints("strides"), attrs.ints("pads"), attrs.ints("dilations")}, last);
}

}  // namespace fusec::ir::infer
