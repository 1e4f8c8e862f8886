// SPDX-License-Identifier: Apache-2.0
// Which launches of a host Plan need no barrier between them.
#pragma once

#include "runtime/plan/plan.h"
#include "runtime/plan/resolve.h"

namespace fusec::runtime {

// Sets Launch::together and group_threads. Launches that follow one another run in one region where none touches memory
// that another writes; generated kernels of one phase only, whose indices cannot be out of range. A library begins
// regions of its own.
void group_independent(Plan& plan, const ResolvedProgram& resolved);

}  // namespace fusec::runtime
