// SPDX-License-Identifier: Apache-2.0
// Small rewrites of kernels, each with one job. Schedules are made of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::compiler {

// d = rest + sum coefficient[v] * v over the given variables, where nothing else mentions them; nullopt if one occurs
// inside floordiv, mod, min or max, or in a product with another.
struct Affine {
  std::map<std::string, Dim> coefficients;  // only non-zero ones
  Dim rest;
  Dim coefficient(const std::string& var) const;
};
std::optional<Affine> affine_in(const Dim& d, const std::vector<std::string>& vars);

// Replaces a symbol in every Dim of a block, nested ones included.
void substitute(ir::Block& block, const std::string& var, const Dim& by);

// A copy with registers, loop variables and local buffers of its own.
ir::Block clone(ir::Kernel& kernel, const ir::Block& block);

// A loop variable not used in the kernel yet.
std::string fresh_var(ir::Kernel& kernel);
// Renames loops until no two have one name.
void give_own_vars(ir::Kernel& kernel);

// Makes `width` iterations of `var` the lanes of one: var becomes base + lane in `block`; registers that depend on it
// become vectors, and so do reductions inside (each lane one of its own); local buffers get a trailing axis of lanes.
void vectorize(ir::Kernel& kernel, ir::Block& block, const std::string& var, int width, const Dim& base);

// Adds `extra` to the guard of every load and store of several lanes. The block must run only where `extra` holds for
// the first lane: what is one value for all lanes needs no guard then.
void add_guard(const ir::Kernel& kernel, ir::Block& block, const ir::Guard& extra);

// Sums and products of floats over more than 32 elements, in loops of a thread or lane that run in order, become sums
// of sums: of chunks whose length is near the square root, and of each loop by itself.
void sum_in_levels(ir::Kernel& kernel, ir::Block& block);

// Whether the statement or one nested in it mentions the symbol in a Dim.
bool mentions(const ir::Stmt& stmt, const std::string& symbol);

// Simplifies every Dim under what the enclosing loops say of their variables, drops guards that are proven, removes
// loops that run once or never.
void simplify_dims(ir::Kernel& kernel);
// Registers computed twice in one scope become one; values that do not change in a loop move in front of it; what
// nobody reads goes.
void share_common(ir::Kernel& kernel);
void hoist_invariants(ir::Kernel& kernel);
void remove_dead(ir::Kernel& kernel);
// All of the above until nothing changes (at most three rounds).
void clean_up(ir::Kernel& kernel);

}  // namespace fusec::compiler
