// SPDX-License-Identifier: Apache-2.0
// The conditions under which the rule of ir/kernel/kernel.h holds. Each finding names the buffer or register and the
// statement.
//
// Form     SSA in scope; operand dtypes by the op table; operand widths 1 or the statement's; `lane` only if the width
//          is above 1; index ranks; loads from in, reg, shared, scratch; stores to out, reg, shared, scratch; constant
//          extents of unroll loops; grid loops outermost, perfectly nested, and alone but for allocations at their
//          level; cluster inside grid, block inside cluster; a boundary only on an outermost grid loop. In the lowered
//          form, the blocks of a cluster have as many whole warps each, the first axis of shared buffers is the block,
//          and barriers are those of warps and of the cluster.
// Range    0 <= index < extent on every axis must follow from the ranges of loops and lanes, the facts, and the guard
//          of the access; or the axis is clamped. If it does not follow, an unguarded access is an error. A guarded
//          access is an error only if sampled sizes and iterations show an element outside (the finding gives one). A
//          data-dependent index needs a clamp or a guard from which the range follows.
// Races    For each parallel loop (grid, cluster, block, each, and those of reduce and scan) and each buffer that lives
//          outside it: two iterations never write one element, and none reads what another one writes. Proven by
//          mixed-radix injectivity of the index, or by disjoint intervals or residues; what is not proven is an error.
//          Two lanes of one store that may write one element are an error, too.
// Phases   reg and shared buffers pass between grid phases only over coop boundaries. A reg buffer that lives outside
//          parallel loops is indexed by their variables first, in order, with their extents. A local buffer is written
//          (earlier in the text) before it is read.
// Aliases  For each pair (in, out) of may_alias: same dtype, shape and strides. What one iteration of any loop reads
//          from `in`, no other iteration writes to `out`; within an iteration the read comes first.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Every finding; range, phase and race checks run only on kernels whose form is valid.
std::vector<std::string> findings(const Kernel& kernel);

// ok if there are no findings; else internal with the first one, the others as notes.
Status verify(const Kernel& kernel);

}  // namespace fusec::ir
