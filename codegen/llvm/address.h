// SPDX-License-Identifier: Apache-2.0
// The place in memory of a load or store.
#pragma once

#include <vector>

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/writer.h"

namespace fusec::codegen {

// A column of row-major (row, column) in "swizzle N": groups of N columns change places by the exclusive or of their
// number and the row's, so that a column of groups lies in different banks. Lanes that stay in a group stay in order:
// then `column` is that of lane 0.
struct Swizzle {
  int64_t group = 0, groups = 1;  // group 0: none
  Dim row, column;
};

// One load or store: its place in memory. `linear` leaves out the axes of `clamp`, which add a multiple of their
// stride, and the swizzled one; with `one_row` these are the same for all lanes.
struct Access {
  ir::BufferId buffer;
  const ir::Buffer* info;
  const std::vector<Dim>* index;
  uint32_t clamp;
  int width;
  Dim linear;
  LaneForm form;
  llvm::Type* element;  // in memory
  bool one_row = true;
  Swizzle swizzle = {};

  bool contiguous() const { return one_row && form.step == 1; }
  bool uniform() const { return one_row && form.step == 0; }
};

Access access_of(Writer& w, ir::BufferId id, const std::vector<Dim>& index, uint32_t clamp, int width);

// At the current lane. A clamped index that is out of range sets the status word.
llvm::Value* address(Writer& w, const Access& a);
// At lane 0 of an access whose lanes are in one row.
llvm::Value* first_address(Writer& w, const Access& a);
// What is proven of the address of lane 0: from the base and the constant that divides the offset, extents' facts used.
llvm::Align alignment(Writer& w, const Access& a);

// Whether the target masks loads (stores) of such elements in hardware, and of all that are contiguous.
bool masks(const Writer& w, const Access& a);
bool masks_all(const Writer& w);

}  // namespace fusec::codegen
