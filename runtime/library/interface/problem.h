// SPDX-License-Identifier: Apache-2.0
// Problem: a LibraryCall in one normal form for all libraries. Convolutions and poolings have the axes N C spatial...
// whatever the layout; matrix products have batch..., rows, columns with transposes and vectors resolved; operands of
// epilogues and the bias have the axes of the output.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/library/interface/library.h"

namespace fusec::runtime {

using Extents = std::vector<int64_t>;

// An argument of the call. Axes along which it is broadcast have extent 1 and stride 0.
struct Operand {
  int arg = -1;  // index in LibraryCall::args
  DType dtype = DType::f32;
  Extents dims, strides;  // elements
  const void* constant = nullptr;
  int64_t alignment = 16;  // bytes, at most 16, that its address is a multiple of where its allocation's is
};

// One step of the epilogue: scalar op on (running value, operand) or on (running value, alpha, beta).
struct PostOp {
  ir::ScalarOp op = ir::ScalarOp::relu;
  double alpha = 0, beta = 0;
  std::optional<Operand> operand;
};

struct Window {
  Extents kernel, strides, dilations, before, after;  // dilation 1: adjacent taps; before, after: padding
  bool operator==(const Window&) const = default;
};

struct Problem {
  ir::TensorOp op = ir::TensorOp::conv;
  DType compute = DType::f32;
  Operand a, b, out;            // b: filter [O, I / groups, spatial...] or right matrix; unused by poolings
  std::optional<Operand> bias;  // added before the epilogues
  std::vector<PostOp> epilogues;
  Window window;
  int64_t groups = 1;
  bool count_include_pad = false, ceil_mode = false;
};

int64_t product(const Extents& extents);

// Whether a convolution or matrix product sums over nothing.
bool is_empty_product(const Problem& problem);
// The same as a product over one zero: matrices, or a pointwise convolution, whose elements all are (arg -1, dense).
Problem over_one_zero(Problem empty);

// FUSEC_CHECK that the arguments fit together.
Problem normalize(const LibraryCall& call);

// Merges batch axes of a matrix product where all strides allow it, and batches into rows where the right matrix is
// shared: fewer and longer axes, same result.
void merge_axes(Problem& matmul);

// A convolution of window 1 and step 1 without padding and groups is the matrix product [N * spatial, I] x [I, O],
// which takes rows of any pitch, so slices of channels.
bool is_pointwise(const Problem& conv);
Problem as_matmul(Problem pointwise);

// The index below `count` of an epilogue add whose operand may be the output's own memory, -1: none.
int summand(const Problem& problem, std::size_t count, const LibraryCall& call);

}  // namespace fusec::runtime
