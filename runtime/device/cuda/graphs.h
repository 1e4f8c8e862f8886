// SPDX-License-Identifier: Apache-2.0
// The captured graphs of one Plan in one session, by the addresses of the caller's tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/cuda/handles.h"

namespace fusec::runtime::cuda {

class GraphCache {
 public:
  static constexpr std::size_t kCapacity = 8;
  // So many sets of addresses in a row without a graph: the caller's pointers rotate.
  static constexpr int kRotating = 2 * kCapacity;

  struct Entry {
    std::vector<void*> addresses;  // of inputs, then outputs
    GraphExec graph;               // null: the addresses were seen once
    uint64_t used = 0;
  };

  // Null: these addresses are new.
  Entry* find(std::span<void* const> inputs, std::span<void* const> outputs);
  // Adds them, in the place of those that were used longest ago.
  Entry& add(std::span<void* const> inputs, std::span<void* const> outputs);
  bool rotating() const { return fresh_in_a_row_ >= kRotating; }
  void settle_down() { fresh_in_a_row_ = 0; }
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  int fresh_in_a_row_ = 0;
};

}  // namespace fusec::runtime::cuda
