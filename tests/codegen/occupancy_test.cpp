// SPDX-License-Identifier: Apache-2.0
// The blocks that a multiprocessor holds at once, as NVIDIA's occupancy calculator counts them.
#include <gtest/gtest.h>

#include "codegen/ptx/ptx.h"

namespace fusec::codegen::cuda {
namespace {

void expect(const char* target, int threads, int registers, int64_t shared, int blocks, const std::string& bound) {
  const Occupancy o = count_resident_blocks(*named_target(target), threads, registers, shared);
  EXPECT_EQ(o.blocks, blocks) << target << " " << threads << " " << registers << " " << shared;
  EXPECT_EQ(o.bound, bound) << target << " " << threads << " " << registers << " " << shared;
}

TEST(Occupancy, OfEachResource) {
  expect("sm_90", 1024, 32, 0, 2, "threads");
  expect("sm_90", 1024, 33, 0, 1, "registers");  // 40 a thread: they come in units of 256 a warp
  expect("sm_90", 64, 40, 24, 24, "registers");
  expect("sm_90", 128, 32, 100 << 10, 2, "shared memory");
  expect("sm_90", 128, 32, (114 << 10) - 1024, 2, "shared memory");  // with the KiB that the system takes
  expect("sm_90", 128, 32, (114 << 10) - 1023, 1, "shared memory");
  expect("sm_90", 32, 16, 0, 32, "blocks");
  expect("sm_90", 33, 16, 0, 32, "blocks");  // two warps
}

TEST(Occupancy, OfOtherGpus) {
  expect("sm_75", 32, 16, 0, 16, "blocks");
  expect("sm_75", 1024, 32, 0, 1, "threads");
  expect("sm_86", 32, 16, 0, 16, "blocks");
  expect("sm_89", 32, 16, 0, 24, "blocks");
  expect("sm_120", 32, 16, 0, 24, "blocks");
}

}  // namespace
}  // namespace fusec::codegen::cuda
