// SPDX-License-Identifier: Apache-2.0
// What all targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

// libFuzzer's own mutation of bytes, at `data` of which `max_size` may be written; answers the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace fusec::libfuzzer {

// Ends the process in a way that libFuzzer reports and keeps the input of.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "fail: %s\n", what.c_str());
  std::abort();
}

}  // namespace fusec::libfuzzer
