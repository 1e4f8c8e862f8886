// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/shape.h"

namespace fusec::ir {

// Copies construct the active alternative explicitly. The variant of libstdc++ 12 assumes that one of these
// alternatives is never valueless, so it destroys a value that was never constructed if its own copy constructor runs
// out of memory.
class AttrValue : public std::variant<int64_t, double, std::string, std::vector<int64_t>, Shape, DType> {
 public:
  using Base = std::variant<int64_t, double, std::string, std::vector<int64_t>, Shape, DType>;
  using Base::Base;
  AttrValue(const AttrValue& other) : Base(copy(other)) {}
  AttrValue(AttrValue&&) noexcept = default;
  AttrValue& operator=(const AttrValue& other) { return *this = AttrValue(other); }
  AttrValue& operator=(AttrValue&&) noexcept = default;
  ~AttrValue() = default;

 private:
  static Base copy(const Base& other) {
    return std::visit([]<class T>(const T& value) { return Base(std::in_place_type<T>, value); }, other);
  }
};

// A few named values, sorted by name.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) {
    for (const auto& item : items) set(item.first, item.second);
  }
  void set(std::string_view name, AttrValue value);
  const AttrValue* find(std::string_view name) const;
  // These require that the attribute exists with that kind (FUSEC_CHECK otherwise).
  int64_t i(std::string_view name) const;
  double f(std::string_view name) const;
  const std::string& s(std::string_view name) const;
  const std::vector<int64_t>& ints(std::string_view name) const;
  const Shape& dims(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

}  // namespace fusec::ir
