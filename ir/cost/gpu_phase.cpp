// SPDX-License-Identifier: Apache-2.0
// The time of one phase on a GPU. Three things may be the slowest: moving bytes between memory, L2 and the SMs that
// have work; issuing instructions there; or one block after the other waiting for its loads, exchanges and barriers.

#include <algorithm>
#include <cmath>

#include "ir/cost/phase.h"

namespace fusec::ir {
namespace {

constexpr double kWarpLanes = 32, kSectorBytes = 32;
constexpr double kRow = 128;  // bytes: memory is as fast as it can be for runs of this length
constexpr double kBaseRegisters = 24, kMaxRegisters = 255;
constexpr double kMaxBlocks = 32;          // of an SM
constexpr double kFirstLevel = 128 << 10;  // bytes of an SM that its data cache can count on
constexpr double kClusterWait = 0.1;       // of the time of a cluster: its blocks wait for the last one

double resident_blocks(const Target& target, const PhaseCounts& counts) {
  double widest = 1;
  for (const CountedAccess& access : counts.accesses) widest = std::max(widest, static_cast<double>(access.width));
  const double registers = std::min(kMaxRegisters, kBaseRegisters + 2 * widest + counts.local_bytes / 4);
  double blocks = std::min(kMaxBlocks, std::floor(target.threads_per_sm / counts.threads));
  blocks = std::min(blocks, std::floor(target.registers_per_sm / (registers * std::max(kWarpLanes, counts.threads))));
  if (counts.shared_bytes > 0)
    blocks = std::min(blocks, std::floor(target.shared_bytes_per_sm / (counts.shared_bytes + 1024)));
  return std::max(1.0, blocks);
}

// Bytes that L2 sends to the SMs: whole sectors, less what an SM's first level keeps.
double moved_from_cache(const PhaseCounts& counts, const PhaseTraffic& traffic, double resident, double sms) {
  const bool task_fits = traffic.task_bytes * resident <= kFirstLevel;
  const bool sectors_fit = counts.threads * resident * kSectorBytes <= kFirstLevel;
  std::map<BufferId, double> distinct;
  for (const BufferTraffic& buffer : traffic.buffers) distinct[buffer.buffer] = buffer.read;
  double bytes = 0;
  for (const CountedAccess& access : counts.accesses) {
    const double warps = access.statements / access.warp * std::max(1.0, access.copies / kWarpLanes);
    double own = warps * access.sectors * kSectorBytes;
    if (sectors_fit) own /= access.sector_reuse;
    if (task_fits && access.of_task > 0) own *= std::max(access.distinct_of_task / access.of_task, 1 / kWarpLanes);
    // What all blocks read stays near, if there is little of it.
    const double all = distinct[access.buffer];
    if (!access.is_store && all <= kFirstLevel / 2) own = std::min(own, all * sms + own / 4);
    bytes += std::max(own, access.distinct * access.element);
  }
  return bytes;
}

// Blocks of which each first loads, then exchanges and computes, keep memory and instructions busy in turn, unless
// other blocks of the SM fill the gaps.
double together(const PhaseCost& cost, const PhaseCounts& counts) {
  const double waiting = std::max(cost.memory_us, cost.latency_us);
  const bool staged = counts.exchanges && counts.read_at_once > counts.read_in_loops;
  if (staged && cost.resident < 2) return waiting + cost.issue_us;
  if (staged && cost.resident < 3) return std::sqrt(waiting * waiting + cost.issue_us * cost.issue_us);
  return overlapped(waiting, cost.issue_us, 0);
}

// The blocks of a cluster begin together, once there is room for all of them, and none leaves before the last. So they
// wait for each other, and where the clusters come in waves, about the time of one wave is lost between them. Fitted to
// rows of 64 Ki to 256 Ki elements on an H100 (docs/results/2026-11-25-gpu-launches.md), where without it times were 10
// to 33 % too low.
double waiting_for_clusters(const PhaseCost& cost, const PhaseCounts& counts, double slots) {
  if (counts.cluster <= 1) return 1;
  const double waves = cost.blocks / slots;
  return 1 + kClusterWait + (waves > 1 ? 1 / waves : 0);
}

// Sorts what is read again by the place that it comes from.
void add_again(const PhaseTraffic& traffic, const Target& target, double slots, PhaseCost& cost) {
  const auto l2 = static_cast<double>(target.last_level_cache);
  const double at_once = traffic.task_bytes * std::min(cost.blocks, slots);
  for (const BufferTraffic& buffer : traffic.buffers) {
    const bool near = traffic.task_bytes * cost.resident <= kFirstLevel;
    if (!near) {
      const double kept = kept_share(at_once, l2);
      cost.reread_cache += buffer.again_in_task * kept;
      cost.reread_memory += buffer.again_in_task * (1 - kept);
    }
    const double kept = buffer.repeats ? kept_share(buffer.read, l2) : 1;
    cost.reread_cache += buffer.again * kept;
    cost.reread_memory += buffer.again * (1 - kept);
  }
}

double issue_us(const MachineModel& m, const PhaseCounts& counts, double workers) {
  const double ns = (counts.ops.simple + counts.statements) / m.simple_ops +
                    counts.ops.transcendental / m.transcendental_ops + counts.ops.division / m.division_ops +
                    counts.ops.conversion / m.conversion_ops + counts.shared_accesses / m.near_copy;
  return ns / 1e3 / workers;
}

}  // namespace

PhaseCost gpu_phase(const PhaseSetting& setting, const PhaseCounts& counts) {
  const Target& target = setting.target;
  const MachineModel& m = target.model;
  PhaseCost cost;
  cost.blocks = counts.tasks * counts.cluster;
  cost.threads = counts.threads;
  cost.ops = counts.ops;
  if (counts.tasks <= 0) return cost;
  PhaseTraffic traffic = add_traffic(setting.kernel, counts, kSectorBytes, kRow, setting.values);
  traffic.task_bytes /= counts.cluster;
  cost.read = traffic.read;
  cost.written = traffic.written;
  cost.resident = resident_blocks(target, counts);
  const double sms = std::max(1, target.sm_count);
  cost.workers = std::max(1.0, std::min(sms, cost.blocks));
  const double slots = sms * cost.resident;
  add_again(traffic, target, slots, cost);
  cost.moved_cache = moved_from_cache(counts, traffic, cost.resident, sms);
  // The SM with the most blocks is the last.
  const double rounds = std::ceil(cost.blocks / cost.workers), uneven = rounds * cost.workers / cost.blocks;
  const double far = 1 - std::max(setting.near, setting.kept);
  const double far_read = (cost.read + traffic.short_runs) * far + cost.reread_memory;
  // The bytes written last may stay in the cache after the end.
  const double kept = std::min(cost.written, static_cast<double>(target.last_level_cache) / 4);
  const double far_written = (cost.written - kept) * (1 - setting.near);
  const double memory = move_us(far_read, far_written, rate_of(m.memory_copy, m.worker_memory, cost.workers),
                                rate_of(m.memory_read, m.worker_memory, cost.workers)) +
                        kept / 1e3 / rate_of(m.cache_copy, m.worker_cache, cost.workers);
  const double cache = cost.moved_cache / 1e3 / rate_of(m.cache_copy, m.worker_cache, cost.workers);
  cost.memory_us = std::max(memory, cache);
  cost.issue_us = issue_us(m, counts, cost.workers) * uneven;
  cost.latency_us = std::max(1.0, cost.blocks / slots) * (m.block_start + counts.chain_us);
  const double first = setting.near > 0.5 ? m.cache_latency : m.memory_latency;
  cost.us = together(cost, counts) * waiting_for_clusters(cost, counts, slots) + first;
  return cost;
}

}  // namespace fusec::ir
