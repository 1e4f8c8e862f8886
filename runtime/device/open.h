// SPDX-License-Identifier: Apache-2.0
// The machine that an Engine is compiled for and runs on.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::runtime {

namespace cuda {
class Context;
}

struct Machine {
  Device device;
  Target target;
  std::shared_ptr<cuda::Context> context;  // of a GPU
};

// By Options::device and Options::target. device: there is no such GPU, or none at all, saying what was looked for.
Result<Machine> open_machine(const Options& options);

}  // namespace fusec::runtime
