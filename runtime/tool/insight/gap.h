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
  double floor_us = 0;             // bytes / bandwidth or operations / peak, the larger one
  double best_type_us = 0;         // the same in the best type that is allowed
  double edge_us = 0;              // of bytes to and from regions that it could be fused with
  bool lacks_row = false;          // the tuner has not measured its layer, or not all ways of it
};

// The first step of each layer that lacks rows, in order.
std::vector<std::size_t> missing_layers(const std::vector<StepFacts>& steps);

// The longest path over `after` with these times of steps.
double critical_path(const std::vector<StepFacts>& steps, const std::vector<double>& us);

struct Bound {
  double serial_us = 0, critical_us = 0;
};
// Each step as fast as it was ever measured: the less of its fastest row and its time in place; without both, its
// floor. A step may be faster in place: it finds its operands in caches that the measurement of a row has emptied. What
// only moves data counts as 0, because a graph without it computes the same.
std::vector<double> library_floors(const std::vector<StepFacts>& steps);
Bound library_bound(const std::vector<StepFacts>& steps);
// Each step by its bytes and operations alone.
Bound fusion_bound(const std::vector<StepFacts>& steps);

// In the order in which a step's time is taken: what an earlier part takes, a later one does not count again.
enum class Part : uint8_t { launch, layout, algorithm, fusion, precision, branches };
inline constexpr std::size_t kParts = 6;
const char* to_string(Part part);
using Parts = std::array<double, kParts>;  // by Part

struct Gap {
  double measured_us = 0, bound_us = 0;
  bool below_library = false;  // the run is faster than the library bound: bound_us is the fusion-aware one
  Parts parts{};
  double other = 0;          // measured - bound - the parts; negative where these reach below the bound
  double left_us = 0;        // of the run, were all parts won
  std::vector<Parts> steps;  // of each step; launch and branches belong to none
  double gap_us() const { return measured_us - bound_us; }
};

// The parts of measured_us. Every step has a time in place. With all sums exact but for the rounding of doubles:
// measured_us = bound_us + parts + other.
Gap split_gap(double measured_us, const std::vector<StepFacts>& steps);

// The step with the most of a part; none has any: nullopt.
std::optional<std::size_t> largest_step(const Gap& gap, Part part);

}  // namespace fusec::tool
