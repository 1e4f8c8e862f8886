// SPDX-License-Identifier: Apache-2.0
// What the evaluator of kernels keeps for each thread: registers, symbols, and where buffers lie; and
// the arithmetic of positions in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/eval/combine.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

inline constexpr int64_t kMaxLocalElements = int64_t{1} << 31;  // of a buffer that a kernel allocates

// Where the elements of a buffer lie.
struct Memory {
  char* data = nullptr;
  std::vector<int64_t> shape, strides;  // strides in elements
  std::vector<char> owned;
};

inline std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// `at` plus the position in the box, which spans the last axes.
inline std::vector<int64_t> inside(std::vector<int64_t> at, const std::vector<int64_t>& position) {
  for (std::size_t a = 0; a < position.size() && a < at.size(); ++a) {
    at[at.size() - 1 - a] += position[position.size() - 1 - a];
  }
  return at;
}

// What belongs to one thread of a lowered kernel, and to the whole of any other.
struct Frame {
  std::vector<Number> values;  // of registers, lane by lane
  std::vector<int64_t> slots;  // of the symbols of index expressions
  IdVector<BufferId, Memory> memory;
};

// Whether every extent has a value that keeps to the kernel's facts.
Status check_extents(const Kernel& kernel, const std::map<std::string, int64_t>& extents);

}  // namespace fusec::ir
