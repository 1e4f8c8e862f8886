// SPDX-License-Identifier: Apache-2.0
// The functions of the host that custom calls name, one table for the process.
#pragma once

#include <memory>
#include <string>

#include "fusec/custom_call.h"
#include "fusec/target.h"

namespace fusec::ir {

// Null: none is registered for the platform.
std::shared_ptr<const CustomCall> find_call(const std::string& name, TargetKind platform);
// The error for a name that is not registered: unsupported.
Status reject_call(const std::string& name, TargetKind platform);

}  // namespace fusec::ir
