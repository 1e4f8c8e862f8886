// SPDX-License-Identifier: Apache-2.0
// The lower stage: turns a Partition into a Program, with kernels for generated regions, library steps for anchors, and
// views over allocations.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "compiler/partition/partition.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/support/stage_context.h"

namespace fusec::compiler {

// Predictions are within 25 % of measured times: one that is 25 % too low and one that is 25 % too high differ by this
// factor. What is predicted to take less than this share of another's time is clearly faster.
inline constexpr double kClearlyFaster = 0.75 / 1.25;

// Which schedules of a region become candidates beside the first one. Each takes as long to make as the first.
struct CandidateLimits {
  // A kernel that takes no longer than a few launches has one candidate: the launch takes most of its time.
  double short_launches = 4;
  // So has one whose bound is no smaller than this share of its time, since none would be picked by its prediction,
  double share_of_bound = kClearlyFaster;
  // but for those that are measured: by the first candidate's kernel.
  std::function<bool(const ir::Kernel&)> is_measured = {};
  // What is predicted to take longer than the first candidate by this factor is no candidate: the prediction is off by
  // less.
  double far_from_first = 1.6;
  std::size_t most = 6;
};

// What lower may know of the shapes, and how many threads it may take.
struct LowerSettings {
  // The values of all symbols: kernels are made for these shapes alone. They give the bits of those for all shapes:
  // where a region reduces, the schedule stays that of unknown extents, and its launch arguments become numbers. The
  // Program has the same slots, allocations and library steps. Empty: kernels for all shapes.
  std::map<std::string, int64_t> symbol_values = {};
  int threads = 0;  // 0: as many as the machine has
};

Result<ir::Program> lower(const ir::Graph& graph, const Partition& partition, const Target& target,
                          const Options& options, const ir::Deadline& deadline = {}, const CandidateLimits& limits = {},
                          const LowerSettings& settings = {});

}  // namespace fusec::compiler
