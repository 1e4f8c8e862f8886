// SPDX-License-Identifier: Apache-2.0
// Artifacts of kernels that the kernel evaluator runs (ir/eval/kernel.h), where nothing makes machine code for a CPU.
// They give what compiled ones give, in a hundred to a thousand times the time.
#pragma once

#include <memory>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"

namespace fusec::codegen {

// Its image is the kernel's text.
Artifact make_evaluated(const ir::Kernel& kernel);
bool is_evaluated(const Artifact& artifact);

struct EvaluatedKernel {
  HostFunction function = nullptr;  // of the only phase, which has one iteration; externs: the address of `kernel`
  std::shared_ptr<const ir::Kernel> kernel;
};
// invalid_model: the image is not the text of a kernel.
Result<EvaluatedKernel> load_evaluated(const Artifact& artifact);

}  // namespace fusec::codegen
