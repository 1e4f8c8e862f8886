// SPDX-License-Identifier: Apache-2.0
// Attributes of builder ops as text: "axis=-1 keep=true shape=[n, 2*n + 1]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "fusec/status.h"

namespace fusec::c {

// "axis:integer keep:flag?" of an op: names, kinds, and a question mark where it may be left out. Kinds: integer,
// number, flag, name, text, dtype, extent, integers, extents.
struct AttributeSpec {
  std::string_view name, kind;
  bool required = true;
};
std::vector<AttributeSpec> parse_specs(std::string_view text);

class Attributes {
 public:
  // invalid_argument, naming `op`: the text is not name=value, a name is unknown, given twice or lacking, or a value is
  // not of its kind.
  static Result<Attributes> parse(std::string_view text, std::string_view specs, std::string_view op);

  bool flag(std::string_view name, bool absent = false) const { return get(name, absent); }
  int64_t integer(std::string_view name, int64_t absent = 0) const { return get(name, absent); }
  double number(std::string_view name, double absent = 0) const { return get(name, absent); }
  std::string name(std::string_view name, std::string absent = "") const { return get(name, std::move(absent)); }
  DType dtype(std::string_view name, DType absent = DType::f32) const { return get(name, absent); }
  Dim extent(std::string_view name) const { return get(name, Dim()); }
  std::vector<int64_t> integers(std::string_view name) const { return get(name, std::vector<int64_t>()); }
  Shape extents(std::string_view name) const { return get(name, Shape()); }

 private:
  using Value = std::variant<bool, int64_t, double, std::string, DType, Dim, std::vector<int64_t>, Shape>;
  struct Entry {
    std::string_view name;  // of the specs
    Value value;
  };

  static Result<Value> parse_value(std::string_view text, std::string_view kind);
  const Value* find(std::string_view name) const;
  template <class T>
  T get(std::string_view name, T absent) const {
    const Value* value = find(name);
    return value == nullptr ? std::move(absent) : std::get<T>(*value);
  }

  std::vector<Entry> entries_;
};

// "[n, 3]"
Result<Shape> parse_extents(std::string_view text);

}  // namespace fusec::c
