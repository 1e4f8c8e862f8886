// SPDX-License-Identifier: Apache-2.0
// What the evaluator of kernels keeps for each thread: registers, symbols, and where buffers lie; and
// the arithmetic of positions in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  std::vector<Memory> memory;  // of the buffers in registers
};

// What statements ask of registers and of buffers, once for each access.
struct EvalReg {
  std::size_t first = 0;  // position of its lanes among the values of a frame
  int width = 1;
  DType dtype = DType::f32;
  int slot = -1;  // where index expressions find it
};
struct EvalBuffer {
  DType dtype = DType::f32;
  Space space = Space::reg;
  std::size_t size = 0;  // bytes of an element
  std::size_t own = 0;   // position in a frame's memory, for buffers of single threads
};

// Numbers the symbols of a kernel from 0 on. Loop variables, which change most often, are found by their number.
class SymbolSlots {
 public:
  std::optional<int> find(SymbolId symbol) const {
    if (symbol.kind == SymbolKind::var && symbol.index < vars_.size()) {
      const int slot = vars_[symbol.index];
      return slot < 0 ? std::nullopt : std::optional(slot);
    }
    const auto found = others_.find(symbol);
    return found == others_.end() ? std::nullopt : std::optional(found->second);
  }
  int add(SymbolId symbol) {
    if (symbol.kind == SymbolKind::var && symbol.index < kMaxVars) {
      if (vars_.size() <= symbol.index) vars_.resize(symbol.index + 1, -1);
      vars_[symbol.index] = count_;
    } else {
      others_.emplace(symbol, count_);
    }
    return count_++;
  }

 private:
  static constexpr uint32_t kMaxVars = 1 << 16;  // what passes derive has higher numbers
  std::vector<int> vars_;                        // by VarId; -1: none
  std::map<SymbolId, int> others_;
  int count_ = 0;
};

// Whether every extent has a value that keeps to the kernel's facts.
Status check_extents(const Kernel& kernel, const std::map<std::string, int64_t>& extents);

}  // namespace fusec::ir
