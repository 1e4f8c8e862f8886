// SPDX-License-Identifier: Apache-2.0
// The names of ir/kernel that lowering uses without a prefix. Included by .cpp files only.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::compiler {

using ir::Block;
using ir::BufferId;
using ir::LoopHead;
using ir::LoopTag;
using ir::Operand;
using ir::RegId;
using ir::Stmt;

}  // namespace fusec::compiler
