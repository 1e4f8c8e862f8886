// SPDX-License-Identifier: Apache-2.0
// bind: LoadedProgram + symbol values -> Plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {

// The symbols' values from the shapes of the inputs. invalid_argument names the input, the axis, what was expected and
// what was given.
Result<Bindings> bind_symbols(const ir::Program& program, std::span<const std::vector<int64_t>> input_shapes);

// The number of threads, at most `threads`, that share work of this many bytes and tasks. No thread gets so little that
// waking it costs more.
int threads_for(int64_t bytes, int64_t iterations, int threads);

// The call that a library gets for a LibraryStep.
LibraryCall library_call(const LoadedProgram& loaded, const ResolvedStep& step, int threads);

// Binds library steps (as `tuning` says where it is given, else the first library that takes one), plans the arena,
// resolves every argument.
Result<std::shared_ptr<const Plan>> bind(std::shared_ptr<const LoadedProgram> loaded, const Bindings& bindings,
                                         int threads, Tuning* tuning = nullptr);

// The same shapes as those of `generic`, by the specialised Program: the same library calls, on as many threads.
// internal: its steps are not those of `generic`.
Result<PlanPtr> bind_specialized(std::shared_ptr<const LoadedProgram> loaded, const Plan& generic);

}  // namespace fusec::runtime
