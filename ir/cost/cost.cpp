// SPDX-License-Identifier: Apache-2.0
// The cost of a kernel: its phases one after the other, and the launches that begin them. The bound is a copy of the
// bytes that no schedule can avoid.

#include "ir/cost/cost.h"

#include <algorithm>
#include <cmath>

#include "ir/cost/phase.h"

namespace fusec::ir {
namespace {

double launch_cost(const Target& target, Launching launching, int64_t launches, double workers) {
  const MachineModel& m = target.model;
  if (target.kind == TargetKind::cpu) {
    const double first = workers > 1 ? m.dependent_launch : m.launch;
    return first + static_cast<double>(launches - 1) * (workers > 1 ? m.barrier : 0.0);
  }
  // An empty launch between events takes as long as one whose blocks load something once.
  const double first = launching == Launching::alone ? m.launch - m.memory_latency : m.dependent_launch.value;
  return first + static_cast<double>(launches - 1) * m.dependent_launch;
}

// Bytes of a launch that begin in the last-level cache, of all.
double near_share(const Target& target, double bytes, Residence residence) {
  if (residence == Residence::memory) return 0;
  return kept_share(bytes, static_cast<double>(target.last_level_cache));
}

bool begins_launch(const Stmt& stmt) {
  const auto* loop = std::get_if<Loop>(&stmt.v);
  return loop != nullptr && loop->boundary == PhaseBoundary::launches;
}

// The statements to count as phases: a launch, or each of the two passes of one with ordered tasks.
std::vector<Stmt> split_passes(const Stmt& stmt) {
  const auto* loop = std::get_if<Loop>(&stmt.v);
  if (loop == nullptr || !loop->tasks) return {stmt};
  std::vector<Stmt> passes;
  for (std::size_t i = 0; i < innermost_grid(*loop).body.size(); ++i) {
    Loop pass = *loop;
    Block& body = innermost_grid(pass).body;
    const Stmt own = body[i];
    body = {own};
    pass.tasks.reset();
    passes.push_back({std::move(pass)});
  }
  return passes;
}

// How much of what the first pass read the second one finds in L2. Between the two come the rest of the row and the
// tasks that are ahead, and as many bytes of results.
double kept_of_pass(const Target& target, const Loop& loop, const PhaseCost& first,
                    const std::map<SymbolId, int64_t>& values) {
  IndexExpr rows = 1;
  const Loop& innermost = innermost_grid(loop);
  for (const Loop* at = &loop;; at = std::get_if<Loop>(&at->body[0].v)) {
    rows *= at->head.extent;
    if (at == &innermost) break;
  }
  const double row = first.read / std::max<double>(1, static_cast<double>(rows.eval(values).value_or(1)));
  const double task = first.read / std::max(1.0, first.blocks);
  const double between = 2 * (row + task * static_cast<double>(loop.tasks->ahead));
  return kept_share(between, static_cast<double>(target.last_level_cache));
}

}  // namespace

OpCounts KernelCost::ops() const {
  OpCounts sum;
  for (const PhaseCost& phase : phases) {
    sum.simple += phase.ops.simple;
    sum.transcendental += phase.ops.transcendental;
    sum.division += phase.ops.division;
    sum.conversion += phase.ops.conversion;
  }
  return sum;
}

double rounded(double us) {
  if (!(us > 0) || !std::isfinite(us)) return 0;
  double unit = 1;
  while (us / unit >= 1000) unit *= 10;
  while (us / unit < 100 && unit > 1e-9) unit /= 10;
  // A quotient of whole numbers is the nearest double to the decimal fraction, so that it prints as three digits.
  return unit >= 1 ? std::round(us / unit) * unit : std::round(us / unit) / std::round(1 / unit);
}

double copy_us(const Target& target, double read, double written, Residence residence, Launching launching) {
  const MachineModel& m = target.model;
  const double near = near_share(target, read + written, residence);
  const bool cpu = target.kind == TargetKind::cpu;
  const double workers = cpu ? std::max(1, target.threads) : std::max(1, target.sm_count);
  const double kept = cpu ? 0 : std::min(written, static_cast<double>(target.last_level_cache) / 4);
  const auto on = [&](double w) {
    double us = move_us(read * (1 - near), (written - kept) * (1 - near), rate_of(m.memory_copy, m.worker_memory, w),
                        rate_of(m.memory_read, m.worker_memory * m.memory_read / m.memory_copy, w));
    const double in_near = cpu ? kept_share(read + written, static_cast<double>(target.l2_bytes) * w) : 0;
    us +=
        (kept * (1 - near) + (read + written) * near * (1 - in_near)) / 1e3 / rate_of(m.cache_copy, m.worker_cache, w);
    us += (read + written) * near * in_near / 1e3 / (m.near_copy * w);
    return us + launch_cost(target, launching, 1, w);
  };
  if (cpu) return std::min(on(1), on(workers));
  return on(workers) + (near > 0.5 ? m.cache_latency : m.memory_latency);
}

KernelCost cost(const Kernel& kernel, const Target& target, const CostQuery& query) {
  KernelCost out;
  CountSettings settings{kernel, target, {}, false};
  for (std::size_t i = 0; i < kernel.extents.size(); ++i)
    settings.values[ExtentId{static_cast<uint32_t>(i)}] = i < query.extents.size() ? query.extents[i] : 1;
  double bytes = 0;
  for (const BufferId id : kernel.params) bytes += buffer_bytes(kernel.buffers[id], settings.values);
  const double near = near_share(target, bytes, query.residence);
  settings.near = near > 0.5;
  double workers = 1;
  std::map<BufferId, double> read, written;
  for (const Stmt& stmt : kernel.body) {
    if (std::holds_alternative<Alloc>(stmt.v)) continue;
    out.launches += begins_launch(stmt) || out.phases.empty();
    const std::vector<Stmt> passes = split_passes(stmt);
    for (const Stmt& pass : passes) {
      const PhaseCounts counts = count_phase(settings, pass);
      PhaseSetting setting{kernel, target, settings.values, near, bytes};
      if (&pass != &passes[0])
        setting.kept = kept_of_pass(target, std::get<Loop>(stmt.v), out.phases.back(), settings.values);
      const bool gpu = target.kind == TargetKind::cuda;
      out.phases.push_back(gpu ? gpu_phase(setting, counts) : cpu_phase(setting, counts));
      workers = std::max(workers, out.phases.back().workers);
      const PhaseTraffic traffic = add_traffic(kernel, counts, 1, 1, settings.values);
      for (const BufferTraffic& buffer : traffic.buffers) {
        if (kernel.buffers[buffer.buffer].space == Space::scratch) continue;
        read[buffer.buffer] = std::max(read[buffer.buffer], buffer.read);
        written[buffer.buffer] = std::max(written[buffer.buffer], buffer.written);
      }
    }
  }
  for (const auto& [buffer, amount] : read) out.read += amount;
  for (const auto& [buffer, amount] : written) out.written += amount;
  double us = launch_cost(target, query.launching, std::max<int64_t>(1, out.launches), workers);
  for (const PhaseCost& phase : out.phases) us += phase.us;
  out.predicted_us = rounded(us);
  out.bound_us = rounded(copy_us(target, out.read, out.written, query.residence, query.launching));
  return out;
}

}  // namespace fusec::ir
