// SPDX-License-Identifier: Apache-2.0
// Profile: where the time of runs goes, as Session::profile measures it. Plain data; microseconds. Times of slices
// begin with the first measured run and have one clock for the host and a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/export.h"

namespace fusec {

enum class SliceKind : uint8_t {
  call,    // a run, as its caller sees it
  host,    // what the calling thread does in a run: puts work on a stream, waits
  launch,  // a launch, from its begin on the first to its end on the last thread; on a GPU one kernel of it
  part,    // of a launch, on one thread
  copy,    // of tensors, by a GPU
};
FUSEC_API const char* to_string(SliceKind kind);

// A stretch of time on a track. Slices of a track do not overlap.
struct FUSEC_API ProfileSlice {
  SliceKind kind = SliceKind::launch;
  int64_t run = 0;
  int32_t launch = -1;  // index into Profile::launches; -1: of none
  std::string name;     // of the kernel, or of what the library runs
  std::string track;    // "runs", "host", "launches", "thread 0", "stream 7", "copies", ...
  double start_us = 0, end_us = 0;
  int64_t bytes = 0;  // of a copy
};

struct FUSEC_API LaunchProfile {
  LaunchInfo info;                  // us: what it adds to a run. Time in which launches overlap is divided among them.
  double start_us = 0, end_us = 0;  // since the begin of its run, in the traced run whose time is the median
  double gap_us = 0;                // before it, in which nothing ran
  double gb_per_s = 0;              // info.bytes in that time
  int64_t kernels = 1;              // that it starts, on a GPU
  int registers = 0;                // of a GPU, per thread
  int64_t spilled_bytes = 0;        // of a GPU, per thread: memory for registers that are short, and arrays
  std::string track;
};

struct FUSEC_API Profile {
  // How the launches were measured. "threads": the CPU's threads took the time. "cupti": the GPU did, inside the
  // captured graph. "events": launches ran one by one, without a graph, with an event between them.
  std::string source;
  int64_t runs = 0;        // that were traced; as many ran untraced
  double measured_us = 0;  // of an untraced run: its call. All times are means over the middle half of the runs
  double device_us = 0;    // of it, from the begin of a GPU's first work to the end of its last; 0 on a CPU
  // Of a traced run. Runs on a GPU that take 0.5 ms or longer are put on the stream one behind another, so that the GPU
  // need not wait for the host, which tracing makes slower: this is then the time from the end of one to that of the
  // next.
  double traced_us = 0;
  double traced_device_us = 0;  // as device_us, of a traced run, by events too; 0: not measured
  // Parts of measured_us. The first three are those of a traced run, divided by device_slow_down().
  double sum_us = 0;     // launches
  double copies_us = 0;  // of tensors
  double gaps_us = 0;    // between launches, from the first to the last, while nothing ran
  // The host's. On a GPU measured_us - device_us; on a CPU what a traced run spends before the first launch and after
  // the last.
  double host_us = 0;
  // What is left of measured_us: what events see of a GPU's run and CUPTI does not. On a CPU, below 0: traced launches
  // took longer than those of untraced runs do.
  double unexplained_us = 0;
  std::vector<LaunchProfile> launches;     // of a run: without those that run once per plan
  std::vector<ProfileSlice> slices;        // of all traced runs, by track and time
  std::map<std::string, double> counters;  // of the processor, per untraced run: "cycles", ...
  std::vector<std::string> notes;          // what could not be measured, and why

  // What tracing costs: 1 is nothing. Parts do not have it, except those of launches on a CPU.
  double slow_down() const { return measured_us > 0 ? traced_us / measured_us : 0; }
  // What it costs on a GPU: kernels that are traced do not overlap. Below 1: without the pauses that tracing makes, the
  // GPU lowers its clock to keep to its power limit. 1 where it was not measured.
  double device_slow_down() const { return device_us > 0 && traced_device_us > 0 ? traced_device_us / device_us : 1; }
  double parts_us() const { return sum_us + copies_us + gaps_us + host_us; }
};

struct FUSEC_API ProfileOptions {
  int64_t runs = 20;     // traced, and as many untraced
  int64_t warmup = 3;    // runs before these
  bool counters = true;  // of the processor, where the system lets a program read them
};

}  // namespace fusec
