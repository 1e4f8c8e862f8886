// SPDX-License-Identifier: Apache-2.0
// The time of one phase on a CPU: tasks on threads, each of which computes in vectors and moves bytes through its own
// caches, a shared last-level cache and memory. Computing and moving overlap in part.

#include <algorithm>
#include <cmath>

#include "ir/cost/phase.h"

namespace fusec::ir {
namespace {

constexpr double kLine = 64;      // bytes of a cache line
constexpr double kHostRow = 256;  // bytes: memory is as fast as it can be for runs of this length

// Of the time of additions, conversions, loads and stores one after the other: a core does different ones at once.
constexpr double kSideBySide = 0.6;

double core_us(const Target& target, const PhaseCounts& counts) {
  const MachineModel& m = target.model;
  const double lanes = std::max(1, target.vector_bytes / 4);
  const double mixed =
      (counts.ops.simple + counts.statements * lanes * 0.5) / m.simple_ops + counts.ops.conversion / m.conversion_ops;
  const double ns =
      kSideBySide * mixed + counts.ops.transcendental / m.transcendental_ops + counts.ops.division / m.division_ops;
  return ns / 1e3;
}

struct HostRates {
  double near, cache, memory_copy, memory_read;
};

HostRates rates_of(const MachineModel& m, double workers) {
  return {m.near_copy * workers, rate_of(m.cache_copy, m.worker_cache, workers),
          rate_of(m.memory_copy, m.worker_memory, workers),
          rate_of(m.memory_read, m.worker_memory * m.memory_read / m.memory_copy, workers)};
}

// Of reads of what was read before: `distance` bytes lie between the two reads.
void add_again(const Target& target, double bytes, double distance, const HostRates& rates, PhaseCost& cost) {
  if (distance <= static_cast<double>(target.l1_bytes)) return;
  if (distance <= static_cast<double>(target.l2_bytes)) {
    cost.memory_us += bytes / 1e3 / rates.near;
    return;
  }
  const double kept = kept_share(distance, static_cast<double>(target.last_level_cache));
  cost.reread_cache += bytes * kept;
  cost.reread_memory += bytes * (1 - kept);
}

// Bytes that vectors whose lanes lie in lines of their own move out of the second-level cache: a line for each element,
// where the first level does not keep the lines until their other elements are asked for.
double scattered_bytes(const Target& target, const PhaseCounts& counts, double task_bytes) {
  double bytes = 0;
  if (task_bytes <= static_cast<double>(target.l1_bytes)) return bytes;
  for (const CountedAccess& access : counts.accesses)
    if (access.width > 1 && std::abs(access.lane_stride) >= kLine) bytes += access.total * kLine;
  return bytes;
}

}  // namespace

PhaseCost cpu_phase(const PhaseSetting& setting, const PhaseCounts& counts) {
  const Target& target = setting.target;
  PhaseCost cost;
  cost.blocks = counts.tasks;
  cost.ops = counts.ops;
  if (counts.tasks <= 0) return cost;
  cost.workers = std::max(1.0, std::min<double>(target.threads, counts.tasks));
  const double uneven = std::ceil(counts.tasks / cost.workers) * cost.workers / counts.tasks;
  const HostRates rates = rates_of(target.model, cost.workers);
  const PhaseTraffic traffic = add_traffic(setting.kernel, counts, kLine, kHostRow, setting.values);
  cost.read = traffic.read;
  cost.written = traffic.written;
  double fetched = 0;  // lines that plain stores read before they write
  for (const BufferTraffic& buffer : traffic.buffers) {
    add_again(target, buffer.again_in_task, traffic.task_bytes, rates, cost);
    add_again(target, buffer.again, buffer.repeats ? buffer.read : traffic.task_bytes, rates, cost);
    if (!buffer.streams) fetched += buffer.written;
  }
  cost.memory_us += scattered_bytes(target, counts, traffic.task_bytes) / 1e3 / rates.near;
  const double far = 1 - setting.near;
  cost.memory_us += move_us((cost.read + fetched + traffic.short_runs) * far + cost.reread_memory, cost.written * far,
                            rates.memory_copy, rates.memory_read);
  const double own = static_cast<double>(target.l2_bytes) * cost.workers;
  const double cached = (cost.read + cost.written) * setting.near;
  const double in_near = kept_share(setting.launch_bytes, own);
  cost.moved_cache = cached * (1 - in_near) + cost.reread_cache;
  cost.memory_us += cached * in_near / 1e3 / rates.near + cost.moved_cache / 1e3 / rates.cache;
  cost.issue_us = core_us(target, counts) / cost.workers * uneven;
  cost.latency_us = std::ceil(counts.tasks / cost.workers) * target.model.block_start;
  const double busy = cost.issue_us + cost.latency_us;
  cost.us = std::sqrt(busy * busy + cost.memory_us * cost.memory_us);
  return cost;
}

}  // namespace fusec::ir
