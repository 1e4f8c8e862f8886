// SPDX-License-Identifier: Apache-2.0
// Decides which f32 values of a graph stay f32 when the others become 16 bits: values that stand for integers, of which
// 16 bits hold all only up to 2048 (bf16: 256), and values that scale them on the way from and to integers.
#pragma once

#include "ir/graph/graph.h"

namespace fusec::compiler {

class WideValues {
 public:
  // Integral constants up to `most` are taken for integers. A larger number stands for "very large" in a mask.
  WideValues(const ir::Graph& graph, double most);

  bool is_wide(ir::ValueId v) const { return is_whole(v) || scaled_[v]; }
  // Whether the value is an integer or contributes to one.
  bool is_whole(ir::ValueId v) const { return integral_[v] || needed_[v]; }
  // Whether the node computes in f32: its result is wide, it casts to an integer, or it combines an integer with other
  // numbers.
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
  ir::IdVector<ir::ValueId, char> needed_;    // contributes to an integer, back to the last product or division
};

}  // namespace fusec::compiler
