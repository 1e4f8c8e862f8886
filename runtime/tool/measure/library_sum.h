// SPDX-License-Identifier: Apache-2.0
// A plan beside the sum of its library calls, each timed alone in the layout it likes best: what is above that sum is
// the price of layouts that must agree, of generated kernels and of launching.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/tool/io/output.h"
#include "runtime/tool/measure/timing.h"

namespace fusec::tool {

// Equal steps of a plan: one library call (same op, epilogues, shapes, strides), or one kernel.
struct StepGroup {
  std::vector<std::size_t> steps;  // indices into Plan::launches
  bool generated = false;
  std::string what, origin;                     // of the first: shapes, node names
  std::string implementation;                   // in the plan
  double plan_us = 0;                           // of one step in the running model
  std::string layout, isolated_implementation;  // of the fastest call alone: layout and implementation; empty: none
  double isolated_us = 0;                       // of one call
  std::vector<std::pair<std::string, double>> layouts;  // microseconds of each layout in the trials that chose one
  double count() const { return static_cast<double>(steps.size()); }
};

struct LibrarySum {
  std::vector<StepGroup> groups;
  int64_t rotated_bytes = 0;  // weights of the calls alone lie in so much memory, used round and round
  int64_t rounds = 0;
  double model_us = 0;     // a run of the model
  double isolated_us = 0;  // sum of all calls alone
  double overhead = 0;     // model / sum - 1, both of one round; median over rounds
};

// The parts of model_us - isolated_us, in microseconds. Steps and calls alone count with their medians; what interrupts
// them now and then is in the rest.
struct LibrarySumParts {
  double slower = 0;     // library steps in the plan beyond the calls alone
  double generated = 0;  // kernels in the plan
  double rest = 0;
};
LibrarySumParts parts(const LibrarySum& sum);

// Rounds of: the model a few times, each of its calls alone a few times; means of these, so that what disturbs the
// machine weighs as much on the one as on the other, and medians over rounds. rotate: bytes that weights of calls alone
// use in turn.
Result<LibrarySum> library_sum(std::shared_ptr<const runtime::Plan> plan, std::span<const Tensor> inputs,
                               std::span<const Tensor> outputs, int64_t rotate, const Budget& budget);

Json make_json(const LibrarySum& sum);
std::string report(const LibrarySum& sum);

}  // namespace fusec::tool
