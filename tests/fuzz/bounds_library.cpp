// SPDX-License-Identifier: Apache-2.0
// What libraries do otherwise than a graph says: docs/numerics.md has the list.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/bounds_internal.h"

namespace fusec::fuzz {
namespace {

using ir::TensorOp;

// What a library may lose where numerics need not be exact. Its relu behind a convolution or product may make 0 of NaN;
// engines of cuDNN store 0 for the -inf of a 16-bit convolution and of what is added to it.
Result<Bounded> with_lost_specials(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                                   bool on_gpu, Bounded out) {
  const DType dtype = graph.type(node.output).dtype;
  const bool is_relu = node.op == ir::Op(ir::ScalarOp::relu);
  const bool sums = node.op == ir::Op(TensorOp::conv) || node.op == ir::Op(ir::ScalarOp::add);
  const bool stores_zero = on_gpu && is_16_bit_float(dtype) && sums;
  if (!is_float(dtype) || !(is_relu || stores_zero) || !is_behind_product(graph, node.output)) return out;
  FUSEC_ASSIGN(Bounded lost, make_bounded(dtype, out.at.shape(), false));
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(out, dtype, i);
    if (is_relu ? std::isnan(load_range(operands[0], dtype, i).at.f) : r.lo.f < -largest(dtype)) r = anything(dtype);
    store_range(lost, dtype, i, r);
  }
  return lost;
}

// cuDNN has no plan that adds the bias of some convolutions: what is to be added to it has been rounded then.
Result<Bounded> with_rounded_convolution(const ir::Graph& graph, const ir::Node& node, std::vector<Bounded> operands,
                                         Bounded sum, const ir::SymbolBindings& symbols) {
  const DType dtype = graph.type(node.output).dtype;
  if (node.op != ir::Op(TensorOp::conv) || node.inputs.size() < 3 || !is_16_bit_float(dtype)) return sum;
  FUSEC_ASSIGN(Tensor zeros, mapped(operands[2].at, [](int64_t) { return 0.0; }));
  operands[2] = exactly(std::move(zeros));
  FUSEC_ASSIGN(const Bounded product, evaluate_bounds(graph, node, operands, symbols));
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, sum.at.shape(), false));
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(sum, dtype, i);
    const Range rounded = load_range(product, dtype, i);
    const double most = std::max(std::fabs(rounded.lo.f), std::fabs(rounded.hi.f)), more = unit_at(dtype, most) / 2;
    if (!(most <= largest(dtype))) {
      r = anything(dtype);
    } else if (std::isfinite(r.at.f) && !is_anything(dtype, r)) {
      r = with_rounding(dtype, 0, {{r.lo.f - more, 0}, r.at, {r.hi.f + more, 0}});
    }
    store_range(out, dtype, i, r);
  }
  return out;
}

// What is NaN, infinite or overflows in a tile of cuDNN's f32 convolutions (Winograd, FFT) makes NaN of the tile: of an
// image, at most. What is NaN or infinite in one group of its 16-bit convolutions makes NaN of the other groups there,
// and so does what lies beside a window if blocks of an image of few channels become its channels, as they do for many
// filters (compiler/passes/space_to_depth.cpp).
void open_images(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands, Bounded& out) {
  if (node.op != ir::Op(TensorOp::conv) || out.at.num_elements() == 0) return;
  const DType dtype = graph.type(node.output).dtype;
  const auto& strides = node.attrs.ints("strides");
  const auto& filters = operands[1].at.shape();
  const bool has_blocks = filters[0] >= 32 && filters[1] < 8 &&
                          std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
  const bool has_tiles = dtype == DType::f32,
             joins = is_16_bit_float(dtype) && (node.attrs.i("groups") > 1 || has_blocks);
  if (!has_tiles && !joins) return;
  const auto greatest = [&](const Bounded& b, int64_t begin, int64_t end) {
    double m = 0;
    for (int64_t i = begin; i < end; ++i) {
      const Range r = load_range(b, dtype, i);
      m = std::isnan(r.at.f) ? HUGE_VAL : std::max({m, std::fabs(r.lo.f), std::fabs(r.hi.f)});
    }
    return m;
  };
  const double tile = 32 * 32, filter = std::max(greatest(operands[1], 0, operands[1].at.num_elements()), 1.0);
  const int64_t images = out.at.shape()[0], in = operands[0].at.num_elements() / images,
                size = out.at.num_elements() / images;
  for (int64_t n = 0; n < images; ++n) {
    const double most = greatest(operands[0], n * in, (n + 1) * in);
    if (has_tiles ? most * filter * tile * terms(graph, node, operands) < largest(dtype) : most <= largest(dtype))
      continue;
    for (int64_t i = n * size; i < (n + 1) * size; ++i) store_range(out, dtype, i, anything(dtype));
  }
}

// oneDNN's gemm of 16-bit types makes NaN of an infinity that is one of an odd number of terms.
void open_odd_sums(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands, Bounded& out) {
  const DType dtype = graph.type(node.output).dtype;
  if (node.op != ir::Op(TensorOp::matmul) || !is_16_bit_float(dtype)) return;
  const auto& rows = operands[0].at.shape();
  const bool transposed = node.attrs.i("transpose_a") == 1 && rows.size() > 1;
  if (rows[rows.size() - (transposed ? 2 : 1)] % 2 == 0) return;
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    const Range r = load_range(out, dtype, i);
    if (!std::isfinite(r.lo.f) || !std::isfinite(r.hi.f)) store_range(out, dtype, i, anything(dtype));
  }
}

