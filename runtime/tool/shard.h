// SPDX-License-Identifier: Apache-2.0
// --shard: which part of the work this process of several has.
#pragma once

#include <functional>
#include <string>

#include "fusec/status.h"
#include "runtime/plan/tuner.h"

namespace fusec::tool {

// A variable of the environment, or null; std::getenv.
using Environment = std::function<const char*(const char*)>;

// "2/8": the third of eight. "auto": as the launcher of this process says (FUSEC_SHARD, Open MPI, MPICH, SLURM,
// torchrun). "auto/8": its number as the launcher says, also an indexed job of Kubernetes, of eight.
// invalid_argument: the text is none of these, or no launcher says it.
Result<runtime::Shard> parse_shard(const std::string& text, const Environment& environment);

}  // namespace fusec::tool
