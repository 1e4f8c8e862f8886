// SPDX-License-Identifier: Apache-2.0
// How a reduction is folded, for its parts: reduce.cpp runs the elements, collective.cpp folds over threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/combine.h"
#include "codegen/cuda/writer.h"

namespace fusec::codegen::cuda {

// Accumulators of one reduce: for each part an array, with a second axis of lanes where these are reduced by
// themselves.
struct Accumulators {
  CombineOp op;
  Parts names;
  int64_t count = 1;
  int lanes = 1;   // of a lane-wise reduction
  std::string id;  // of names made for it

  // Element `at` of every part; stands in a loop over lanes where there are any.
  Parts element(const std::string& at) const;
};

// Over `count` runs of `stride` threads each, whose accumulators are equal inside a run; every `step`-th accumulator.
// Afterwards the first count * stride threads of the team have the result, or all of the team: then true.
bool fold_threads(Writer& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step);
// What the first thread of the team has in the first accumulator, to all.
void broadcast(Writer& w, const Accumulators& a);
// Pairs of neighbours, an odd last one carried, over `count` accumulators `stride` apart; for each such run of the
// array.
void fold_array(Writer& w, const Accumulators& a, int64_t stride, int64_t count);

}  // namespace fusec::codegen::cuda
