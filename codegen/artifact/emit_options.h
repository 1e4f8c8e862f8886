// SPDX-License-Identifier: Apache-2.0
// What every emitter is told beside the kernel and the target.
#pragma once

#include <functional>
#include <string>

#include "fusec/options.h"

namespace fusec::codegen {

struct EmitOptions {
  bool keep_text = false;
  Codegen codegen = Codegen::automatic;                     // of a GPU target
  std::function<void(const std::string&)> on_warning = {};  // of faults that do not fail the call; unset: silent
};

}  // namespace fusec::codegen
