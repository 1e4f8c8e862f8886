// SPDX-License-Identifier: Apache-2.0
// Counts the blocks of a function that a multiprocessor holds at once, from the target's limits and the units in which
// they are given out ("Technical Specifications per Compute Capability" of NVIDIA's CUDA programming guide).

#include <algorithm>

#include "codegen/ptx/ptx.h"

namespace fusec::codegen::cuda {
namespace {

constexpr int kWarp = 32, kSchedulers = 4;  // of a multiprocessor; each has its own part of the registers
constexpr int kRegisterUnit = 256;          // of a warp
constexpr int64_t kSharedUnit = 128;        // bytes of a block
constexpr int kReservingSm = 80;            // from it on, the system takes a part of each block's shared memory
constexpr int64_t kReservedShared = 1024;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int most_blocks(int sm) {
  if (sm == 80 || (sm >= 90 && sm <= 103)) return 32;
  return sm == 75 || sm == 86 || sm == 87 ? 16 : 24;
}

}  // namespace

Occupancy count_resident_blocks(const Target& target, int threads, int registers, int64_t shared_bytes) {
  const int64_t warps = std::max<int64_t>(1, round_up(threads, kWarp) / kWarp);
  Occupancy out{most_blocks(target.sm), "blocks"};
  const auto bound = [&](int64_t blocks, const char* by) {
    if (blocks < out.blocks) out = {static_cast<int>(blocks), by};
  };
  bound(target.threads_per_sm / (warps * kWarp), "threads");
  if (registers > 0) {
    const int64_t of_warp = round_up(int64_t{registers} * kWarp, kRegisterUnit);
    bound(target.registers_per_sm / kSchedulers / of_warp * kSchedulers / warps, "registers");
  }
  const int64_t shared = round_up(shared_bytes + (target.sm >= kReservingSm ? kReservedShared : 0), kSharedUnit);
  if (shared > 0) bound(target.shared_bytes_per_sm / shared, "shared memory");
  return out;
}

}  // namespace fusec::codegen::cuda
