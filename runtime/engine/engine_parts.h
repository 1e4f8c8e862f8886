// SPDX-License-Identifier: Apache-2.0
// The line up to emit, for Engine::compile and for packages.
#pragma once

#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/target.h"
#include "runtime/load/assemble.h"

namespace fusec::runtime {

// The model as a selected Program with machine code for `target`; the machine is left empty.
Result<Parts> compile_parts(const Model& model, const Options& options, const Target& target);

}  // namespace fusec::runtime
