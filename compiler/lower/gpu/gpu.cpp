// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: makes the lowered form of a kernel, one grid nest after another.

#include "compiler/lower/gpu/gpu.h"

#include <algorithm>
#include <set>

#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/short_functions.h"
#include "ir/support/check.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kMaxBlockThreads = 1024;
constexpr int64_t kMaxClusterBlocks = 8;

// Removes from accesses to reg buffers the axes that a thread's private copy lacks: those of the parallel loops around
// the access but not around the declaration. Walks with the number of parallel loops around each statement.
class PrivateBuffers {
 public:
  explicit PrivateBuffers(ir::Kernel& kernel) : kernel_(kernel) {}

  void run() {
    walk(kernel_.body, 0);
    for (const auto& [id, axes] : dropped_) {
      ir::IndexShape& shape = kernel_.buffers[id].shape;
      shape.erase(shape.begin(), shape.begin() + axes);
    }
  }

 private:
  void walk(Block& block, int depth) {
    for (Stmt& stmt : block) {
      visit(stmt, depth);
      int inside = depth;
      ir::for_each_head(stmt, [&](const LoopHead& head) { inside += head.tag >= LoopTag::block; });
      for (Block* nested : ir::nested_blocks(stmt)) walk(*nested, inside);
    }
  }

  void visit(Stmt& stmt, int depth) {
    if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) declared_[alloc->buffer] = depth;
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) access(load->buffer, load->index, depth);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) access(store->buffer, store->index, depth);
    if (auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) {
      access(copy->dst, copy->dst_index, depth);
      access(copy->src, copy->src_index, depth);
    }
    if (auto* product = std::get_if<ir::TileProduct>(&stmt.v)) access(product->sums, product->sums_index, depth);
    const auto* tile = std::get_if<ir::TransposeTile>(&stmt.v);
    if (tile != nullptr && dropped(tile->dst, depth) + dropped(tile->src, depth) != 0)
      throw UnsupportedSchedule("a transpose whose tiles are not declared beside it");
  }

  int dropped(BufferId id, int depth) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    const bool is_parameter = buffer.space == ir::Space::in || buffer.space == ir::Space::out;
    if (is_parameter || buffer.space == ir::Space::scratch) return 0;
    const auto found = declared_.find(id);
    if (found == declared_.end() || found->second == 0)
      throw UnsupportedSchedule("'" + buffer.name + "' is not declared inside of the grid");
    if (buffer.space != ir::Space::reg) return 0;
    const auto [at, is_first] = dropped_.try_emplace(id, depth - found->second);
    if (at->second != depth - found->second)
      throw UnsupportedSchedule("'" + buffer.name + "' is used at two depths of block loops");
    if (static_cast<size_t>(at->second) > buffer.shape.size())
      throw UnsupportedSchedule("'" + buffer.name + "' lacks axes of block loops");
    return at->second;
  }

  void access(BufferId id, std::vector<IndexExpr>& index, int depth) {
    index.erase(index.begin(), index.begin() + dropped(id, depth));
  }

  ir::Kernel& kernel_;
  std::map<BufferId, int> declared_, dropped_;
};

ir::Loop* as_grid(Stmt& stmt) {
  auto* loop = std::get_if<ir::Loop>(&stmt.v);
  return loop != nullptr && loop->head.tag == LoopTag::grid ? loop : nullptr;
}

// Puts the statements of a kernel without grid loops into a grid of one block.
void wrap_in_grid(ir::Kernel& kernel) {
  if (std::any_of(kernel.body.begin(), kernel.body.end(), [](Stmt& stmt) { return as_grid(stmt) != nullptr; })) return;
  Block result, body;
  for (Stmt& stmt : kernel.body) {
    const auto* alloc = std::get_if<ir::Alloc>(&stmt.v);
    const bool is_scratch = alloc != nullptr && kernel.buffers[alloc->buffer].space == ir::Space::scratch;
    (is_scratch ? result : body).push_back(std::move(stmt));
  }
  if (body.empty()) return;
  result.push_back({ir::Loop{{LoopTag::grid, add_var(kernel), 1}, std::move(body), ir::PhaseBoundary::launches, 0}});
  kernel.body = std::move(result);
}

// Gives the variables of the nest's loops their ranges.
void add_grid_ranges(ThreadLowering& l, ir::Loop& outer) {
  const ir::Loop& innermost = ir::innermost_grid(outer);
  for (ir::Loop* at = &outer;; at = as_grid(at->body[0])) {
    at->head.extent = resolve(l, at->head.extent);
    l.ranges[at->head.var] = {IndexExpr(0), at->head.extent - 1};
    if (at == &innermost) return;
  }
}

