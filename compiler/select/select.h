// SPDX-License-Identifier: Apache-2.0
// The select stage: picks one candidate of every variant. It is a pure function of the program, the target and measured
// times.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/program/program.h"

namespace fusec::compiler {

// Identify a kernel, and a candidate by its kernels, by canonical text, whatever the names.
std::string kernel_key(const ir::Kernel& kernel);
std::string candidate_key(const ir::Program& program, const ir::Candidate& candidate);

// What was measured of one candidate.
struct CandidateTime {
  double us = 0;
  bool failed = false;  // it did not run, or may not
};

// Measured times. The candidates of a variant are known by the key of the first one.
struct TuningData {
  using Times = std::map<std::string, CandidateTime>;                       // by candidate_key
  std::map<std::string, std::map<std::vector<int64_t>, Times>> candidates;  // by the launch's extents
  bool empty() const { return candidates.empty(); }
};

// Of each candidate of the variant, for its extents; empty: nothing was measured. A symbolic extent matches every
// measured value, and the times of all of them are added.
std::vector<std::optional<CandidateTime>> measured_times(const ir::Program& program, const ir::Variant& variant,
                                                         const TuningData& tuning);

// Sets Variant::picked, and adds variants in front for measured shapes whose fastest candidate is another one. A
// program with symbols is selected once. By predicted times, the first candidate is taken unless another one is faster
// by more than two predictions are off. By measured times, the fastest candidate is taken in the place of that one
// where it is faster by more than noise. See docs/decisions/019-candidates.md.
Status select(ir::Program& program, const Target& target, const TuningData& tuning = {});

}  // namespace fusec::compiler
