// SPDX-License-Identifier: Apache-2.0
// What a report shows of a model: its steps with what they fuse and why their borders were not fused, the values
// between them, memory over the steps, and the times of compiling and running that are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tool/model_file.h"

namespace fusec::tool {

// Times of running, by step in the order of a plan: of this machine, or read from what another command wrote.
struct MeasuredTimes {
  double run_us = 0;                         // a whole run, median
  std::vector<double> step_us;               // each launch
  std::vector<std::string> implementations;  // of each launch; empty where not known
  std::string source;                        // for people: where they come from
};

// Of the JSON that `fusec bench M --steps` or `fusec profile M` printed. invalid_argument where it is none of these.
Result<MeasuredTimes> parse_times(const Json& json, const std::string& file);

// Keys: model, target, symbols, ops, launches, generated, library, distinct_kernels, arena_bytes, constant_bytes,
// predicted_us, bound_us, measured_us, sum_us, machine, steps, edges, inputs, outputs, kernels, memory, stages.
// Microseconds, bytes, operations. Times that do not belong to these steps are left out, and `notes` says so.
Result<Json> report_data(const FrontEnd& f, const Symbols& symbols, const std::optional<MeasuredTimes>& times);

}  // namespace fusec::tool
