// SPDX-License-Identifier: Apache-2.0
// The state of the machine around a measurement: clocks, governor, load. It goes into records, and says whether times
// of this machine can be trusted to a few percent.
#pragma once

#include <optional>
#include <string>

#include "fusec/target.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

struct GpuClocks {
  unsigned sm_mhz = 0, memory_mhz = 0;        // now
  unsigned most_sm_mhz = 0;                   // that the card can have
  unsigned temperature = 0, utilization = 0;  // degrees Celsius; percent of the last sample period
  std::string why;                            // what holds the SM clock down, as NVML says: "power", "heat"; or empty
};

// What a machine does not tell is empty.
struct MachineState {
  std::optional<double> cpu_mhz;  // of the fastest core
  std::string governor;           // "performance", ...
  std::optional<bool> boost;      // the clock may go above the nominal one
  double load = 0;                // average of the last minute, in tasks
  int cores = 0;
  std::optional<GpuClocks> gpu;
};

// root: in front of /proc and /sys. NVML is asked about a GPU where it is installed.
MachineState read_machine_state(const Device& device, const std::string& root = "");

Json make_json(const MachineState& before, const MachineState& after);

// Why times may vary, in half a sentence: "governor powersave, load average 3.2 on 2 cores". Empty: nothing speaks
// against them. spread: (p90 - p50) / p50 of the times.
std::string doubts(const Device& device, const MachineState& before, const MachineState& after, double spread);

}  // namespace fusec::tool
