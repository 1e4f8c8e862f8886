// SPDX-License-Identifier: Apache-2.0
// Adds up the accesses of a phase by buffer. Accesses that begin at the same place and touch as much are one set of
// bytes, which the second of them reads again; others touch different parts, up to the size of the buffer.

#include "ir/cost/traffic.h"

#include <algorithm>
#include <cmath>

namespace fusec::ir {
namespace {

// What a step of `stride` bytes makes of each element that it reads or writes.
double wasted(const CountedAccess& access, double line) {
  if (access.gathers) return 1;
  return std::clamp(access.least_stride / access.element, 1.0, std::max(1.0, line / access.element));
}

struct TouchedPart {
  double start = 0, distinct = 0;
};

// Times that the bytes of an access take, in those of long runs.
double slowness(const CountedAccess& access, double line, double row) {
  return access.gathers ? 1 : std::max(1.0, row / std::max(access.run_of_task, line));
}

void add_access(const CountedAccess& access, double tasks, double line, double row, double most,
                std::vector<TouchedPart>& parts, BufferTraffic& traffic) {
  const double bytes = std::min(access.distinct * access.element * wasted(access, line), most);
  const bool known = std::any_of(parts.begin(), parts.end(), [&](const TouchedPart& part) {
    return part.start == access.start && part.distinct == access.distinct;
  });
  if (!known) parts.push_back({access.start, access.distinct});
  if (!known) traffic.short_runs = std::max(traffic.short_runs, bytes * (slowness(access, line, row) - 1));
  if (access.is_store) {
    if (!known) traffic.written += bytes;
    traffic.streams &= access.streams;
    return;
  }
  if (!known) traffic.read += bytes;
  traffic.repeats |= access.repeats;
  const double of_tasks = std::min(access.distinct_of_task * tasks, access.total);
  traffic.again_in_task += (access.total - of_tasks + (known ? access.distinct : 0)) * access.element;
  traffic.again += std::max(0.0, of_tasks - access.distinct) * access.element;
}

}  // namespace

double buffer_bytes(const Buffer& buffer, const std::map<SymbolId, int64_t>& values) {
  double elements = 1;
  for (const IndexExpr& extent : buffer.shape) elements *= static_cast<double>(extent.eval(values).value_or(1));
  return elements * static_cast<double>(size_of(buffer.dtype));
}

PhaseTraffic add_traffic(const Kernel& kernel, const PhaseCounts& counts, double line, double row,
                         const std::map<SymbolId, int64_t>& values) {
  PhaseTraffic out;
  std::map<std::pair<BufferId, bool>, std::vector<TouchedPart>> parts;
  std::map<BufferId, std::size_t> at;
  for (const CountedAccess& access : counts.accesses) {
    const double most = buffer_bytes(kernel.buffers[access.buffer], values);
    const auto [place, added] = at.try_emplace(access.buffer, out.buffers.size());
    if (added) {
      out.buffers.push_back({});
      out.buffers.back().buffer = access.buffer;
    }
    BufferTraffic& traffic = out.buffers[place->second];
    std::vector<TouchedPart>& known = parts[{access.buffer, access.is_store}];
    const std::size_t before = known.size();
    add_access(access, counts.tasks, line, row, most, known, traffic);
    if (known.size() > before) out.task_bytes += std::min(access.distinct_of_task * access.element, most);
    // Parts together are no more than the buffer; what is more was read before.
    double& sum = access.is_store ? traffic.written : traffic.read;
    if (sum > most) {
      if (!access.is_store) traffic.again_in_task += sum - most;
      sum = most;
    }
  }
  for (const BufferTraffic& traffic : out.buffers) {
    out.read += traffic.read;
    out.written += traffic.written;
    out.short_runs += traffic.short_runs;
  }
  return out;
}

double rate_of(double all, double one, double workers) { return std::max(1e-3, std::min(all, one * workers)); }

double move_us(double bytes_read, double bytes_written, double copy, double read) {
  const double per_read = 1 / read, per_write = std::max(2 / copy - per_read, 0.25 / copy);
  return (bytes_read * per_read + bytes_written * per_write) / 1e3;
}

double kept_share(double bytes, double cache) {
  if (bytes <= 0) return 1;
  return std::clamp(1.5 - bytes / cache, 0.0, 1.0);
}

double overlapped(double a, double b, double c) {
  const double most = std::max({a, b, c, 1e-12});
  const auto fourth = [most](double x) { return (x / most) * (x / most) * (x / most) * (x / most); };
  return most * std::sqrt(std::sqrt(fourth(a) + fourth(b) + fourth(c)));
}

}  // namespace fusec::ir
