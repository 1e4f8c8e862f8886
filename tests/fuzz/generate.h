// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fuzz/case.h"

namespace fusec::fuzz {

// A random case that depends on the seed alone. Every node evaluates at every run's shapes, and few elements are NaN,
// huge or undecided.
Case generate(uint64_t seed);

}  // namespace fusec::fuzz
