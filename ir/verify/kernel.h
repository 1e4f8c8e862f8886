// SPDX-License-Identifier: Apache-2.0
// What a kernel must be for the rule of ir/kernel/kernel.h to hold. Each finding names the buffer or register and the
// statement.
//
// Form     SSA in scope; operand dtypes by the op table; operand widths 1 or the statement's; `lane` only where the
// width
//          is above 1; index ranks; loads from in, reg, shared, scratch; stores to out, reg, shared, scratch; constant
//          extents of unroll loops; grid loops outermost, perfectly nested, and alone but for allocations at their
//          level; cluster inside of grid, block inside of cluster; a boundary only on an outermost grid loop.
// Range    0 <= index < extent on every axis must follow from the ranges of loops and lanes, the facts, and the guard
// of
//          the access; or the axis is clamped. Where it does not follow, an unguarded access is an error, and a guarded
//          one only when sampled sizes and iterations show an element outside (the finding gives one). A data-dependent
//          index needs a clamp or a guard from which the range follows.
// Races    For each parallel loop (grid, cluster, block, each, and those of reduce and scan) and each buffer that lives
//          outside of it: two iterations never write one element, and none reads what another one writes. Proven by
//          mixed-radix injectivity of the index, by disjoint intervals or residues; what is not proven is an error. So
//          are two lanes of one store that may write one element.
// Phases   reg and shared buffers pass between grid phases only over coop boundaries. A reg buffer that lives outside
// of
//          parallel loops is indexed by their variables first, in order, with their extents. A local buffer is written
//          before (in the text) it is read.
// Aliases  of may_alias (in, out): same dtype, shape and strides; what one iteration of any loop reads from `in` no
// other
//          iteration writes to `out`, and within an iteration the read comes first.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Every finding; range and race checks run only on kernels of good form.
std::vector<std::string> findings(const Kernel& kernel);

// ok without findings; else internal with the first one, the others as notes.
Status verify(const Kernel& kernel);

}  // namespace fusec::ir
