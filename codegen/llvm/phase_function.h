// SPDX-License-Identifier: Apache-2.0
// The host function of a phase: its grid loop, and access to its arguments, external functions and local memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/llvm/index.h"
#include "codegen/llvm/values.h"

namespace fusec::codegen {

// The function under construction: void name(const HostArgs*, i64 begin, i64 end, void* local).
struct PhaseFunction {
  llvm::Function* function = nullptr;
  llvm::BasicBlock* entry =
      nullptr;  // holds stack slots, arguments and index arithmetic on extents; branches to the body
  std::map<std::pair<int, int64_t>, llvm::Value*> arguments;
};

// Opens the function and sets the insertion point to its body.
PhaseFunction open_phase(llvm::Module& module, Ir& ir, const std::string& name);
// Loads from HostArgs, made once per function, at its entry.
llvm::Value* buffer_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* extent_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* extern_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* status_argument(PhaseFunction& phase_function, Ir& ir);
llvm::Value* local_memory(const PhaseFunction& phase_function);

// Builds a loop that runs body() for every linear grid index in [begin, end), with the variables of `grid` bound in
// `index`.
void grid_loop(PhaseFunction& phase_function, Ir& ir, Index& index, const ir::Kernel& kernel,
               const std::vector<ir::LoopHead>& grid, const std::function<void()>& body);
// Ends the function. With `fence`, streaming stores become visible to other threads first.
void close_phase(Ir& ir, bool fence);

}  // namespace fusec::codegen
