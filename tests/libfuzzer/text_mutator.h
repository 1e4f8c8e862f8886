// SPDX-License-Identifier: Apache-2.0
// Changes to a text that keep its words whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusec::libfuzzer {

// As LLVMFuzzerCustomMutator: lines are repeated, removed or exchanged; words (letters and digits, or one other sign)
// become other words of the text, numbers that are hard to hold, or nothing. Now and then the bytes are mutated.
size_t mutate_text(uint8_t* data, size_t size, size_t max_size, unsigned seed);

}  // namespace fusec::libfuzzer
