// SPDX-License-Identifier: Apache-2.0
// A mailbox is a shared buffer of a cluster, in the lowered form of a kernel, through which values pass without a
// barrier: every element is stored once, by a thread of any block, and a load, which is of the own block alone, waits
// until all elements of the block are there. No element is stored before all blocks have met at a barrier of the
// cluster.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::ir {

inline constexpr const char* kMailbox = "mailbox";  // its layout
inline bool is_mailbox(const Buffer& buffer) { return buffer.layout == kMailbox; }

}  // namespace fusec::ir
