// SPDX-License-Identifier: Apache-2.0
// The parts of a nest that is an attention, as build_attention_nest makes it.
#pragma once

#include <optional>

#include "compiler/lower/cuda/families.h"

namespace fusec::compiler {

// What makes the element of an operand at one position (a query or a key) and one channel.
struct AttentionOperand {
  ir::Block work;
  ir::RegId value;  // f32
  ir::LoopHead position, channel;

  // The 16-bit value that `value` converts, without that conversion at the end of `work`; nullopt: it converts none.
  std::optional<AttentionOperand> narrow(const ir::Kernel& kernel) const;
};

struct AttentionLoops {
  std::vector<ir::LoopHead> outer;  // loops over samples and heads
  AttentionOperand query, key, value;
  double scale = 1;
  // Makes `score` of `product`, the scaled product of a query and a key. Empty without a mask.
  ir::Block mask;
  ir::RegId product;
  ir::Operand score;
  VarId mask_key;   // the variable of keys in `mask` and `seen`
  ir::Guard seen;   // of a causal attention: at least 0 for the keys that the query takes
  ir::Block store;  // stores `result`, the element of a query and a channel of the values
  ir::RegId result;

  bool is_causal() const { return !seen.empty(); }
};

// nullopt: the nest is no attention.
std::optional<AttentionLoops> find_attention_parts(const PerfectNest& nest);

}  // namespace fusec::compiler
