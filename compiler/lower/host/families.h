// SPDX-License-Identifier: Apache-2.0
// The schedule families of a CPU: grid loops run over tasks, and lanes are vectors.
#pragma once

#include <optional>

#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

// Elements per task: enough to pay for its start, and few enough to share tasks among threads.
inline constexpr int64_t kTaskElements = 4096;

// Appends the body of the second nest to the first if both are element-wise, have equal loops and load some element in
// common; returns false, having done nothing, for other nests.
bool join_nests(const ir::Kernel& kernel, PerfectNest& first, const PerfectNest& second);

// The lanes that an element-wise loop over `extent` processes at a time: one vector, or several to use memory better
// and to hide the latency of long chains.
int lanes_in_flight(const Scheduling& s, const ir::Block& body, const IndexExpr& extent);
ir::Block schedule_pointwise(const Scheduling& s, PerfectNest nest);
ir::Block schedule_transpose(const Scheduling& s, PerfectNest nest, VarId across);
// Schedules a nest that stores a few planes as the innermost axis (a color image, channels last): vectors of all planes
// at one position are interleaved in registers. Returns nullopt for other nests.
std::optional<ir::Block> schedule_interleave(const Scheduling& s, const PerfectNest& nest);
// The elements of a long row whose sum goes to the next level: 128 for each of 32 lanes.
inline constexpr int64_t kRowChunk = 4096;
ir::Block schedule_rows(const Scheduling& s, PerfectNest nest);
// Schedules many short rows in groups; returns nullopt for other nests.
std::optional<ir::Block> schedule_row_groups(const Scheduling& s, PerfectNest& nest);
// Appends the accumulation of one reduction along a row; returns the buffer of its lanes, which are not combined yet.
ir::BufferId accumulate_row(ir::Kernel& kernel, ir::Reduce reduce, ir::Block& out);
// Appends loops along a row, with vectors over the innermost.
void vectorize_loops(const Scheduling& s, ir::Stmt stmt, ir::Block& out);
// Appends the schedule of an argmax or argmin along a row; returns false, having done nothing, for other reductions.
bool schedule_search(ir::Kernel& kernel, ir::Reduce& reduce, ir::Block& out);
// Makes each reduction of a long row the reduction of the results of its parts.
void split_long_rows(ir::Kernel& kernel, ir::Block& body);
// Schedules a few long rows, after split_long_rows, as phases whose tasks are parts of rows. Returns nullopt for other
// nests.
std::optional<ir::Block> schedule_few_rows(const Scheduling& s, PerfectNest& nest);
// Whether the threads of the target share rows in parts. `once`: each row is read once.
bool few_rows(const Scheduling& s, const std::vector<ir::LoopHead>& rows, bool once);
// Whether a region of this domain has few long rows, whose values are recomputed in each phase: no task keeps a row.
bool recomputes_rows(const Target& target, const Domain& domain);
ir::Block schedule_columns(const Scheduling& s, PerfectNest nest, VarId along);
// Schedules a column reduction with few columns and many rows as partial sums of row chunks and their sum. Returns
// nullopt for other nests.
std::optional<ir::Block> schedule_column_chunks(const Scheduling& s, const PerfectNest& nest);

// Whether the nest is a scan that schedule_scan takes: it stores its results as it goes, along columns, or along rows
// if it does little else.
bool scans_in_place(const PerfectNest& nest);
// Schedules a scan, its columns in vectors or a few of its rows at once. Returns nullopt for other nests.
std::optional<ir::Block> schedule_scan(const Scheduling& s, const PerfectNest& nest);

// The lanes of a vector of the widest type that the block computes in, times `unroll`.
int lanes_for(const ir::Kernel& kernel, const ir::Block& block, const Target& target, int unroll = 1);

// Runs `body` for `length` iterations of `var` from `base` on: a loop over vectors of `lanes` iterations, then the rest
// under a guard. `divisible` says that there is no rest.
ir::Block vector_loops(ir::Kernel& kernel, const ir::Block& body, VarId var, const IndexExpr& base,
                       const IndexExpr& length, int lanes, bool divisible);

}  // namespace fusec::compiler