// cuDNN's fused attention treats scores, masks and values of NaN and infinity in its own way: 0 in a row whose scores
// are all -infinity.
void open_attention(const ir::Graph& graph, const ir::Node& node, Bounded& out) {
  const DType dtype = graph.type(node.output).dtype;
  if (node.op != ir::Op(TensorOp::matmul) || !is_16_bit_float(dtype)) return;
  if (!is_behind(graph, node.inputs[0], {ir::Op(ir::ScalarOp::exp)})) return;  // weights of a softmax
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    const Range r = load_range(out, dtype, i);
    if (!std::isfinite(r.lo.f) || !std::isfinite(r.hi.f)) store_range(out, dtype, i, anything(dtype));
  }
}

// cuBLASLt's gelu behind a 16-bit product may be a unit in the last place off, of numbers from 1/4 on, before the
// result is rounded; it treats NaN and infinities in its own way. A chain that ends with a multiplication may be one.
void open_gelu(const ir::Graph& graph, const ir::Node& node, Bounded& out) {
  const DType dtype = graph.type(node.output).dtype;
  const bool is_chain =
      node.op == ir::Op(ir::ScalarOp::mul) && is_behind(graph, node.output, {ir::Op(ir::ScalarOp::tanh)});
  if (!is_16_bit_float(dtype) || !(is_chain || node.op == ir::Op(ir::ScalarOp::gelu_tanh))) return;
  if (!is_behind_product(graph, node.output)) return;
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(out, dtype, i);
    if (is_anything(dtype, r)) continue;
    const double most = std::max({std::fabs(r.lo.f), std::fabs(r.hi.f), 0.25}), more = unit_at(dtype, most);
    if (!(most <= largest(dtype))) {
      r = anything(dtype);
    } else {
      r.lo.f -= more, r.hi.f += more;
    }
    store_range(out, dtype, i, r);
  }
}

// Kernels compute gelu, and sigmoids that may be factors, with no more digits than a 16-bit result keeps: off by less
// than a quarter of a unit in the last place, or than a hundredth (docs/numerics.md), before the result is rounded.
void open_short_forms(const ir::Node& node, DType dtype, Bounded& out) {
  const bool is_sigmoid = node.op == ir::Op(ir::ScalarOp::sigmoid) || node.op == ir::Op(ir::ScalarOp::silu);
  if (!is_16_bit_float(dtype) || !(is_sigmoid || node.op == ir::Op(ir::ScalarOp::gelu))) return;
  const double part = is_sigmoid ? 1.0 / 64 : 0.25;
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(out, dtype, i);
    if (is_anything(dtype, r) || !std::isfinite(r.lo.f) || !std::isfinite(r.hi.f)) continue;
    const double more = part * unit_at(dtype, std::max(std::fabs(r.lo.f), std::fabs(r.hi.f)));
    store_range(out, dtype, i, with_rounding(dtype, 0, {{r.lo.f - more, 0}, r.at, {r.hi.f + more, 0}}));
  }
}

// A chain of erf that is a gelu becomes that op, whose sqrt(2) is not rounded to 16 bits: with d = 1.07e-4,
// which that is off, x^2 phi(x) d of the result, 3.2e-5 at most and 4e-3 of the result where that is not 0.
void open_erf_chains(const ir::Graph& graph, const ir::Node& node, Bounded& out) {
  const DType dtype = graph.type(node.output).dtype;
  if (!is_16_bit_float(dtype) || !(node.op == ir::Op(ir::ScalarOp::mul))) return;
  if (!is_behind(graph, node.output, {ir::Op(ir::ScalarOp::erf)})) return;
  for (int64_t i = 0; i < out.at.num_elements(); ++i) {
    Range r = load_range(out, dtype, i);
    if (is_anything(dtype, r) || !std::isfinite(r.lo.f) || !std::isfinite(r.hi.f)) continue;
    const double most = std::max(std::fabs(r.lo.f), std::fabs(r.hi.f));
    const double more = unit_at(dtype, most) / 4 + std::min(3.2e-5, 4e-3 * most);
    store_range(out, dtype, i, with_rounding(dtype, 0, {{r.lo.f - more, 0}, r.at, {r.hi.f + more, 0}}));
  }
}

// The same bounds with ends and middles of their own, which can be stored apart.
Result<Bounded> with_own_ends(Bounded from, DType dtype) {
  if (!from.exact()) return from;
  FUSEC_ASSIGN(Bounded out, make_bounded(dtype, from.at.shape(), false));
  for (int64_t i = 0; i < out.at.num_elements(); ++i) store_range(out, dtype, i, load_range(from, dtype, i));
  out.jumps = std::move(from.jumps);
  return out;
}

}  // namespace

Result<Bounded> with_library(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                             Numerics numerics, bool on_gpu, const ir::SymbolBindings& symbols, Bounded out) {
  FUSEC_ASSIGN(out, with_own_ends(std::move(out), graph.type(node.output).dtype));
  if (on_gpu) {
    FUSEC_ASSIGN(out, with_rounded_convolution(graph, node, operands, std::move(out), symbols));
    open_images(graph, node, operands, out);
  }
  open_short_forms(node, graph.type(node.output).dtype, out);
  if (numerics == Numerics::exact) return out;
  if (!on_gpu) open_odd_sums(graph, node, operands, out);
  if (on_gpu) open_attention(graph, node, out);
  if (on_gpu) open_gelu(graph, node, out);
  open_erf_chains(graph, node, out);
  return with_lost_specials(graph, node, operands, on_gpu, std::move(out));
}

}  // namespace fusec::fuzz
