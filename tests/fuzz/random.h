// SPDX-License-Identifier: Apache-2.0
// Random choices that are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ir/support/hash.h"

namespace fusec::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(ir::mix64(seed)) {}
  uint64_t bits() { return state_ = ir::mix64(state_); }
  // 0 .. n-1; 0 for n <= 0.
  int64_t below(int64_t n) { return n <= 0 ? 0 : static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(below(static_cast<int64_t>(items.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> items) {
    return items.begin()[below(static_cast<int64_t>(items.size()))];
  }
  // An index, by weight.
  std::size_t weighted(const std::vector<double>& weights) {
    double sum = 0;
    for (const double w : weights) sum += w;
    double at = uniform() * sum;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if ((at -= weights[i]) < 0) return i;
    return weights.size() - 1;
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  uint64_t state_;
};

}  // namespace fusec::fuzz
