// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: finds the parts of a nest that is an attention.

#include "compiler/lower/cuda/attention_parts.h"

#include <algorithm>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {
namespace {

const ir::Reduce* find_dot(const Block& block) {
  for (const Stmt& stmt : block)
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) return reduce;
  return nullptr;
}

// The definition of the operand, as this op.
const ir::Let* find_made_by(const Block& block, const Operand& operand, ir::ScalarOp op) {
  const auto* reg = std::get_if<RegId>(&operand);
  for (const Stmt& stmt : block) {
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    if (reg != nullptr && let != nullptr && let->dst == *reg && let->op == op) return let;
  }
  return nullptr;
}

// Those of the statements on which the operand depends, in order.
Block collect_needed(const Block& block, const Operand& operand) {
  std::set<RegId> needed;
  if (const auto* reg = std::get_if<RegId>(&operand)) needed.insert(*reg);
  Block out;
  for (std::size_t i = block.size(); i-- > 0;) {
    const std::vector<RegId> defined = ir::defined(block[i]);
    if (std::none_of(defined.begin(), defined.end(), [&](RegId r) { return needed.contains(r); })) continue;
    ir::for_each_operand(block[i], [&](const Operand& o) {
      if (const auto* r = std::get_if<RegId>(&o)) needed.insert(*r);
    });
    out.insert(out.begin(), block[i]);
  }
  return out;
}

class AttentionFinder {
 public:
  explicit AttentionFinder(const PerfectNest& nest) : nest_(nest) {}

  std::optional<AttentionLoops> run() {
    if (nest_.heads.size() != 4) return std::nullopt;
    std::vector<const ir::Reduce*> reductions;
    for (const Stmt& stmt : nest_.body) {
      if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
        reductions.push_back(reduce);
      } else {
        p_.store.push_back(stmt);
      }
    }
    if (reductions.size() != 3 || reductions[0]->combiner != ir::Combiner::max) return std::nullopt;
    p_.outer = {nest_.heads[0], nest_.heads[1]};
    p_.result = reductions[2]->dst[0];
    if (!find_scores(*reductions[0]) || !find_value(*reductions[2])) return std::nullopt;
    return std::move(p_);
  }

 private:
  bool find_scores(const ir::Reduce& max) {
    const ir::Reduce* dot = find_dot(max.body);
    if (dot == nullptr) return false;
    const ir::Let* mul = find_made_by(dot->body, dot->yield[0], ir::ScalarOp::mul);
    if (mul == nullptr) return false;
    p_.query = operand(dot->body, mul->args[0], nest_.heads[2], dot->loops[0]);
    p_.key = operand(dot->body, mul->args[1], max.loops[0], dot->loops[0]);
    p_.product = dot->dst[0];
    for (const Stmt& stmt : max.body) {
      const auto* let = std::get_if<ir::Let>(&stmt.v);
      const bool scales = let != nullptr && let->op == ir::ScalarOp::mul && let->args[0] == Operand(p_.product) &&
                          std::holds_alternative<ir::Constant>(let->args[1]) && p_.mask.empty();
      if (scales) {
        p_.scale = std::get<ir::Constant>(let->args[1]).f;
        p_.product = let->dst;
      } else if (!std::holds_alternative<ir::Reduce>(stmt.v)) {
        p_.mask.push_back(stmt);
      }
    }
    p_.score = max.yield[0], p_.mask_key = max.loops[0].var, p_.seen = max.guard;
    return true;
  }

  bool find_value(const ir::Reduce& sum) {
    const ir::Let* mul = find_made_by(sum.body, sum.yield[0], ir::ScalarOp::mul);
    if (mul == nullptr) return false;
    p_.value = operand(sum.body, mul->args[1], sum.loops[0], nest_.heads[3]);
    return true;
  }

  static AttentionOperand operand(const Block& body, const Operand& value, const LoopHead& position,
                                  const LoopHead& channel) {
    return {collect_needed(body, value), std::get<RegId>(value), position, channel};
  }

  const PerfectNest& nest_;
  AttentionLoops p_;
};

}  // namespace

std::optional<AttentionOperand> AttentionOperand::narrow(const ir::Kernel& kernel) const {
  const auto* cast = work.empty() ? nullptr : std::get_if<ir::Let>(&work.back().v);
  if (cast == nullptr || cast->op != ir::ScalarOp::cast) return std::nullopt;
  const auto* from = std::get_if<RegId>(&cast->args[0]);
  if (from == nullptr || !is_16_bit_float(kernel.regs[*from].dtype)) return std::nullopt;
  AttentionOperand result = *this;
  result.work.pop_back();
  result.value = *from;
  return result;
}

std::optional<AttentionLoops> find_attention_parts(const PerfectNest& nest) { return AttentionFinder(nest).run(); }

}  // namespace fusec::compiler
