// SPDX-License-Identifier: Apache-2.0
// The select stage: picks one candidate of every variant. It is a pure function of the program and the target.
#pragma once

#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/program/program.h"

namespace fusec::compiler {

// Sets Variant::picked to the candidate with the lowest predicted time, the first one on ties.
Status select(ir::Program& program, const Target& target);

}  // namespace fusec::compiler
