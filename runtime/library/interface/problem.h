// SPDX-License-Identifier: Apache-2.0
// Problem: a LibraryCall in a normal form shared by all libraries. Convolutions and poolings have the axes N C
// spatial..., whatever their layout. Matrix products have batch..., rows, columns, with transposes and vectors
// resolved. Operands of epilogues and the bias have the axes of the output. Attention has the axes of its row, and the
// mask those of the scores [N, H, S, T]. Libraries find operands by role.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/library/capabilities.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

using Extents = std::vector<int64_t>;
using ir::Role;

// An argument of the call. Broadcast axes have extent 1 and stride 0.
struct CallOperand {
  int arg = -1;  // index in LibraryCall::args
  DType dtype = DType::f32;
  Extents dims, strides;  // elements
  const void* constant = nullptr;
  int64_t alignment = 16;  // bytes, at most 16; its address is a multiple of it where its allocation's address is
  Role role = Role::input;
};

// One epilogue: a scalar op on (running value, operand) or on (running value, alpha, beta). Its operand has
// Role::addend or Role::scale.
struct BoundEpilogue {
  ir::ScalarOp op = ir::ScalarOp::relu;
  double alpha = 0, beta = 0;
  std::optional<CallOperand> operand;
};

// The addition of an operand, such as a bias.
BoundEpilogue add_of(CallOperand operand);

struct Window {
  Extents kernel, strides, dilations, before, after;  // dilation 1: adjacent taps; before, after: padding
  bool operator==(const Window&) const = default;
};

struct Problem {
  ir::TensorOp op = ir::TensorOp::conv;
  DType compute = DType::f32;
  std::vector<CallOperand>
      operands;  // one of each role: the op's inputs, a bias that is added before the epilogues, the output
  std::vector<BoundEpilogue> epilogues;
  Window window;
  int64_t groups = 1;
  double scale = 1;     // of attention
  bool causal = false;  // of attention: query s of S takes the keys up to s + T - S of T
  bool count_include_pad = false, ceil_mode = false;

  // The operand of a role. It must be there; its address holds until operands are added or removed.
  CallOperand& operator[](Role role);
  const CallOperand& operator[](Role role) const { return const_cast<Problem&>(*this)[role]; }
  const CallOperand* find(Role role) const;  // null: there is none
  void put(Role role, CallOperand operand);  // replaces the one of that role, if any
  void erase(Role role);                     // if there is one
  void exchange(Role one, Role other);       // each operand gets the other's role

  // Calls f on every operand, those of epilogues included.
  template <class F>
  void for_each_operand(const F& f) {
    for (CallOperand& operand : operands) f(operand);
    for (BoundEpilogue& bound : epilogues) {
      if (bound.operand) f(*bound.operand);
    }
  }
};

int64_t product(const Extents& extents);

// Whether a convolution or matrix product sums over no elements.
bool is_empty_sum(const Problem& problem);
// The same problem as a product over one zero: matrices, or a pointwise convolution, whose elements are all 0 (arg -1,
// dense).
Problem over_one_zero(Problem empty);

// Checks with FUSEC_CHECK that the arguments fit together. The inputs have the roles of the op's row.
Problem normalize(const LibraryCall& call);
// The same with other roles for the leading arguments.
Problem normalize(const LibraryCall& call, std::span<const Role> roles);

// Why the library of these capabilities cannot compute the problem: its axes, strides, types or window; nullopt: these
// do not stand in its way.
std::optional<std::string> unsupported_reason(const ir::LibraryCapabilities& library, const Problem& problem);

// Merges batch axes of a matrix product where all strides allow it, and merges batches into rows where the right matrix
// is shared. The result has fewer and longer axes and describes the same product.
void merge_axes(Problem& matmul);

// Memory order N C spatial... or N spatial... C of an image, whose axes are N C spatial... in any case.
enum class ImageOrder { first, last };
// The same elements, with the strides of axes of extent 1 set to those of a dense image in this order. Libraries
// compare these strides, though no element uses them.
CallOperand canonical_image(CallOperand image, ImageOrder order);
// A dense image in this order, in separate memory.
CallOperand dense_image(CallOperand image, ImageOrder order);
// Exchanges the last two axes.
void transpose_matrix(CallOperand& matrix);

// A convolution with window 1 and step 1, without padding and groups, is the matrix product [N * spatial, I] x [I, O].
// Its rows may have any pitch, so slices of channels work.
bool is_pointwise(const Problem& conv);
Problem as_matmul(Problem pointwise);

// The index below `count` of an epilogue add whose operand may share the output's memory; -1: none.
int find_addend(const Problem& problem, std::size_t count, const LibraryCall& call);

}  // namespace fusec::runtime
