// SPDX-License-Identifier: Apache-2.0
// Which f32 values of a graph stay f32 where the others become 16 bits: those that stand for integers, which 16 bits
// count up to 2048 (bf16: 256) only, and what scales them on the way from and to integers.
#pragma once

#include "ir/graph/graph.h"

namespace fusec::compiler {

class WideValues {
 public:
  // `most`: integral constants up to this are integers; a larger number says "very large" in a mask.
  WideValues(const ir::Graph& graph, double most);

  bool is_wide(ir::ValueId v) const { return is_whole(v) || scaled_[v]; }
  // An integer, or on the way to one.
  bool is_whole(ir::ValueId v) const { return integral_[v] || needed_[v]; }
  // Whether the node computes in f32: what it makes is wide, or it takes an integer beside other numbers.
  bool computes_wide(const ir::Node& node) const;

 private:
  bool makes_integers(const ir::Node& node) const;
  bool makes_scaled(const ir::Node& node) const;
  bool is_integral_operand(ir::ValueId v) const;
  bool is_integral_constant(ir::ValueId v) const;
  void need(ir::ValueId v);

  const ir::Graph& graph_;
  const double most_;
  ir::IdVector<ir::ValueId, char> integral_;  // made of integers: casts, rounded values, their sums and products
  ir::IdVector<ir::ValueId, char> scaled_;    // such a value times or divided by others
  ir::IdVector<ir::ValueId, char> needed_;    // becomes an integer, back to the last product or quotient
};

}  // namespace fusec::compiler
