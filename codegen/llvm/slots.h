// SPDX-License-Identifier: Apache-2.0
// Local buffers that are held in stack slots, which are promoted to SSA values.
#pragma once

#include <vector>

#include "codegen/llvm/writer.h"

namespace fusec::codegen {

bool in_slots(const Writer& w, ir::BufferId id);
// The stack slot of an access to a slot buffer.
llvm::AllocaInst* slot_at(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index);
// Loads lanes from slots in any order, with one shuffle for each slot that they come from.
llvm::Value* pick_lanes(Writer& w, const ir::Load& load, int width);

}  // namespace fusec::codegen