ThreadLowering start_lowering(ir::Kernel& kernel) {
  ThreadLowering l{kernel, 1, 1, {}, {}, {}, nullptr, {}};
  for (uint32_t i = 0; i < kernel.extents.size(); ++i) l.ranges[ir::ExtentId{i}] = {IndexExpr(0), std::nullopt};
  for (uint32_t i = 0; i < kernel.regs.size(); ++i) l.ranges[RegId{i}] = {};
  return l;
}

// Lowers the body of a grid loop for the threads of `grid`, which it counts.
void lower_body(ThreadLowering l, ir::Loop& inner, ir::Loop& grid) {
  l.block_threads = count_threads(l, inner.body);
  l.cluster = count_blocks(l, inner.body);
  if (l.block_threads > l.cluster * kMaxBlockThreads) {
    throw UnsupportedSchedule("a block of " + std::to_string(l.block_threads / l.cluster) + " threads, the limit is " +
                              std::to_string(kMaxBlockThreads));
  }
  if (l.cluster > kMaxClusterBlocks || (l.cluster > 1 && l.block_threads % (32 * l.cluster) != 0)) {
    throw UnsupportedSchedule(std::to_string(l.block_threads) + " threads in a cluster of " +
                              std::to_string(l.cluster) + " blocks");
  }
  l.group.size = l.block_threads;
  l.ranges[ir::kThread] = {IndexExpr(0), IndexExpr(l.block_threads - 1)};
  if (l.block_threads == 1) l.group.thread = 0;
  const Block body = std::move(inner.body);
  Block lowered;
  l.out = &lowered;
  lower_block(l, body);
  inner.body = std::move(l.shared);
  for (Stmt& stmt : lowered) inner.body.push_back(std::move(stmt));
  grid.threads = static_cast<int>(l.block_threads);
  grid.cluster = static_cast<int>(l.cluster);
}

void lower_grid(ir::Kernel& kernel, ir::Loop& grid) {
  ThreadLowering l = start_lowering(kernel);
  add_grid_ranges(l, grid);
  ir::Loop& inner = ir::innermost_grid(grid);
  if (!grid.tasks) return lower_body(std::move(l), inner, grid);
  std::set<int> threads;
  for (Stmt& stmt : inner.body) {
    ir::Loop* pass = as_grid(stmt);
    if (pass == nullptr) throw UnsupportedSchedule("a statement stands beside the passes of tasks");
    ThreadLowering own = start_lowering(kernel);
    for (ir::Loop* around : {&grid, pass}) add_grid_ranges(own, *around);
    lower_body(std::move(own), *pass, grid);
    threads.insert(grid.threads);
  }
  if (threads.size() != 1) throw UnsupportedSchedule("passes of different numbers of threads");
}

// No loop variable keeps the name that kThread has in texts.
void free_name_of_thread(ir::Kernel& kernel) {
  for (uint32_t i = 0; i < kernel.vars.size(); ++i) {
    std::string& name = kernel.vars[ir::VarId{i}];
    if (name == systematic_name(ir::kThread)) name += "_" + std::to_string(i);
  }
}

}  // namespace

Result<ir::Kernel> lower_to_threads(const ir::Kernel& kernel) {
  if (ir::is_lowered(kernel)) return kernel;
  ir::Kernel result = kernel;
  free_name_of_thread(result);
  try {
    wrap_in_grid(result);
    PrivateBuffers(result).run();
    for (Stmt& stmt : result.body) {
      if (ir::Loop* grid = as_grid(stmt)) {
        lower_grid(result, *grid);
      } else if (!std::holds_alternative<ir::Alloc>(stmt.v)) {
        throw UnsupportedSchedule("a statement stands beside grid loops");
      }
    }
  } catch (const UnsupportedSchedule& e) {
    return Status(StatusCode::compile_failed, e.what());
  }
  const std::string problem = place_syncs(result);
  if (!problem.empty()) return Status(StatusCode::compile_failed, problem);
  return result;
}

Result<ir::Kernel> lower_for_writer(const ir::Kernel& kernel, const Target& target) {
  const auto lower = [&]() -> Result<ir::Kernel> {
    ir::Kernel lowered = kernel;
    if (target.kind == TargetKind::cuda) {
      FUSEC_ASSIGN(lowered, lower_to_threads(kernel));
      join_branches(lowered);
      lower_arithmetic(lowered);
    }
    shorten_functions(lowered);
    return lowered;
  };
  return ir::guarded(lower, {.overflow = StatusCode::compile_failed});
}

}  // namespace fusec::compiler
