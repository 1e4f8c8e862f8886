// SPDX-License-Identifier: Apache-2.0
// Implements attribute lists of graph nodes: named values sorted by name. Typed access to a missing attribute, or to
// one of another kind, is a failed FUSEC_CHECK.

#include "ir/ops/attr.h"

#include <algorithm>

#include "ir/support/check.h"

namespace fusec::ir {
namespace {

template <class T>
const T& get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  FUSEC_CHECK(value != nullptr) << "attribute '" << name << "' is missing";
  FUSEC_CHECK(std::holds_alternative<T>(*value)) << "attribute '" << name << "' has another kind";
  return std::get<T>(*value);
}

bool before(const std::pair<std::string, AttrValue>& item, std::string_view name) { return item.first < name; }

}  // namespace

void Attrs::set(std::string_view name, AttrValue value) {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name, before);
  if (it != items_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    items_.emplace(it, std::string(name), std::move(value));
  }
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto it = std::lower_bound(items_.begin(), items_.end(), name, before);
  return it != items_.end() && it->first == name ? &it->second : nullptr;
}

int64_t Attrs::i(std::string_view name) const { return get<int64_t>(*this, name); }
double Attrs::f(std::string_view name) const { return get<double>(*this, name); }
const std::string& Attrs::s(std::string_view name) const { return get<std::string>(*this, name); }
const std::vector<int64_t>& Attrs::ints(std::string_view name) const { return get<std::vector<int64_t>>(*this, name); }
const Shape& Attrs::dims(std::string_view name) const { return get<Shape>(*this, name); }
DType Attrs::dtype(std::string_view name) const { return get<DType>(*this, name); }

}  // namespace fusec::ir
