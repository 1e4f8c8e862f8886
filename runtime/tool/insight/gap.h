// SPDX-License-Identifier: Apache-2.0
// The gap between a measured run and what bounds it, split into parts. Pure functions over plain data: no device, no
// database and no graph, so that a test can state every case by hand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

enum class StepKind : uint8_t {
  call,    // of a library
  kernel,  // generated
  move,    // generated, and computes nothing: copies, transposes, casts
};

// What is known of one step. Times are in microseconds.
struct StepFacts {
  std::string origin, implementation;
  std::string layer;  // the key of its rows; empty: nothing tunes it
  StepKind kind = StepKind::kernel;
  std::vector<std::size_t> after;  // earlier steps whose results it reads
  std::optional<double> us;        // in place; none: it was not run
  std::optional<double> layer_us;  // of the fastest row of the tuning database; none: it has no row
  std::optional<double> taken_us;  // of the row of the way that ran; none: nothing ran, or that way has no row
  // Of the fastest row of the call with images channels first, and of the call in f16, where rows are known.
  std::optional<double> channels_first_us, half_us;
  bool repeated = false;  // these rows are of calls that run again and again, not of a call alone
  // Channels first / as it is, both alone with the caches emptied. In a run the filters of a large model come from
  // memory, which some kernels wait for much longer than others.
  std::optional<double> channels_first_ratio;
  double floor_us = 0;      // bytes / bandwidth or operations / peak, the larger one
  double best_type_us = 0;  // the same in the best type that is allowed
  double edge_us = 0;       // of bytes to and from regions that it could be fused with
  bool lacks_row = false;   // the tuner has not measured its layer, or not all ways of it
};

// The first step of each layer that lacks rows, in order.
std::vector<std::size_t> missing_layers(const std::vector<StepFacts>& steps);

// The longest path over `after` with these times of steps.
double critical_path(const std::vector<StepFacts>& steps, const std::vector<double>& us);

// What this step alone would gain, whatever the parts below take of its time: by images channels first, less than 0
// where that is slower, and by the best type that is allowed. Of a step that ran.
double gain_channels_first(const StepFacts& step);
double gain_in_best_type(const StepFacts& step);

struct Bound {
  double serial_us = 0, critical_us = 0;
};
// What a step takes by its fastest measured way. A row is of a call alone, with the caches emptied before it; so where
// the way that ran has a row too, the time in place is scaled by the ratio of both rows. Otherwise the less of the row
// and the time in place; without both, the floor. What only moves data counts as 0, because a graph without it computes
// the same. A convolution counts in the order of its images that is faster by these rows, without what converts them.
std::vector<double> library_floors(const std::vector<StepFacts>& steps);
Bound library_bound(const std::vector<StepFacts>& steps);
// Each step by its bytes and operations alone.
Bound fusion_bound(const std::vector<StepFacts>& steps);

// In the order in which a step's time is taken: what an earlier part takes, a later one does not count again.
enum class Part : uint8_t { launch, layout, algorithm, fusion, precision, branches };
inline constexpr std::size_t kParts = 6;
const char* to_string(Part part);
using Parts = std::array<double, kParts>;  // by Part

// Of a run. Both are measured; neither is computed from the other.
struct RunTimes {
  double measured_us = 0;
  double launch_us = 0;  // in which no step is under way: gaps between steps, copies of inputs and outputs, the host
};

struct Gap {
  double measured_us = 0;
  double bound_us = 0;         // the longest path of what the parts leave of each step: the reachable bound
  bool below_library = false;  // the run is faster than the longest path of the library bound
  bool by_floors = false;      // and than the reachable one: each step is held against its floor
  Parts parts{};
  double other = 0;          // measured - bound - the parts: what neither the steps nor `launch` explain
  std::vector<Parts> steps;  // of each step; launch and branches belong to none
  double gap_us() const { return measured_us - bound_us; }
};

// The parts of a run. Every step has a time in place. Each part is a sum of its own, and with `other`, but for the
// rounding of doubles: measured_us = bound_us + parts + other. So other is measured_us - launch_us - all steps,
// whatever the bounds are.
Gap split_gap(const RunTimes& run, const std::vector<StepFacts>& steps);

// The step with the most of a part; none has any: nullopt.
std::optional<std::size_t> largest_step(const Gap& gap, Part part);

}  // namespace fusec::tool
