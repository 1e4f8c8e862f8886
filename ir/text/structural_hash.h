// SPDX-License-Identifier: Apache-2.0
// Which kernels are the same code. Names do not matter; the order of parameters and extents does.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// The kernel with systematic names and dense ids: the kernel is k, buffers are b0, ... (parameters, then allocations),
// extents n0, ... in launch order, registers v0, ... and loop variables i0, ... in order of appearance. Registers and
// buffers that nothing declares are dropped. Kernels with equal canonical texts are interchangeable: they have the same
// parameters and extents, in the same order.
Kernel canonical(const Kernel& kernel);

}  // namespace fusec::ir
