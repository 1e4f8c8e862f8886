// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/nest/nest.h"

namespace fusec::compiler {

// Fills Kernel::may_alias of a semantic nest: pairs of parameters where every element of the input is read only by the
// iteration that overwrites it in the output, before the write.
void find_aliases(LoopNest& nest);

}  // namespace fusec::compiler
