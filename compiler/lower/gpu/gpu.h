// SPDX-License-Identifier: Apache-2.0
// The last step of lowering for a GPU: Kernel -> Kernel, from loops over threads to what one thread does.
#pragma once

#include <string>

#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

// The lowered form of a kernel (ir/kernel/kernel.h): block loops become the number of the thread, reductions and scans
// become loops, shuffles and exchanges through shared memory, and every barrier is placed. The results have the same
// bits. Statements outside of grid loops run in a grid of one block. A kernel that is lowered is returned as it is.
// compile_failed names a statement that threads cannot run, such as a barrier that not all threads reach.
Result<ir::Kernel> lower_to_threads(const ir::Kernel& kernel);
// Makes one branch of at least four branches of a lowered kernel that do the same in consecutive blocks with one input
// after another, as the parts of a concat do. The results have the same bits.
void join_branches(ir::Kernel& kernel);
// Writes scalar ops in their cheapest form: divisions of f32 as multiplications by a reciprocal, with a test that all
// lanes share, and a rounding before a cast to bytes as part of the cast. The results have the same bits.
void lower_arithmetic(ir::Kernel& kernel);
// The form that the writers of the target take, with functions in short forms (rewrite/short_functions.h): for a GPU,
// the lowered one after join_branches and lower_arithmetic.
Result<ir::Kernel> lower_for_writer(const ir::Kernel& kernel, const Target& target);

// Puts a sync between two statements of a lowered kernel wherever an element of a shared buffer passes from one thread
// to another: sync.warp where all such threads are of one warp, else sync.block. Returns why a sync cannot be placed,
// or an empty text.
std::string place_syncs(ir::Kernel& kernel);

}  // namespace fusec::compiler
