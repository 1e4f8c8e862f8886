// SPDX-License-Identifier: Apache-2.0
// What the accesses of one phase move between memory, caches and workers: distinct bytes, and bytes that are read
// again.
#pragma once

#include "ir/cost/counts.h"

namespace fusec::ir {

// Bytes of one buffer. `again_in_task` are reads of what the same task has read before, `again` those of what another
// task has read.
struct BufferTraffic {
  BufferId buffer;
  double read = 0, written = 0;
  double again_in_task = 0, again = 0;
  double short_runs = 0;  // what short runs cost memory more than long ones, as bytes
  bool repeats = false;   // the tasks that share data are far apart
  bool streams = true;    // all stores bypass the caches
};

struct PhaseTraffic {
  std::vector<BufferTraffic> buffers;
  double task_bytes = 0;  // distinct bytes of one task
  double read = 0, written = 0, short_runs = 0;
};

// `line` is the least that memory moves, in bytes: steps as long as this waste the rest. Runs of tasks that are shorter
// than `row` cost as much time as that.
PhaseTraffic add_traffic(const Kernel& kernel, const PhaseCounts& counts, double line, double row,
                         const std::map<SymbolId, int64_t>& values);

double buffer_bytes(const Buffer& buffer, const std::map<SymbolId, int64_t>& values);

// GB/s of so many workers together.
double rate_of(double all, double one, double workers);
// Microseconds of moving these bytes where reading alone runs at `read` and a copy at `copy` GB/s.
double move_us(double bytes_read, double bytes_written, double copy, double read);
// The share of `bytes`, used again and again, that a cache keeps.
double kept_share(double bytes, double cache);
// Of times that mostly overlap: a little more than the longest.
double overlapped(double a, double b, double c);

}  // namespace fusec::ir
