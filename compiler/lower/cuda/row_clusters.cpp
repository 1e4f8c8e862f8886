// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: rows that do not fit in the registers of one block, and that the blocks of a cluster can hold as
// several chunks (row_chunks.h) for each warp.

#include <algorithm>

#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/cuda/row_shape.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kMaxRowThreads = 512;   // of a block, where the row would not fit else
constexpr int kClusterAccesses = 16;  // that a thread of a cluster holds

// A phase of the row: a reduction, or a loop over its elements.
struct NestPhase {
  const Stmt* stmt;
  std::vector<LoopHead> loops;
  Block body;
};

std::vector<NestPhase> find_phases(const PerfectNest& nest) {
  std::vector<NestPhase> phases;
  for (const Stmt& stmt : nest.body) {
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      phases.push_back({&stmt, reduce->loops, reduce->body});
    } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
      PerfectNest loops = peel_loops(stmt);
      phases.push_back({&stmt, std::move(loops.heads), std::move(loops.body)});
    }
  }
  return phases;
}

// The chunks of a long row, if they are the same in all phases.
std::optional<Chunks> common_chunks(const ir::Kernel& kernel, const std::vector<NestPhase>& phases) {
  std::optional<Chunks> common;
  for (const NestPhase& phase : phases) {
    const Chunks own = find_chunks(kernel, phase.loops, phase.body);
    if (common && !(own == *common)) return std::nullopt;
    common = own;
  }
  return common;
}

// Chunks are of elements in the order of memory, as slices of rows read them.
bool is_in_memory_order(const ir::Kernel& kernel, const std::vector<NestPhase>& phases) {
  return std::all_of(phases.begin(), phases.end(), [&](const NestPhase& phase) {
    const auto* reduce = std::get_if<ir::Reduce>(&phase.stmt->v);
    if (reduce == nullptr) return true;
    ir::Reduce ordered = *reduce;
    order_by_memory(ordered, kernel);
    return ordered.loops == reduce->loops;
  });
}

// Whether some phases read the same rows, and all that they have in common fits in the registers.
bool holds_all(ir::Kernel& kernel, const RowShape& shape, std::vector<NestPhase> phases) {
  const VarId at = add_var(kernel);
  std::vector<RowPhase> same_loops;  // all phases over one loop variable
  for (NestPhase& phase : phases) {
    IndexExpr length = 1;
    for (const LoopHead& loop : phase.loops) length *= loop.extent;
    const Linear where = linearize(phase.loops, IndexExpr::symbol(at));
    for (const LoopHead& loop : phase.loops) substitute(phase.body, loop.var, where.values.at(loop.var));
    const ir::IndexRanges ranges = ir::compute_ranges({{LoopTag::seq, at, length}}, 1);
    for (Stmt& stmt : phase.body)
      if (auto* load = std::get_if<ir::Load>(&stmt.v))
        for (IndexExpr& d : load->index) d = simplify(d, ranges);
    same_loops.push_back({&phase.body, phase.stmt});
  }
  const auto values = find_shared_values(kernel, same_loops, true, [&](const ir::Load& load) {
    return kernel.buffers[load.buffer].space == ir::Space::in && load.clamp == 0 && load.index.back().uses(at);
  });
  int registers = 0;
  for (const SharedValue& value : values)
    // Compilers keep halves as floats from one phase to the next.
    registers += shape.held * shape.lanes * static_cast<int>((size_of(dtype_of(kernel, value)) + 3) / 4);
  return registers > 0 && registers <= kMaxHeldElements;
}

}  // namespace

std::optional<RowShape> shape_of_cluster(const Scheduling& s, const PerfectNest& nest) {
  const std::vector<NestPhase> phases = find_phases(nest);
  const auto chunks = common_chunks(s.kernel, phases);
  if (!chunks || s.target.sm < kClusterSm || !is_in_memory_order(s.kernel, phases)) return std::nullopt;
  RowShape shape;
  shape.lanes = chunks->lanes;
  const auto steps = static_cast<int>(chunks->steps);
  const auto holds = [&](int threads) { return int64_t{threads} / kWarp * shape.chunks >= chunks->count; };
  shape.chunks = std::min(kClusterAccesses, kMaxHeldElements / shape.lanes) / steps;
  if (shape.chunks < 1 || !holds(kMaxBlocks * kMaxRowThreads)) return std::nullopt;
  shape.held = shape.chunks * steps;
  shape.threads = kClusterThreads;
  while (!holds(shape.threads)) shape.threads *= 2;
  shape.blocks = std::min(kMaxBlocks, shape.threads / kClusterThreads);
  // Blocks without a part of the row would only take room: rows of five times a power of two are frequent.
  const int block_warps = shape.warps() / shape.blocks;
  shape.blocks = static_cast<int>((chunks->count + block_warps * shape.chunks - 1) / (block_warps * shape.chunks));
  shape.threads = shape.blocks * block_warps * kWarp;
  if (!holds_all(s.kernel, shape, phases)) return std::nullopt;
  const int64_t least = (int64_t{3} * s.target.sm_count + 4 * shape.blocks - 1) / (4 * shape.blocks);
  const bool enough = has_many(s, count_iterations(nest.heads), least, false);
  return decide(s, &ScheduleChoice::clusters, enough) ? std::optional(shape) : std::nullopt;
}

}  // namespace fusec::compiler
