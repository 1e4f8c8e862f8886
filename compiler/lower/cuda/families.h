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
// How element-wise work is spread over threads.
struct PointShape {
  int lanes = 1, threads = 256, unroll = 1;  // unroll: accesses of a thread where loops are merged into one
  int steps = 1;                             // accesses of a thread along one of several loops
  bool heavy = false;                        // whether a warp computes for longer than its loads take
  int64_t tile() const { return int64_t{threads} * unroll; }  // accesses of one block
};
// Schedules nests of several loops. Returns nullopt for bodies with loops and where the inner extent is not known.
std::optional<ir::Block> cuda_boxes(const Scheduling& s, const PerfectNest& nest, const PointShape& shape);
// Gives loads of `body` that read one element at different iterations of `along` one guard for it, where that is the
// same for all valid iterations. Returns how many loads read what a load of a neighbouring iteration reads.
int share_windows(const ir::Kernel& kernel, const std::vector<ir::LoopHead>& heads, VarId along, ir::Block& body);
// Whether the body is a sum over all places of a window whose rows are alike. roll_rows puts a loop over the rows in
// its place, with the bits of the sum.
bool has_rows(ir::Kernel& kernel, const std::vector<ir::LoopHead>& heads, const ir::Block& body);
void roll_rows(ir::Kernel& kernel, const std::vector<ir::LoopHead>& heads, ir::Block& body);
// Schedules loads along `across` and stores along the innermost loop. Returns nullopt for bodies with loops, or with
// more operands than fit in shared memory.
std::optional<ir::Block> cuda_transpose(const Scheduling& s, const PerfectNest& nest, VarId across);
// Schedules nests that interleave up to 8 planes or take them apart. Returns nullopt for others.
std::optional<ir::Block> cuda_planes(const Scheduling& s, const PerfectNest& nest);
// Schedules large products of 16-bit matrices that lie in memory, with what follows them, for the warpgroup
// instructions of sm_90. Returns nullopt for others, and where there are few rows.
std::optional<ir::Block> cuda_warpgroup_product(const Scheduling& s, const PerfectNest& nest);
// Schedules matrix products of 16-bit floats for matrix instructions. Returns nullopt for nests that are no such
// product.
std::optional<ir::Block> cuda_product(const Scheduling& s, const PerfectNest& nest);
// Schedules any matrix product of f32 or 16-bit floats, for regions that have one (LoopNest::multiplies). Returns
// nullopt for other nests.
std::optional<ir::Block> cuda_general_product(const Scheduling& s, const PerfectNest& nest);
// Schedules attentions, with the scores on the chip. Returns nullopt for other nests.
std::optional<ir::Block> cuda_attention(const Scheduling& s, const PerfectNest& nest);
// Schedules rows of any length. Returns nullopt where the body has what this family does not handle, such as scans or
// phases of different lengths.
std::optional<ir::Block> cuda_rows(const Scheduling& s, const PerfectNest& nest);
// The chunks of a row that no block holds in registers (row_chunks.h): they depend on its length and types alone.
struct Chunks {
  int lanes = 1;
  int64_t length = 0, steps = 1, count = 1;
  int64_t accesses() const { return steps * kWarp; }  // of one chunk
  bool operator==(const Chunks&) const = default;
};
Chunks find_chunks(const ir::Kernel& kernel, const std::vector<ir::LoopHead>& loops, const ir::Block& body);
// The number of rows to choose schedules by where it is a symbol of the model.
inline constexpr int64_t kUnknownRows = 8;
// Schedules rows of constant length that no block holds in registers. Returns nullopt where take_apart does.
std::optional<ir::Block> cuda_long_rows(const Scheduling& s, const PerfectNest& nest);
// Gives the places that argmax and its variants compare 32 bits where rows are short enough: wide ones take twice as
// many instructions and shuffles.
void narrow_places(ir::Kernel& kernel, ir::Block& block);
// Schedules a nest without reductions by the family that suits it.
ir::Block cuda_elements(const Scheduling& s, PerfectNest nest);
std::optional<ir::Block> cuda_columns(const Scheduling& s, const PerfectNest& nest, VarId along);
// Schedules several phases down columns, where columns are few and long. Returns nullopt elsewhere, and where
// take_apart does.
std::optional<ir::Block> cuda_column_parts(const Scheduling& s, const PerfectNest& nest);
// Schedules a scan: its rows by warps or blocks, or its columns by threads, in parts where they are few and long.
// Returns nullopt for other nests.
std::optional<ir::Block> cuda_scan(const Scheduling& s, const PerfectNest& nest);
// Schedules the scan of a nest whose results lie side by side along one of its loops.
ir::Block cuda_scan_columns(const Scheduling& s, PerfectNest nest, const ir::Scan& scan, size_t column);
// Schedules any nest.
ir::Block cuda_nest(const Scheduling& s, PerfectNest nest);

// The largest number up to `most`, at least 1, that divides `of`.
inline int64_t largest_divisor(int64_t of, int64_t most) {
  while (of % most != 0) --most;
  return most;
}

// The longest row, in elements, whose values stay in the registers of one block.
int64_t longest_held_row();

// Several loops as one loop over a linear index: the number of iterations, and the value of each loop variable.
struct Linear {
  IndexExpr total;                           // iterations
  std::map<ir::SymbolId, IndexExpr> values;  // of the heads' variables, in terms of `index`
};
Linear linearize(const std::vector<ir::LoopHead>& heads, const IndexExpr& index);

// A loop that runs its body once where `condition > 0`, else not at all.
ir::Stmt only_if(ir::Kernel& kernel, const IndexExpr& condition, ir::Block body);

// More than 0 where tile number `at` lies wholly inside of the extent.
IndexExpr whole_tiles_left(const IndexExpr& extent, int64_t tile, const IndexExpr& at);
// Code for tiles that lie wholly inside of their extents, and for those that do not. `left` has whole_tiles_left of
// each axis that tiles need not divide.
ir::Block whole_or_partial(ir::Kernel& kernel, const std::vector<IndexExpr>& left, ir::Block whole, ir::Block partial);

// The lanes that make 16 bytes of the widest element that the block loads or stores along `var`.
int lanes_of_access(const ir::Kernel& kernel, const ir::Block& block, VarId var);
// The value of d if every symbol in it has an expected value.
std::optional<int64_t> known_value(const Scheduling& s, const IndexExpr& d);
// Extents that have expected values. A schedule that depends on such values is right for them alone, and puts them in
// the place of the extents: in the nest, and in the shapes of the parameters.
using KnownExtents = std::map<ir::SymbolId, IndexExpr>;
KnownExtents known_extents(const Scheduling& s);
void put_extents(PerfectNest& nest, const KnownExtents& known);
void put_extents(ir::Kernel& kernel, const KnownExtents& known);

}  // namespace fusec::compiler
