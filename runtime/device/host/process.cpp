// SPDX-License-Identifier: Apache-2.0
// Counts forks with a pthread_atfork handler, so that CUDA objects opened before a fork are recognized in the child.

#include "runtime/device/host/process.h"

#include <pthread.h>

#include <atomic>

namespace fusec::runtime {
namespace {

std::atomic<uint64_t> count{0};

}  // namespace

uint64_t forks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  return count.load(std::memory_order_relaxed);
}

}  // namespace fusec::runtime
