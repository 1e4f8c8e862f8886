// SPDX-License-Identifier: Apache-2.0
// The bytes that any plan of these steps needs: a baseline for the memory planner that shares no code with it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/plan/resolve.h"

namespace fusec::runtime {

// What only the bound library knows of a library step.
struct LibraryFacts {
  int64_t workspace_bytes = 0;
  std::vector<int> may_alias;
};

// The largest sum over steps of the bytes of all temporaries alive there; an output that may take the place of an input
// of the same view that dies there counts once with it; views count through their allocation; the step's workspace is
// included. facts(i) is asked for library steps only.
int64_t live_lower_bound_bytes(const ir::Program& program, const ResolvedProgram& resolved,
                               const std::function<LibraryFacts(std::size_t step)>& facts);

}  // namespace fusec::runtime
