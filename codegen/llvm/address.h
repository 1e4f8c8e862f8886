// SPDX-License-Identifier: Apache-2.0
// The memory address of a load or store.
#pragma once

#include <vector>

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/writer.h"

namespace fusec::codegen {

// The address of one load or store. `linear` omits the axes in `clamp`, each of which adds a multiple of its
// stride. With `one_row` these axes are equal for all lanes.
struct Access {
  ir::BufferId buffer;
  const ir::Buffer* info;
  const std::vector<IndexExpr>* index;
  uint32_t clamp;
  int width;
  IndexExpr linear;
  LaneForm form;
  llvm::Type* element;  // in memory
  bool one_row = true;

  bool contiguous() const { return one_row && form.step == 1; }
  bool uniform() const { return one_row && form.step == 0; }
};

Access make_access(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index, uint32_t clamp, int width);

// The address at the current lane. A clamped index that is out of range sets the status word.
llvm::Value* address(Writer& w, const Access& a);
// The address at lane 0 of an access whose lanes are in one row.
llvm::Value* first_address(Writer& w, const Access& a);
// The alignment proven for the address of lane 0, from the base and the known divisor of the offset, using the facts
// about extents.
llvm::Align alignment(Writer& w, const Access& a);

// Whether the target masks loads (stores) of such elements in hardware; masks_all: whether it does so for all
// contiguous accesses.
bool masks(const Writer& w, const Access& a);
bool masks_all(const Writer& w);

}  // namespace fusec::codegen
