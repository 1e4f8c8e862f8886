// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: brings rows into L2 before the clusters that will take them start. While the blocks of a cluster
// exchange the statistics of a row and store it, they load nothing, and memory would idle. So each cluster, once it has
// its own row, asks for the lines of a later one. Clusters start in order and end one after another, so a row that is
// a third of all running clusters ahead starts soon; lines asked for much earlier leave L2 again before they are read
// (on an H100, softmax 256x128256: 0.95 of a copy without, 0.96 with half of the clusters as the distance, 0.80 with
// all). The lines are only hints, so results do not depend on which cluster takes a row, or when.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kCacheLine = 128;     // bytes that one prefetch asks for
constexpr int64_t kOwnRegisters = 32;   // of a thread, besides the elements that it holds
constexpr int64_t kRunningToAhead = 3;  // the part of all running clusters that is the distance
constexpr int64_t kCacheToAhead = 4;    // the part of L2 that rows ahead may take: stores need the rest

// The clusters that run at the same time on the whole GPU.
int64_t count_running(const Target& target, const RowTeam& team) {
  const int64_t registers = (kOwnRegisters + team.held_registers) * (team.threads / team.blocks);
  const int64_t of_sm = std::max<int64_t>(1, target.registers_per_sm / registers);
  return std::max<int64_t>(1, target.sm_count * of_sm / team.blocks);
}

bool use_any(const ir::Load& load, const std::vector<LoopHead>& heads) {
  return std::any_of(load.index.begin(), load.index.end(), [&](const IndexExpr& d) {
    return std::any_of(heads.begin(), heads.end(), [&](const LoopHead& head) { return d.uses(head.var); });
  });
}

class RowAhead {
 public:
  RowAhead(const Scheduling& s, const RowTeam& team, const PerfectNest& nest, const IndexExpr& row)
      : s_(s),
        k_(s.kernel),
        team_(team),
        nest_(nest),
        distance_(std::max<int64_t>(1, count_running(s.target, team) / kRunningToAhead)) {
    const Linear here = linearize(nest.heads, row);
    left_ = here.total - distance_ - row;
    rows_ = linearize(nest.heads, row + distance_).values;
    if (team.blocks > 1) loops_.push_back({LoopTag::cluster, add_var(k_), team.blocks});
    loops_.push_back({LoopTag::block, add_var(k_), team.threads / team.blocks / kWarp});
    loops_.push_back({LoopTag::block, add_var(k_), kWarp});
    for (const LoopHead& loop : loops_) thread_ = thread_ * loop.extent + IndexExpr::symbol(loop.var);
  }

  std::optional<Stmt> prefetch(const ir::Reduce& first) {
    Block lines;
    for (const Stmt& stmt : first.body) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && moves_with_row(*load, first.loops)) append(lines, lines_of(*load, first.loops));
    }
    if (lines.empty()) return std::nullopt;
    Block once;
    once.push_back(only_if(k_, left_, std::move(lines)));
    return rebuild_loops(loops_, std::move(once));
  }

 private:
  bool moves_with_row(const ir::Load& load, const std::vector<LoopHead>& loops) const {
    return k_.buffers[load.buffer].space == ir::Space::in && load.clamp == 0 && load.guard.empty() &&
           load.index.back().uses(loops.back().var) && use_any(load, nest_.heads);
  }

  // The threads of a team ask for neighbouring lines in turn.
  Block lines_of(const ir::Load& load, const std::vector<LoopHead>& loops) const {
    const int64_t of_line = kCacheLine / static_cast<int64_t>(size_of(k_.buffers[load.buffer].dtype));
    IndexExpr length = 1;
    for (const LoopHead& loop : loops) length *= loop.extent;
    const int64_t lines = (length.value() + of_line - 1) / of_line;
    const int64_t room = s_.target.last_level_cache / kCacheToAhead / (distance_ * kCacheLine);
    const int64_t all = (lines + team_.threads - 1) / team_.threads;
    const int64_t turns = std::max<int64_t>(1, std::min(all, room / team_.threads));
    const VarId turn = add_var(k_);
    const IndexExpr number = (turns > 1 ? IndexExpr::symbol(turn) * team_.threads : IndexExpr(0)) + thread_;
    const Linear at = linearize(loops, number * of_line);
    ir::Prefetch prefetch{load.buffer, load.index};
    for (IndexExpr& d : prefetch.index) d = d.substitute(at.values).substitute(rows_);
    Block body;
    body.push_back({std::move(prefetch)});
    if (turns * team_.threads > lines) body = once(lines - number, std::move(body));
    if (turns == 1) return body;
    Block result;
    result.push_back(rebuild_loops({{LoopTag::unroll, turn, turns}}, std::move(body)));
    return result;
  }

  Block once(const IndexExpr& condition, Block body) const {
    Block result;
    result.push_back(only_if(k_, condition, std::move(body)));
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const RowTeam& team_;
  const PerfectNest& nest_;
  const int64_t distance_;  // in rows
  IndexExpr left_;          // rows from the one ahead to the last
  std::map<ir::SymbolId, IndexExpr> rows_;
  std::vector<LoopHead> loops_;  // over the threads
  IndexExpr thread_ = 0;
};

}  // namespace

std::optional<Stmt> prefetch_row_ahead(const Scheduling& s, const RowTeam& team, const PerfectNest& nest,
                                       const IndexExpr& row) {
  for (const Stmt& stmt : nest.body)
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) return RowAhead(s, team, nest, row).prefetch(*reduce);
  return std::nullopt;
}

}  // namespace fusec::compiler
