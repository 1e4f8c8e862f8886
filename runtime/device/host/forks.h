// SPDX-License-Identifier: Apache-2.0
// Whether this process is a child that was made by fork after a given moment.
#pragma once

#include <cstdint>

namespace fusec::runtime {

// A number that is another one in a child made by fork after this call than in its parent. Costs a load.
uint64_t forks();

}  // namespace fusec::runtime
