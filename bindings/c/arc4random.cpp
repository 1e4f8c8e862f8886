// SPDX-License-Identifier: Apache-2.0
// LLVM names temporary files by arc4random, which glibc has from 2.36 on. With a definition of its own, which stays
// inside, libfusec-c runs on glibc 2.34.

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value = 0;
  // So few bytes come at once or, when a signal interrupts, not at all.
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
