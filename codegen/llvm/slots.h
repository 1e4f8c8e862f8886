// SPDX-License-Identifier: Apache-2.0
// Local buffers that are held in stack slots, which become values.
#pragma once

#include <vector>

#include "codegen/llvm/writer.h"

namespace fusec::codegen {

bool in_slots(const Writer& w, ir::BufferId id);
// The stack slot that an access of a slot buffer means.
llvm::AllocaInst* slot_at(Writer& w, ir::BufferId id, const std::vector<Dim>& index);
// Lanes of slots in any order, one shuffle for each slot that they come from.
llvm::Value* pick_lanes(Writer& w, const ir::Load& load, int width);

}  // namespace fusec::codegen
