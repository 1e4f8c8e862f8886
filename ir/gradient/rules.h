// SPDX-License-Identifier: Apache-2.0
// The rules of gradients, one per op: from the gradient dy of a node's result they write those of its operands.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/gradient/writer.h"

namespace fusec::ir::gradient {

// The node whose rule is asked, and where the rule leaves its answers.
class Call : public Writer {
 public:
  Call(Graph& graph, const Node& node, ValueId dy, std::vector<bool> wanted);

  const Node& call;  // stays valid while nodes are added
  const ValueId dy;  // of the type of the result

  ValueId in(std::size_t i) const { return call.inputs[i]; }
  ValueId result() const { return call.output; }
  const Attrs& attrs() const { return call.attrs; }
  std::size_t operands() const { return call.inputs.size(); }
  bool wants(std::size_t operand) const { return wanted_[operand]; }

  // v has the type of the operand. An operand to which nothing is given has the gradient 0.
  void give(std::size_t operand, ValueId v);
  const std::optional<ValueId>& given(std::size_t operand) const { return given_[operand]; }

  // Gives the gradients of `same`, which equals the node's result and is computed of its operands by the nodes from
  // place `first` of the graph's order on.
  Status through(std::size_t first, ValueId same, const std::set<ValueId>& held = {});

  // The error of an op, or of a case of it, without a gradient. `why` goes on after the op and its operands.
  Status refuse(const std::string& why) const;

 private:
  const std::vector<bool> wanted_;
  std::vector<std::optional<ValueId>> given_;
};

using GradientRule = Status (*)(Call&);
// Of the nodes that have a float result and a float operand.
GradientRule rule_of(const Op& op);

Status scalar_rule(Call& call);

Status broadcast_rule(Call& call);
Status reshape_rule(Call& call);
Status transpose_rule(Call& call);
Status slice_rule(Call& call);
Status concat_rule(Call& call);
Status pad_rule(Call& call);

Status gather_rule(Call& call);
Status gather_elements_rule(Call& call);
Status gather_nd_rule(Call& call);
Status scatter_elements_rule(Call& call);
Status scatter_nd_rule(Call& call);

Status reduce_sum_rule(Call& call);
Status reduce_mean_rule(Call& call);
Status reduce_prod_rule(Call& call);
Status reduce_extreme_rule(Call& call);  // of max and min
Status cumsum_rule(Call& call);

Status matmul_rule(Call& call);
Status conv_rule(Call& call);
Status pool_rule(Call& call);
Status attention_rule(Call& call);

// For each of `wrt` the gradient of the sum of y * dy by the nodes from place `first` of the order on, or none where y
// does not depend on it by these.
Result<std::vector<std::optional<ValueId>>> walk_back(Graph& graph, std::size_t first, ValueId y, ValueId dy,
                                                      const std::vector<ValueId>& wrt, const std::set<ValueId>& held);

}  // namespace fusec::ir::gradient
