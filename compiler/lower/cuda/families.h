// SPDX-License-Identifier: Apache-2.0
// The schedule families of a GPU: grid loops run over thread blocks, block loops over threads, and lanes are one access
// of up to 16 bytes. Constants were measured on an H100 unless they come from the Target.
#pragma once

#include <optional>

#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

inline constexpr int kWarp = 32;
inline constexpr int kAccessBytes = 16;  // the widest access of a thread

ir::Block cuda_pointwise(const Scheduling& s, PerfectNest nest);
ir::Block cuda_transpose(const Scheduling& s, PerfectNest nest, VarId across);
// Schedules rows of any length. Returns nullopt where the body has what this family does not handle, such as scans or
// phases of different lengths.
std::optional<ir::Block> cuda_rows(const Scheduling& s, const PerfectNest& nest);
// Schedules rows of constant length that no block holds in registers. Returns nullopt where take_apart does.
std::optional<ir::Block> cuda_long_rows(const Scheduling& s, const PerfectNest& nest);
// Schedules a nest without reductions by the family that suits it.
ir::Block cuda_elements(const Scheduling& s, PerfectNest nest);
std::optional<ir::Block> cuda_columns(const Scheduling& s, const PerfectNest& nest, VarId along);
// Schedules several phases down columns, where columns are few and long. Returns nullopt elsewhere, and where
// take_apart does.
std::optional<ir::Block> cuda_column_parts(const Scheduling& s, const PerfectNest& nest);
// Schedules any nest.
ir::Block cuda_nest(const Scheduling& s, PerfectNest nest);

// The longest row, in elements, whose values stay in the registers of one block.
int64_t longest_held_row();

// Puts a barrier between two statements of a block wherever threads exchange elements of a shared buffer.
void place_syncs(ir::Kernel& kernel);

// Several loops as one loop over a linear index: the number of iterations, and the value of each loop variable.
struct Linear {
  IndexExpr total;                           // iterations
  std::map<ir::SymbolId, IndexExpr> values;  // of the heads' variables, in terms of `index`
};
Linear linearize(const std::vector<ir::LoopHead>& heads, const IndexExpr& index);

// A loop that runs its body once where `condition > 0`, else not at all.
ir::Stmt only_if(ir::Kernel& kernel, const IndexExpr& condition, ir::Block body);

// The lanes that make 16 bytes of the widest element that the block loads or stores along `var`.
int lanes_of_access(const ir::Kernel& kernel, const ir::Block& block, VarId var);
// The value of d if every symbol in it has an expected value.
std::optional<int64_t> known_value(const Scheduling& s, const IndexExpr& d);

}  // namespace fusec::compiler
