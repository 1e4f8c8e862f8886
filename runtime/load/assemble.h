// SPDX-License-Identifier: Apache-2.0
// assemble: the end of the line, the same for a model compiled here and for one out of a package: link, bind where no
// shape is free, and what an Engine tells of itself.
#pragma once

#include <memory>
#include <vector>

#include "fusec/engine.h"
#include "runtime/device/open.h"
#include "runtime/link/link.h"
#include "runtime/plan/state.h"

namespace fusec::runtime {

struct Parts {
  ir::Program program;  // its constants included
  Artifacts artifacts;  // of all of picked_kernels(program)
  Options options;
  Machine machine;
  std::vector<TensorInfo> inputs;
  EngineStats stats;  // so far: kernel counts, times of earlier stages
};

Result<std::shared_ptr<EngineState>> assemble(Parts parts);

// From program to names, dtypes and shapes.
std::vector<TensorInfo> tensor_infos(const std::vector<std::string>& names, const std::vector<ir::Type>& types);

}  // namespace fusec::runtime
