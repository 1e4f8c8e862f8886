// SPDX-License-Identifier: Apache-2.0
// The parts of a reduction: reduce.cpp runs over the elements, collective.cpp folds over threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/combine.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {

// The accumulators of one reduce, in stack slots that are promoted to values; `lanes` wide in a lane-wise reduction.
class Accumulators {
 public:
  Accumulators(GpuWriter& w, CombineOp op, int64_t count, int lanes, std::string id);

  int64_t count() const { return static_cast<int64_t>(slots_.size()); }
  int lanes() const { return lanes_; }
  const CombineOp& op() const { return op_; }
  const std::string& id() const { return id_; }  // suffix of the names made for it
  Parts get(int64_t at) const;
  void set(int64_t at, const Parts& value) const;
  void reset() const;

 private:
  GpuWriter& w_;
  CombineOp op_;
  int lanes_;
  std::string id_;
  std::vector<std::vector<llvm::AllocaInst*>> slots_;
};

// Folds every `step`-th accumulator over `count` runs of `stride` threads each; inside a run the accumulators are
// equal. Afterwards the first count * stride threads of the thread group hold the result; if it returns true, the whole
// thread group does.
bool combine_threads(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step);
// Copies the first accumulator of the thread group's first thread to all its threads.
void broadcast(GpuWriter& w, const Accumulators& a);
// Combines neighbouring pairs, carrying an odd last one, over `count` accumulators `stride` apart, for each such run of
// the array.
void combine_accumulators(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count);

}  // namespace fusec::codegen::nvptx
