// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes the convolutions that no library of the target computes into a matrix product of patches.
// A patch is what one position of the window reads, with zeros in the padding.
//
//   y[n, o..., f] = bias[f] + sum over t, c of patches[n, o..., t, c] * w[f, t, c]
//   patches[n, o..., t, c] = padded[n, o * stride + t * dilation ..., c]
//
// Groups are a batch axis of the product. Where no library multiplies matrices either, sums of 16-bit types are f32 and
// the result is rounded once.
//
// On a GPU, 16-bit convolutions of few channels, such as of an image with three, are written out as sums of products
// even where a library computes them: a kernel makes the patches as it multiplies them, where libraries take a multiple
// of the time of the traffic. A patch then has its channels in front and zeros behind each line of the window:
//
//   y[n, o..., f] = bias[f] + sum over c, t of f32(patches[n, o..., 1, c, t]) * f32(w[f, c, t])
//
// Zeros of w meet elements beside a window: a NaN or an infinity there makes NaN, so exact mode leaves this out.

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/kernel/kernel.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {
namespace {

using Axes = std::vector<int64_t>;

// The most products for each element of a row of terms and results, k n / (k + n). Measured for first layers of image
// models with 16 to 46. The patches of vision transformers have 384, which libraries multiply well.
constexpr double kMaxPatchIntensity = 60;

class Convolution : Expansion {
 public:
  // `own_product`: no library multiplies matrices.
  Convolution(Graph& graph, const Node& node, bool own_product)
      : Expansion(graph, node),
        last_(node.attrs.s("layout") == "last"),
        spatial_(type(in(0)).shape.size() - 2),
        groups_(node.attrs.i("groups")),
        dtype_(type(in(0)).dtype),
        compute_(own_product && is_float(dtype_) ? compute_type(dtype_) : dtype_) {}

  // By a matrix product, which a library computes.
  ValueId build_product() {
    const Shape out = last_ ? type(node_.output).shape : moved(type(node_.output).shape, 1, spatial_ + 1);
    const ValueId y = groups_ == 1 ? product(out) : product_of_groups(out);
    return last_ ? y : transpose(y, spatial_ + 1, 1);
  }

  // By a sum of products for each result, with rows for the positions and columns for the filters of a group.
  ValueId build_sum() {
    const ValueId listed = patches(), w = transpose(in(1), 1, spatial_ + 1);
    const Shape from = type(listed).shape, filter = type(w).shape;
    const Dim channels = filter.back(), of_group = *filter[0].exact_div(groups_);
    const Dim depth = volume(filter, 1, filter.size());
    Shape rows(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(spatial_) + 1), columns;
    ValueId a = listed;
    if (groups_ > 1) {
      Shape split = from;
      split.back() = groups_;
      split.push_back(channels);
      a = transpose(reshape(a, split), from.size() - 1, spatial_ + 1);
      rows.push_back(groups_), columns.push_back(groups_);
    }
    rows.insert(rows.end(), {Dim(1), depth}), columns.insert(columns.end(), {of_group, depth});
    ValueId y = sum_of_products(reshape(a, rows), reshape(w, columns));
    y = reshape(y, last_ ? type(node_.output).shape : moved(type(node_.output).shape, 1, spatial_ + 1));
    y = cast(with_bias(y), dtype_);
    return last_ ? y : transpose(y, spatial_ + 1, 1);
  }

  // The same, of patches that begin with their channels.
  ValueId build_sum_of_lines() {
    const int64_t window = type(in(1)).shape.back().value(), line = padded_line(window);
    Shape after(spatial_ + 2, 0);
    after.back() = Dim(line - window);
    ValueId w = in(1);
    if (line != window)
      w = node(TensorOp::pad, {w, number(dtype_, 0)},
               {{"before", Shape(after.size(), 0)}, {"after", after}, {"mode", std::string("constant")}});
    const ValueId listed = patches(line, true);
    const Shape from = type(listed).shape, filter = type(w).shape;
    const Dim depth = volume(filter, 1, filter.size());
    Shape rows(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(spatial_) + 1);
    rows.insert(rows.end(), {Dim(1), depth});
    const ValueId y = cast(with_bias(sum_of_products(reshape(listed, rows), reshape(w, {filter[0], depth}))), dtype_);
    return last_ ? y : transpose(y, spatial_ + 1, 1);
  }

  // The positions of a line of the window, with zeros that make of it whole accesses.
  static int64_t padded_line(int64_t window) { return window <= 2 ? 2 : (window + 3) / 4 * 4; }

 private:
  // The list with one item moved to another place.
  template <class List>
  static List moved(List list, std::size_t from, std::size_t to) {
    const auto item = list[from];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(from));
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), item);
    return list;
  }
  ValueId transpose(ValueId v, const Axes& perm) {
    return std::is_sorted(perm.begin(), perm.end()) ? v : node(TensorOp::transpose, {v}, {{"perm", perm}});
  }
  ValueId transpose(ValueId v, std::size_t from, std::size_t to) {
    Axes perm(type(v).shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    return transpose(v, moved(perm, from, to));
  }
  static Dim volume(const Shape& shape, std::size_t from, std::size_t to) {
    Dim all = 1;
    for (std::size_t i = from; i < to; ++i) all = all * shape[i];
    return all;
  }

  // [n, o..., t..., c], or [n, o..., c, t...] with the channels in front. Lines of the window have `line` positions.
  ValueId patches(int64_t line, bool channels_in_front) {
    const auto &strides = node_.attrs.ints("strides"), &pads = node_.attrs.ints("pads"),
               &dilations = node_.attrs.ints("dilations");
    const Shape &filter = type(in(1)).shape, &out = type(node_.output).shape;
    ValueId v = last_ ? in(0) : transpose(in(0), 1, spatial_ + 1);
    for (std::size_t i = spatial_; i-- > 0;) {
      const Shape shape = type(v).shape;
      const int64_t window = i + 1 == spatial_ ? line : filter[i + 2].value();
      const ir::PoolAxis axis{shape[i + 1], out[i + (last_ ? 1 : 2)], window, strides[i], dilations[i],
                              pads[i],      pads[i + spatial_]};
      const bool whole = window == 1 && strides[i] == 1 && pads[i] == 0 && pads[i + spatial_] == 0;
      v = whole ? reshape(v, inserted(shape, i + 2, 1)) : windows(v, i + 1, axis, number(dtype_, 0));
    }
    Axes perm{0};
    for (std::size_t i = 0; i < spatial_; ++i) perm.push_back(static_cast<int64_t>(2 * i + 1));
    if (channels_in_front) perm.push_back(static_cast<int64_t>(2 * spatial_ + 1));
    for (std::size_t i = 0; i < spatial_; ++i) perm.push_back(static_cast<int64_t>(2 * i + 2));
    if (!channels_in_front) perm.push_back(static_cast<int64_t>(2 * spatial_ + 1));
    return transpose(v, perm);
  }

  // [n, o..., t..., c]
  ValueId patches() { return patches(type(in(1)).shape.back().value(), false); }

  // [f, t..., c]
  ValueId filters() { return transpose(in(1), 1, spatial_ + 1); }

  // Over the last axis.
  ValueId sum_of_products(ValueId a, ValueId b) {
    const ValueId products = node(ScalarOp::mul, {cast(a, compute_), cast(b, compute_)});
    return reduce(TensorOp::reduce_sum, products, type(products).shape.size() - 1);
  }

  ValueId multiply(ValueId a, ValueId b) {
    return node(TensorOp::matmul, {a, b}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  }

  ValueId with_bias(ValueId y) { return node_.inputs.size() > 2 ? node(ScalarOp::add, {y, cast(in(2), compute_)}) : y; }

  // The bias stands at the product itself, so that a library adds it before it rounds.
  ValueId product(const Shape& out) {
    const ValueId a = patches(), w = filters();
    const Shape from = type(a).shape, filter = type(w).shape;
    const Dim depth = volume(from, spatial_ + 1, from.size());
    const ValueId y = multiply(reshape(a, {volume(from, 0, spatial_ + 1), depth}), reshape(w, {filter[0], depth}));
    return reshape(with_bias(y), out);
  }

  ValueId product_of_groups(const Shape& out) {
    ValueId a = patches(), w = filters();
    const Shape from = type(a).shape, filter = type(w).shape;
    const Dim channels = filter.back(), of_group = *filter[0].exact_div(groups_);
    const Dim depth = volume(from, spatial_ + 1, from.size() - 1) * channels, results = volume(from, 0, spatial_ + 1);
    Shape split = from;
    split.back() = groups_;
    split.push_back(channels);
    a = reshape(transpose(reshape(a, split), from.size() - 1, 0), {groups_, results, depth});
    const ValueId y = multiply(a, reshape(w, {groups_, of_group, depth}));
    return with_bias(reshape(transpose(y, 0, 1), out));
  }

  const bool last_;
  const std::size_t spatial_;
  const int64_t groups_;
  const DType dtype_, compute_;
};

// Whether a library of the target, which may be asked, computes the convolution.
bool is_library_convolution(const Graph& graph, const Node& conv, const PassContext& context) {
  const Shape& filter = graph.type(conv.inputs[1]).shape;
  const bool of_points = is_of_points(graph, conv);
  return is_computed_by_library(context, [&](const ir::LibraryCapabilities& library) {
    const DType compute = compute_type(graph.type(conv.output).dtype);
    return !unsupported_reason(library, TensorOp::conv, compute) && (of_points || !library.conv.pointwise_only) &&
           static_cast<int>(filter.size()) - 2 <= library.conv.max_spatial_axes;
  });
}

// Whether patches can be listed: the window is known.
bool has_patches(const Graph& graph, const Node& conv) {
  const Shape& filter = graph.type(conv.inputs[1]).shape;
  return std::all_of(filter.begin() + 2, filter.end(), [](const Dim& extent) { return extent.is_const(); });
}

}  // namespace

