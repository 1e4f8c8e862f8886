// SPDX-License-Identifier: Apache-2.0
// A bound call: plans in order, and the sources of their pointers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/library/cudnn/spec.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::cudnn {

enum class ArgSource { arg, temporary, fixed };

struct PlanArg {
  ArgSource source = ArgSource::arg;
  int arg = -1;            // for ArgSource::arg
  std::size_t offset = 0;  // for ArgSource::temporary, in the workspace
  void* fixed = nullptr;   // for ArgSource::fixed
};

struct PlanStep {
  std::shared_ptr<const CudnnPlan> plan;
  std::vector<PlanArg> pointers;
};

struct ExecutionPlan {
  std::vector<PlanStep> steps;
  std::size_t temporaries = 0, scratch = 0;  // bytes
  std::size_t packed = 0;                    // bytes of weights at fixed pointers
  std::string implementation;

  std::map<int, int64_t> alignments;  // required alignment by argument

  PlanArg reserve(const TensorSpec& tensor);
  void add(std::shared_ptr<const CudnnPlan> plan, std::vector<PlanArg> pointers);
  // Records that the plan relies on the tensor's alignment at this pointer.
  void need(const PlanArg& pointer, const TensorSpec& tensor);
};

std::unique_ptr<LibraryOp> make_op(ExecutionPlan execution_plan);

}  // namespace fusec::runtime::cudnn
