// SPDX-License-Identifier: Apache-2.0
// Changes to a model that leave it a model, so that mutants come past the parser.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusec::libfuzzer {

// As LLVMFuzzerCustomMutator: some fields, elements or messages of the ModelProto at `data` are changed, repeated,
// removed, exchanged or taken from elsewhere in it. Now and then, and where the bytes are no model, the bytes
// themselves are mutated.
size_t mutate_model(uint8_t* data, size_t size, size_t max_size, unsigned seed);

}  // namespace fusec::libfuzzer
