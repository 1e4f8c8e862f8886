// SPDX-License-Identifier: Apache-2.0
// Patches: terms of a matrix product that sliding windows read, as a convolution is a product of. If the windows of
// neighbouring rows overlap, a tile of rows reads the elements under its windows once.
//
// Terms come in lines. Row m and term `width * line + place` read position `step * m + place` of that line.
#pragma once

#include <optional>

#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

struct Patches {
  int64_t width = 0;  // terms of a line
  int64_t step = 0;   // positions from one row to the next

  bool overlap() const { return step < width; }
};

// The patches that `block`, which makes the element of a row and a term, reads; nullopt: it reads none.
std::optional<Patches> find_patches(ir::Kernel& kernel, const ir::Block& block, const ir::LoopHead& row,
                                    const ir::LoopHead& term);
// A copy of `block` that makes the element at a position of a line, counted from the first one of `first_row`.
ir::Block make_position(ir::Kernel& kernel, const ir::Block& block, const Patches& patches, const ir::LoopHead& row,
                        const ir::LoopHead& term, const IndexExpr& first_row, const IndexExpr& line,
                        const IndexExpr& position);

}  // namespace fusec::compiler
