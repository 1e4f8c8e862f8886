// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules element-wise nests, and nests with a thread for each row. The number of elements and the
// cost of the body decide lanes, threads and accesses per thread.

#include <algorithm>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// A body of this total cost keeps a warp busy for longer than its loads take. More blocks of fewer threads then overlap
// better.
constexpr int kHeavy = 60;
// From this cost on, the division that finds a block's position among rows takes noticeable time, so four accesses of a
// thread share it. On an H200, this brings a quantization from 0.90 to 0.95 of the copy speed, and bias and gelu from
// 0.75 to 0.90.
constexpr int kBusyRows = 16;

int sum_costs(const Block& block) {
  int cost = 0;
  for_each_stmt(block, [&](const Stmt& stmt) {
    if (const auto* let = std::get_if<ir::Let>(&stmt.v)) cost += info(let->op).cost;
  });
  return cost;
}

// Whether the nest keeps rows in local buffers. Then each row is computed by one thread with memory of its own.
bool keeps_rows(const ir::Kernel& kernel, const Block& block) {
  bool found = false;
  for_each_stmt(block, [&](const Stmt& stmt) {
    const auto* alloc = std::get_if<ir::Alloc>(&stmt.v);
    found |= alloc != nullptr && !num_elements(kernel.buffers[alloc->buffer].shape).is(1);
  });
  return found;
}

// Whether the body reads a buffer at several places, as a window does.
bool has_windows(const Block& body) {
  std::set<ir::BufferId> seen;
  return std::any_of(body.begin(), body.end(), [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    return load != nullptr && !seen.insert(load->buffer).second;
  });
}

// The statements of the body whose accesses move with every loop.
Block moving_accesses(const PerfectNest& nest) {
  Block moving;
  for (const Stmt& stmt : nest.body)
    if (std::all_of(nest.heads.begin(), nest.heads.end(),
                    [&](const LoopHead& head) { return head.extent.is(1) || mentions(stmt, head.var); }))
      moving.push_back(stmt);
  return moving;
}

// What moves with all loops decides: an f32 scale of a channel is loaded once for many elements of a 16-bit image. A
// window's elements all stay in registers, which are then too few.
int choose_lanes(const Scheduling& s, const PerfectNest& nest) {
  if (keeps_rows(s.kernel, nest.body)) return 1;
  const bool narrow = has_windows(nest.body);
  return lanes_of_access(s.kernel, narrow ? nest.body : moving_accesses(nest), nest.heads.back().var);
}

PointShape point_shape(const Scheduling& s, const PerfectNest& nest) {
  PointShape shape;
  const LoopHead& inner = nest.heads.back();
  shape.lanes = choose_lanes(s, nest);
  // A flat nest has one partial access at its end. Several rows would have one each, so lanes must divide a row.
  while (shape.lanes > 1 && nest.heads.size() > 1 && !divisible_by(s.kernel, inner.extent, shape.lanes))
    shape.lanes /= 2;
  IndexExpr elements = 1;
  for (const LoopHead& head : nest.heads) elements *= head.extent;
  const auto known = known_value(s, elements);
  const int64_t accesses = known.value_or(int64_t{1} << 20) / shape.lanes;
  while (shape.lanes > 1 && known && accesses * shape.lanes < int64_t{s.target.sm_count} * kWarp) shape.lanes /= 2;
  // The number of accesses per resident thread.
  const double waves = static_cast<double>(accesses) / std::max(1, s.target.sm_count * s.target.threads_per_sm);
  const int cost = sum_costs(nest.body);
  const bool heavy = cost >= kHeavy, busy = heavy || (nest.heads.size() > 1 && cost >= kBusyRows);
  shape.heavy = heavy;
  shape.steps = waves < 2 ? 1 : waves < 4 ? 2 : 4;
  shape.threads = waves < 1 || heavy || (busy && waves >= 16) ? 128 : waves < 16 ? 256 : 512;
  if (waves >= 16) {
    shape.unroll = busy ? 4 : 1;
  } else if (!heavy && waves >= 1) {
    shape.unroll = waves < 2 ? 1 : waves < 4 ? 2 : 4;
  }
  shape.threads = decide(s, &ScheduleChoice::threads, shape.threads);
  return shape;
}

