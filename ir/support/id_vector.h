// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>

namespace fusec::ir {

// A strong 32-bit index; Tag makes NodeId and ValueId different types.
template <class Tag>
struct Id {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  auto operator<=>(const Id&) const = default;
};

// A sequence indexed by Id<Tag>. References from operator[] stay valid while elements are added: passes read a type of
// the graph in the call that adds a node to it.
template <class IdType, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t n, const T& value = T()) : items_(n, value) {}
  T& operator[](IdType id) { return items_[id.index]; }
  const T& operator[](IdType id) const { return items_[id.index]; }
  IdType push_back(T value) {
    items_.push_back(std::move(value));
    return IdType{static_cast<uint32_t>(items_.size() - 1)};
  }
  std::size_t size() const { return items_.size(); }
  void resize(std::size_t n) { items_.resize(n); }
  bool contains(IdType id) const { return id.index < items_.size(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const IdVector&) const = default;

 private:
  std::deque<T> items_;
};

}  // namespace fusec::ir

template <class Tag>
struct std::hash<fusec::ir::Id<Tag>> {
  std::size_t operator()(fusec::ir::Id<Tag> id) const noexcept { return std::hash<uint32_t>()(id.index); }
};
