// SPDX-License-Identifier: Apache-2.0
// Lower: splits loops so that indices which divide a loop's variable, such as those of reshaped and shuffled axes,
// become sums of strides.

#include <algorithm>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

namespace {

struct Split {
  VarId var;
  int64_t by = 0;
};

// A loop's variable that the expression divides by a number that divides the loop's extent.
std::optional<Split> find_split(const IndexExpr& d, const std::vector<LoopHead>& heads) {
  if (d.is_const()) return std::nullopt;
  for (const IndexExpr::Term& term : d.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn == IndexExpr::Fn::symbol) continue;
      for (const IndexExpr& arg : atom.args)
        if (const auto inner = find_split(arg, heads)) return inner;
      if (atom.fn != IndexExpr::Fn::floordiv && atom.fn != IndexExpr::Fn::mod) continue;
      const auto symbol = atom.args[0].as_symbol();
      if (!symbol || !atom.args[1].is_const()) continue;
      const int64_t by = atom.args[1].value();
      for (const LoopHead& head : heads) {
        const bool divides = head.extent.is_const() && head.extent.value() % by == 0 && head.extent.value() > by;
        if (*symbol == ir::SymbolId(head.var) && by > 1 && divides) return Split{head.var, by};
      }
    }
  }
  return std::nullopt;
}

std::optional<Split> find_split(const Block& body, const std::vector<LoopHead>& heads) {
  std::optional<Split> found;
  for_each_stmt(body, [&](const Stmt& stmt) {
    for_each_index(stmt, [&](const IndexExpr& d) {
      if (!found) found = find_split(d, heads);
    });
  });
  return found;
}

// v = by * outer + inner.
void split(ir::Kernel& kernel, PerfectNest& nest, const Split& split) {
  const auto at =
      std::find_if(nest.heads.begin(), nest.heads.end(), [&](const LoopHead& head) { return head.var == split.var; });
  const LoopHead inner{at->tag, add_var(kernel), split.by};
  at->extent = floordiv(at->extent, split.by);
  substitute(nest.body, split.var, IndexExpr::symbol(split.var) * split.by + IndexExpr::symbol(inner.var));
  nest.heads.insert(at + 1, inner);
  const ir::IndexRanges ranges = ir::compute_ranges(nest.heads);
  for_each_stmt(nest.body, [&](Stmt& stmt) { for_each_index(stmt, [&](IndexExpr& d) { d = simplify(d, ranges); }); });
}

}  // namespace

void split_loops(LoopNest& nest) {
  constexpr int kMaxLoops = 8;
  for (Stmt& stmt : nest.kernel.body) {
    if (!std::holds_alternative<ir::Loop>(stmt.v)) continue;
    PerfectNest loops = peel_loops(std::move(stmt));
    const bool plain = std::all_of(loops.body.begin(), loops.body.end(),
                                   [](const Stmt& inner) { return nested_blocks(inner).empty(); });
    for (auto next = find_split(loops.body, loops.heads); plain && next && loops.heads.size() < kMaxLoops;
         next = find_split(loops.body, loops.heads))
      split(nest.kernel, loops, *next);
    stmt = rebuild_loops(loops.heads, std::move(loops.body));
  }
}

}  // namespace fusec::compiler
