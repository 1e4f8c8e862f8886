// SPDX-License-Identifier: Apache-2.0
// How a reduction is folded, for its parts: reduce.cpp runs the elements, collective.cpp folds over threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/combine.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {

// The accumulators of one reduce: stack slots that become values; `lanes` wide in a lane-wise reduction.
class Cells {
 public:
  Cells(GpuWriter& w, CombineOp op, int64_t count, int lanes, std::string id);

  int64_t count() const { return static_cast<int64_t>(slots_.size()); }
  int lanes() const { return lanes_; }
  const CombineOp& op() const { return op_; }
  const std::string& id() const { return id_; }  // of names made for it
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

// Over `count` runs of `stride` threads each, whose accumulators are equal inside a run; every `step`-th accumulator.
// Afterwards the first count * stride threads of the team have the result, or all of the team: then true.
bool fold_threads(GpuWriter& w, const Cells& a, int64_t stride, int64_t count, int64_t step);
// What the first thread of the team has in the first accumulator, to all.
void broadcast(GpuWriter& w, const Cells& a);
// Pairs of neighbours, an odd last one carried, over `count` accumulators `stride` apart; for each such run of the
// array.
void fold_cells(GpuWriter& w, const Cells& a, int64_t stride, int64_t count);

}  // namespace fusec::codegen::nvptx
