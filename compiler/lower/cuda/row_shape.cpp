// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: how many threads share a row, and how much of it each holds.

#include "compiler/lower/cuda/row_parts.h"

namespace fusec::compiler {

namespace {

constexpr int kGroupThreads = 128;        // rows of fewer threads share a block
constexpr int kNarrowThreads = 8;         // of a short row that no 16-byte access divides: half a sector of f16
constexpr int kNarrowGroupThreads = 256;  // rows of so few threads share a larger block
constexpr int kLongThreads = 512;         // of a row that is read again, or of unknown length

int thread_power(int64_t n) {
  int p = 1;
  while (p < n && p < kMaxRowThreads) p *= 2;
  return p;
}

}  // namespace

// On an H100, 64 threads are fastest for rows up to 4 KB, 256 for 16 to 32 KB and 512 for 64 KB.
RowShape shape_of_row(std::optional<int64_t> length, int lanes, bool is_narrow) {
  RowShape shape;
  shape.lanes = lanes;
  shape.threads = kLongThreads;
  if (length) {
    const int64_t accesses = (*length + lanes - 1) / lanes;
    const int fewest = is_narrow ? kNarrowThreads : kWarp;
    shape.threads = accesses <= 2 * kWarp ? std::min(fewest, thread_power(accesses))
                    : accesses <= 256     ? 64
                    : accesses <= 512     ? 128
                    : accesses <= 2048    ? 256
                    : accesses <= 4096    ? 512
                                          : kMaxRowThreads;
    const int64_t held = (accesses + shape.threads - 1) / shape.threads;
    if (held <= kMaxHeld) shape.held = static_cast<int>(held);
  }
  shape.rows = std::max(1, (shape.threads <= kNarrowThreads ? kNarrowGroupThreads : kGroupThreads) / shape.threads);
  return shape;
}

}  // namespace fusec::compiler