bool is_of_points(const Graph& graph, const Node& conv) {
  const Shape& filter = graph.type(conv.inputs[1]).shape;
  const auto is = [&](const char* name, int64_t value) {
    const auto& list = conv.attrs.ints(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
  };
  return std::all_of(filter.begin() + 2, filter.end(), [](const Dim& extent) { return extent.is(1); }) &&
         is("strides", 1) && is("pads", 0) && conv.attrs.i("groups") == 1 && conv.attrs.s("layout") == "last";
}

bool is_sum_of_patches(const Graph& graph, const Node& node, const PassContext& context) {
  if (!(node.op == TensorOp::conv) || node.attrs.i("groups") != 1 || context.target.kind != TargetKind::cuda ||
      context.target.sm < ir::kFirstMmaSm || !context.options.fuse || context.options.numerics == Numerics::exact)
    return false;
  const Shape& filter = graph.type(node.inputs[1]).shape;
  if (!is_16_bit_float(graph.type(node.output).dtype) || !graph.is_constant(node.inputs[1]) || !is_const(filter) ||
      is_of_points(graph, node))
    return false;
  const int64_t results = filter[0].value(), channels = filter[1].value();
  if (results == 0 || results % 2 != 0 || channels >= kTensorCoreElements) return false;
  const int64_t terms = num_elements(filter).value() / results;
  return terms > channels &&
         static_cast<double>(results * terms) <= kMaxPatchIntensity * static_cast<double>(results + terms);
}

Result<bool> expand_convolutions(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (is_sum_of_patches(graph, node, context))
      return rewriter.replace(node.output, Convolution(graph, node, true).build_sum_of_lines());
    if (!(node.op == TensorOp::conv) || is_library_convolution(graph, node, context) ||
        will_unroll(graph, node, context) || !has_patches(graph, node))
      return;
    const bool own_product = !is_library_product(context, graph.type(node.output).dtype);
    Convolution conv(graph, node, own_product);
    rewriter.replace(node.output, own_product ? conv.build_sum() : conv.build_product());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler
