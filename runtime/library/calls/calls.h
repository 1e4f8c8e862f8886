// SPDX-License-Identifier: Apache-2.0
// Custom calls as a library: its steps are functions that the host registered (fusec/custom_call.h).
#pragma once

#include <memory>

#include "fusec/target.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

std::shared_ptr<Library> make_call_library(TargetKind platform);

// The first custom call of the Program whose function is not registered for the platform is an error, which names it.
Status check_calls(const ir::Program& program, TargetKind platform);

}  // namespace fusec::runtime
