// SPDX-License-Identifier: Apache-2.0
// The parts of a reduction: reduce.cpp runs over the elements, collective.cpp folds over threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/combine.h"
#include "codegen/cuda/writer.h"

namespace fusec::codegen::cuda {

// The accumulators of one reduce: an array for each part, with a second axis of lanes in a lane-wise reduction.
struct Accumulators {
  CombineOp op;
  Parts names;
  int64_t count = 1;
  int lanes = 1;   // above 1 in a lane-wise reduction
  std::string id;  // suffix of the names made for it

  // Element `at` of every part. In a lane-wise reduction the text must stand in a loop over lanes.
  Parts element(const std::string& at) const;
};

// Folds every `step`-th accumulator over `count` runs of `stride` threads each; inside a run the accumulators are
// equal. Afterwards the first count * stride threads of the thread group hold the result; if it returns true, the whole
// thread group does.
bool combine_threads(Writer& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step);
// Copies the first accumulator of the thread group's first thread to all its threads.
void broadcast(Writer& w, const Accumulators& a);
// Combines neighbouring pairs, carrying an odd last one, over `count` accumulators `stride` apart, for each such run of
// the array.
void fold_array(Writer& w, const Accumulators& a, int64_t stride, int64_t count);

}  // namespace fusec::codegen::cuda