// Emits the body for one access to a row of `length` elements, from `start` on. The last access may be partial.
Block access(const Scheduling& s, const Block& body, VarId var, const IndexExpr& start, const IndexExpr& length,
             int lanes) {
  Block result;
  Block whole = clone(s.kernel, body);
  if (lanes > 1) {
    vectorize(s.kernel, whole, var, lanes, start);
  } else {
    substitute(whole, var, start);
  }
  if (divisible_by(s.kernel, length, lanes)) {
    result.push_back(only_if(s.kernel, length - start - (lanes - 1), std::move(whole)));
  } else {
    add_guard(s.kernel, whole, {length - start - 1 - IndexExpr::symbol(ir::kLane)});
    result.push_back(only_if(s.kernel, length - start, std::move(whole)));
  }
  return result;
}

// Emits block t { unroll u { body(access number) } }. The access numbers of one thread block are contiguous.
template <class Body>
Block build_tile(const Scheduling& s, const PointShape& shape, VarId grid, const Body& body) {
  const VarId t = add_var(s.kernel), u = add_var(s.kernel);
  const IndexExpr step = shape.unroll > 1 ? IndexExpr::symbol(u) : IndexExpr(0);
  Block inside =
      body((IndexExpr(shape.unroll) * IndexExpr::symbol(grid) + step) * shape.threads + IndexExpr::symbol(t));
  if (shape.unroll > 1) {
    Block loop;
    loop.push_back({ir::Loop{{LoopTag::unroll, u, shape.unroll}, std::move(inside), ir::PhaseBoundary::launches}});
    inside = std::move(loop);
  }
  Block result;
  result.push_back({ir::Loop{{LoopTag::block, t, shape.threads}, std::move(inside), ir::PhaseBoundary::launches}});
  return result;
}

// Whether rows of `accesses` keep most of their thread blocks busy. If not, rows share blocks.
bool fills_blocks(const Scheduling& s, const IndexExpr& accesses, const PointShape& shape) {
  const int64_t n = known_extent(s, accesses, shape.tile());
  const int64_t covered = (n + shape.tile() - 1) / shape.tile() * shape.tile();
  return 10 * n >= 8 * covered;
}

}  // namespace

Block cuda_pointwise(const Scheduling& s, PerfectNest nest) {
  PointShape shape = point_shape(s, nest);
  if (auto boxes = cuda_boxes(s, nest, shape)) return std::move(*boxes);
  shape.unroll = decide(s, &ScheduleChoice::accesses, shape.unroll);
  const LoopHead inner = nest.heads.back();
  const IndexExpr accesses = ceildiv(inner.extent, shape.lanes);
  const VarId g = add_var(s.kernel);
  std::vector<LoopHead> heads(nest.heads.begin(), nest.heads.end() - 1);
  Block result;
  if (heads.empty() || fills_blocks(s, IndexExpr(known_value(s, accesses).value_or(0)), shape)) {
    for (LoopHead& head : heads) head.tag = LoopTag::grid;
    heads.push_back({LoopTag::grid, g, ceildiv(accesses, shape.tile())});
    Block tile = build_tile(s, shape, g, [&](const IndexExpr& at) {
      return access(s, nest.body, inner.var, shape.lanes * at, inner.extent, shape.lanes);
    });
    result.push_back(rebuild_loops(heads, std::move(tile)));
    return result;
  }
  // All rows are linearized: the access number determines the row and the position in it.
  nest.heads.back().extent = floordiv(inner.extent, shape.lanes);
  const auto total = [&] { return linearize(nest.heads, 0).total; }();
  Block tile = build_tile(s, shape, g, [&](const IndexExpr& at) {
    Block body = clone(s.kernel, nest.body);
    const Linear linear = linearize(nest.heads, at);
    const IndexExpr start = shape.lanes * linear.values.at(inner.var);
    if (shape.lanes > 1) {
      vectorize(s.kernel, body, inner.var, shape.lanes, start);
    } else {
      substitute(body, inner.var, start);
    }
    for (const LoopHead& head : heads) substitute(body, head.var, linear.values.at(head.var));
    Block once;
    once.push_back(only_if(s.kernel, total - at, std::move(body)));
    return once;
  });
  result.push_back(rebuild_loops({{LoopTag::grid, g, ceildiv(total, shape.tile())}}, std::move(tile)));
  return result;
}

}  // namespace fusec::compiler
