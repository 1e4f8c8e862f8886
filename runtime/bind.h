// SPDX-License-Identifier: Apache-2.0
// bind: LoadedProgram + symbol values -> Plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace fusec::runtime {

// The symbols' values from the shapes of the inputs. invalid_argument names the input, the axis, what was expected and
// what was given.
Result<Bindings> bind_symbols(const ir::Program& program, std::span<const std::vector<int64_t>> input_shapes);

// What a library is given for a LibraryStep.
LibraryCall library_call(const LoadedProgram& loaded, const ResolvedStep& step, int threads);

// Binds library steps (the first library that takes one), plans the arena, resolves every argument.
Result<std::shared_ptr<const Plan>> bind(std::shared_ptr<const LoadedProgram> loaded, const Bindings& bindings,
                                         int threads);

}  // namespace fusec::runtime
