// SPDX-License-Identifier: Apache-2.0
// Program: the steps of a compiled model in order, with their variants and candidates, over a table of allocations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "fusec/shape.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

using AllocId = Id<struct AllocTag>;
using KernelId = Id<struct KernelTag>;

enum class AllocKind : uint8_t {
  input,      // caller's memory, read
  output,     // caller's memory, written
  constant,   // Program::constants
  temporary,  // in the arena, while live
};

struct Allocation {
  AllocKind kind = AllocKind::temporary;
  std::string name;  // of an input or output, or of a constant that Engine::set_weight replaces; else empty
  DType dtype = DType::f32;
  Dim elements;          // size
  uint32_t ordinal = 0;  // input, output: its position; constant: index into Program::constants
  // The value of the optimized graph whose elements lie here from the start on, for tools that look at runs; invalid:
  // scratch, or a Program that was read from a file. Texts and packages leave it out.
  ValueId value = {};
};

// A strided window of an allocation. Reshape, split, slice, concat and head transposes at fusion boundaries are views.
struct View {
  AllocId alloc;
  Dim offset;  // elements
  Shape shape;
  Shape strides;  // elements
  bool operator==(const View&) const = default;
};

// Launches Program::kernels[kernel]. args: views in the order of Kernel::params, then one per scratch buffer in buffer
// order. extents: in the order of Kernel::extents.
struct KernelStep {
  KernelId kernel;
  std::vector<View> args;
  std::vector<Dim> extents;
};

// An operation that a library fuses after an anchor, in order. `operand` is an index into LibraryStep::args, if the op
// reads one.
struct Epilogue {
  ScalarOp op =
      ScalarOp::relu;  // relu, hard_swish, ...: unary on the running value; add, mul, ...: binary with operand
  int operand = -1;
  double alpha = 0, beta = 0;  // for hard_sigmoid (slope, offset), clamp (lo, hi), leaky_relu (slope)
  bool operator==(const Epilogue&) const = default;
};

// A library call: conv, matmul, max_pool or avg_pool, with its epilogues. args: the op's inputs in graph order, then
// epilogue operands; the last is the output. Shapes and strides in the views are those of the op's own axes (for conv
// with layout "first": N C spatial..., whatever the strides).
struct LibraryStep {
  TensorOp op = TensorOp::conv;
  Attrs attrs;
  DType compute = DType::f32;
  std::vector<Epilogue> epilogues;
  std::vector<View> args;
  int bias = -1;  // index of the bias in args; -1: none
};

struct Step {
  std::variant<KernelStep, LibraryStep> v;
  std::string origin;  // used by messages and explain
};

// One alternative for the work of a slot: a whole sequence of steps. All candidates have equal inputs, outputs and
// layouts.
struct Candidate {
  std::vector<Step> steps;
  std::string why;          // one line for explain
  double predicted_us = 0;  // predicted by the cost model
};

// when: all of these Dims must be >= 0. The last variant of a slot has an empty `when`, so that the list covers every
// case.
struct Variant {
  std::vector<Dim> when;  // a conjunction of `dim >= 0`
  std::vector<Candidate> candidates;
  int picked = -1;  // set by select
};

struct Slot {
  std::vector<Variant> variants;
};

struct Program {
  std::string name;
  std::vector<Slot> slots;  // in execution order
  IdVector<AllocId, Allocation> allocs;
  IdVector<KernelId, Kernel> kernels;  // distinct by structural hash
  std::vector<Tensor> constants;
  std::vector<AllocId> inputs, outputs;
  std::vector<Type> input_types, output_types;
  std::vector<std::string> input_names, output_names, symbols;
  Limits limits;
  int64_t imported_ops = 0;
  std::vector<std::string> notes;  // kept for explain: "edge %a -> %b not fused: ..."
};

}  // namespace fusec::ir
