// SPDX-License-Identifier: Apache-2.0
// Performs buffer assignment during bind: computes the lifetimes of temporaries, merges an output into the memory of a
// dying input where the step allows it, and gives each temporary and workspace its offset in the arena. The offsets
// themselves come from `plan_memory`.

#include <algorithm>
#include <numeric>

#include "ir/support/check.h"
#include "runtime/plan/memory_plan.h"

namespace fusec::runtime {
namespace {

using Parents = std::vector<uint32_t>;  // in-place chains: allocation -> the one whose memory it takes

uint32_t root(const Parents& parents, uint32_t id) {
  while (parents[id] != id) id = parents[id];
  return id;
}

int count_mentions(const ResolvedStep& step, ir::AllocId id) {
  return static_cast<int>(
      std::count_if(step.args.begin(), step.args.end(), [&](const ResolvedView& v) { return v.alloc == id; }));
}

bool in_arena(const ir::Program& program, const ResolvedProgram& resolved, ir::AllocId id) {
  return program.allocs[id].kind == ir::AllocKind::temporary && !resolved.kept[id.index];
}

bool may_take_over(const ir::Program& program, const ResolvedProgram& resolved, const std::vector<Lifetime>& lives,
                   int at, AliasPair pair) {
  const ResolvedStep& step = resolved.steps[static_cast<std::size_t>(at)];
  const ResolvedView& in = step.args[static_cast<std::size_t>(pair.in)];
  const ResolvedView& out = step.args[static_cast<std::size_t>(pair.out)];
  return in_arena(program, resolved, in.alloc) && in_arena(program, resolved, out.alloc) &&
         lives[in.alloc.index].last == at && lives[out.alloc.index].first == at && same_window(step, in, out) &&
         resolved.alloc_bytes[in.alloc.index] == resolved.alloc_bytes[out.alloc.index];
}

Parents merge_in_place(const ir::Program& program, const ResolvedProgram& resolved, const LibraryOps& ops,
                       const std::vector<Lifetime>& lives) {
  Parents parents(program.allocs.size());
  std::iota(parents.begin(), parents.end(), 0u);
  std::vector<bool> taken(program.allocs.size());
  for (std::size_t i = 0; i < resolved.steps.size(); ++i) {
    for (AliasPair pair : alias_pairs(program, resolved.steps[i], ops[i].get())) {
      if (!may_take_over(program, resolved, lives, static_cast<int>(i), pair)) continue;
      const uint32_t in = resolved.steps[i].args[static_cast<std::size_t>(pair.in)].alloc.index;
      const uint32_t out = resolved.steps[i].args[static_cast<std::size_t>(pair.out)].alloc.index;
      if (taken[in] || parents[out] != out) continue;
      taken[in] = true;
      parents[out] = in;
    }
  }
  return parents;
}

// Every temporary is written before it is read. One without elements has nothing to write, nor to read: a view of it
// may still have extents of its own.
void check_written_first(const ir::Program& program, const ResolvedProgram& resolved) {
  std::vector<bool> written(program.allocs.size());
  for (const ResolvedStep& step : resolved.steps) {
    for (std::size_t a = 0; a < step.args.size(); ++a) {
      const ir::AllocId id = step.args[a].alloc;
      if (writes(program, *step.step, a) || program.allocs[id].kind != ir::AllocKind::temporary) continue;
      FUSEC_CHECK(written[id.index] || step.args[a].empty() || resolved.alloc_bytes[id.index] == 0)
          << "step '" << step.step->origin << "' reads a temporary that nothing has written";
    }
    for (std::size_t a = 0; a < step.args.size(); ++a) {
      if (writes(program, *step.step, a)) written[step.args[a].alloc.index] = true;
    }
  }
}

void place_kept(const ResolvedProgram& resolved, int64_t alignment, ArenaLayout& layout) {
  layout.kept_offset.assign(resolved.kept.size(), -1);
  for (std::size_t id = 0; id < resolved.kept.size(); ++id) {
    if (!resolved.kept[id]) continue;
    layout.kept_offset[id] = layout.kept_bytes;
    layout.kept_bytes += round_up(resolved.alloc_bytes[id], alignment);
  }
}

}  // namespace

std::vector<Lifetime> lifetimes(const ir::Program& program, const ResolvedProgram& resolved) {
  std::vector<Lifetime> lives(program.allocs.size());
  for (std::size_t i = 0; i < resolved.steps.size(); ++i) {
    for (const ResolvedView& view : resolved.steps[i].args) {
      Lifetime& life = lives[view.alloc.index];
      life.first = std::min(life.first, static_cast<int>(i));
      life.last = std::max(life.last, static_cast<int>(i));
    }
  }
  return lives;
}

std::vector<AliasPair> alias_pairs(const ir::Program& program, const ResolvedStep& step, const LibraryOp* op) {
  std::vector<AliasPair> pairs;
  if (const auto* launch = std::get_if<ir::KernelStep>(&step.step->v)) {
    const ir::Kernel& kernel = program.kernels[launch->kernel];
    const auto index_of = [&](ir::BufferId b) {
      return static_cast<int>(std::find(kernel.params.begin(), kernel.params.end(), b) - kernel.params.begin());
    };
    for (const auto& [in, out] : kernel.may_alias) pairs.push_back({index_of(in), index_of(out)});
  } else if (op != nullptr) {
    for (int in : op->may_alias()) pairs.push_back({in, static_cast<int>(step.args.size()) - 1});
  }
  return pairs;
}

bool same_window(const ResolvedStep& step, const ResolvedView& in, const ResolvedView& out) {
  return in.offset == out.offset && in.shape == out.shape && in.strides == out.strides &&
         size_of(in.dtype) == size_of(out.dtype) && count_mentions(step, in.alloc) == 1 &&
         count_mentions(step, out.alloc) == 1;
}

ArenaLayout plan_arena(const ir::Program& program, const ResolvedProgram& resolved, const LibraryOps& ops,
                       int64_t alignment) {
  check_written_first(program, resolved);
  const std::vector<Lifetime> lives = lifetimes(program, resolved);
  const Parents parents = merge_in_place(program, resolved, ops, lives);
  std::vector<BufferInterval> intervals;
  std::vector<std::size_t> block_of(program.allocs.size(), SIZE_MAX);
  for (uint32_t id = 0; id < program.allocs.size(); ++id) {
    if (!in_arena(program, resolved, ir::AllocId{id}) || !lives[id].used() || parents[id] != id) continue;
    block_of[id] = intervals.size();
    intervals.push_back({resolved.alloc_bytes[id], lives[id].first, lives[id].last});
  }
  for (uint32_t id = 0; id < program.allocs.size(); ++id) {
    if (parents[id] == id) continue;
    block_of[id] = block_of[root(parents, id)];
    intervals[block_of[id]].last = std::max(intervals[block_of[id]].last, lives[id].last);
  }
  std::vector<std::size_t> workspace_block(ops.size(), SIZE_MAX);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i] || ops[i]->workspace_bytes() == 0) continue;
    workspace_block[i] = intervals.size();
    intervals.push_back({static_cast<int64_t>(ops[i]->workspace_bytes()), static_cast<int>(i), static_cast<int>(i)});
  }
  const MemoryPlan plan = plan_memory(intervals, alignment);
  const auto offsets_of = [&](const std::vector<std::size_t>& block) {
    std::vector<int64_t> offsets(block.size(), -1);
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (block[i] != SIZE_MAX) offsets[i] = plan.offsets[block[i]];
    }
    return offsets;
  };
  ArenaLayout layout{offsets_of(block_of), {}, offsets_of(workspace_block), plan.arena_bytes};
  place_kept(resolved, alignment, layout);
  return layout;
}

}  // namespace fusec::runtime
