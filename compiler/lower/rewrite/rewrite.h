// SPDX-License-Identifier: Apache-2.0
// Small rewrites of kernels, from which schedules are composed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::compiler {

using ir::IndexExpr;
using ir::VarId;

// d = rest + sum of coefficients[v] * v over the given variables, which `rest` and the coefficients do not mention.
// affine_in returns nullopt if a variable occurs inside floordiv, mod, min or max, or in a product with another.
struct Affine {
  std::map<ir::SymbolId, IndexExpr> coefficients;  // only non-zero ones
  IndexExpr rest;
  IndexExpr coefficient(ir::SymbolId var) const;
};
std::optional<Affine> affine_in(const IndexExpr& d, const std::vector<ir::SymbolId>& vars);

// Replaces a variable in every index expression of a block, including nested blocks.
void substitute(ir::Block& block, VarId var, const IndexExpr& by);

void append(ir::Block& to, ir::Block from);
// Copies a block, giving the copy registers, loop variables and local buffers of its own.
ir::Block clone(ir::Kernel& kernel, const ir::Block& block);

// Gives loops other variables so that no two have the same.
void give_own_vars(ir::Kernel& kernel);

// Turns `width` iterations of `var` into the lanes of one: `var` becomes base + lane in `block`. Registers that depend
// on it become vectors, and reductions inside compute one result per lane. Local buffers get a trailing axis of lanes.
void vectorize(ir::Kernel& kernel, ir::Block& block, VarId var, int width, const IndexExpr& base);

// Adds `extra` to the guard of every load and store of several lanes. The block must run only where `extra` holds for
// the first lane, so that accesses of one value for all lanes need no guard.
void add_guard(const ir::Kernel& kernel, ir::Block& block, const ir::Guard& extra);

// Splits sums and products of floats over more than 32 elements, in loops of a thread or lane that run in order, into
// sums of sums: one level for each loop, and within a loop chunks whose length is near the square root.
void sum_in_levels(ir::Kernel& kernel, ir::Block& block);

// Whether the statement or one nested in it mentions the symbol in an index expression.
bool mentions(const ir::Stmt& stmt, ir::SymbolId symbol);

// Simplifies every index expression using the ranges of the enclosing loops' variables, drops proven guards, and
// removes loops that run once or never.
void simplify_dims(ir::Kernel& kernel);
// eliminate_common_subexpressions merges registers that are computed twice in one scope. hoist_loop_invariants moves
// loop-invariant values in front of their loop. eliminate_dead_code drops values that nothing reads.
void eliminate_common_subexpressions(ir::Kernel& kernel);
void hoist_loop_invariants(ir::Kernel& kernel);
void eliminate_dead_code(ir::Kernel& kernel);
// drop_clamps removes the clamps of indices that cannot be out of range.
void drop_clamps(ir::Kernel& kernel);
// Runs simplify_dims, then two rounds of eliminate_common_subexpressions and hoist_loop_invariants, then
// eliminate_dead_code and drop_clamps.
void clean_up(ir::Kernel& kernel);

// Whether an extent is known to be a multiple of `n`.
bool divisible_by(const ir::Kernel& kernel, const IndexExpr& extent, int64_t n);

}  // namespace fusec::compiler
