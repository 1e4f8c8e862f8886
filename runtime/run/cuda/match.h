// SPDX-License-Identifier: Apache-2.0
// Finds the launch that each kernel of a run belongs to, from the names of kernels in the order in which they began.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fusec::runtime::cuda {

// What a launch starts: a generated one kernels of these names, a library's call some number of others.
struct ExpectedLaunch {
  int32_t launch = 0;
  bool generated = false;
  std::vector<std::string> names = {};  // of a generated launch
  std::size_t counted = 0;              // of a library's call, when it ran alone; 0: not known
};

struct MatchedKernels {
  std::vector<int32_t> launch;  // by kernel; -1: of none
  bool is_sure = true;          // false: not all kernels were found, or library calls in a row were told apart by guess
};

MatchedKernels match_kernels(std::span<const ExpectedLaunch> expected, std::span<const std::string> names);

}  // namespace fusec::runtime::cuda
