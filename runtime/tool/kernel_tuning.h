// SPDX-License-Identifier: Apache-2.0
// What the kernels of a model are tuned with, for the commands that measure: `fusec tune` and `fusec advise --measure`.
#pragma once

#include <memory>

#include "runtime/engine/kernel_tuner.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

struct KernelTuning {
  Options options;
  runtime::Machine machine;
  ir::Program program;
  std::unique_ptr<runtime::Tuning> tuning;
  std::unique_ptr<runtime::CandidateTimer> timer;
};

// The kernels come from a Program of their own, for which select knows no times. isolated: candidates are timed in
// another process, as those of a GPU always are: one that never ends leaves the device in its hands.
Result<std::unique_ptr<KernelTuning>> prepare_kernels(const Model& model, const ModelFlags& flags, bool isolated);

}  // namespace fusec::tool
