// SPDX-License-Identifier: Apache-2.0
// The state of the process and of its threads that fusec depends on: whether it was made by fork after a given moment,
// and the floating-point environment of a thread.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace fusec::runtime {

// A number that is another one in a child made by fork after this call than in its parent. Costs a load.
uint64_t forks();

// While alive, this thread computes by IEEE defaults: round to nearest, denormals kept, no traps. The host's own
// setting (some libraries switch on flush-to-zero when loaded) comes back afterwards.
class FloatEnv {
 public:
#if defined(__SSE__)
  static constexpr uint32_t kDefault = 0x1f80;  // MXCSR after reset
  FloatEnv() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FloatEnv() { _mm_setcsr(saved_); }
#endif
  FloatEnv(const FloatEnv&) = delete;
  FloatEnv& operator=(const FloatEnv&) = delete;

 private:
  [[maybe_unused]] uint32_t saved_ = 0;
};

}  // namespace fusec::runtime
