// SPDX-License-Identifier: Apache-2.0
// Writes JSON. Written here and not by nlohmann's library, whose values allocate when they are destroyed: without
// memory that ends the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/shape.h"

namespace fusec::ir {

// Writes one document without line breaks.
class JsonWriter {
 public:
  JsonWriter& open(char bracket);  // '{' or '['
  JsonWriter& close(char bracket);
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);  // bytes that are not UTF-8 become U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(int64_t number);
  JsonWriter& value(int number) { return value(int64_t{number}); }
  JsonWriter& value(double number);  // null where it is not finite
  JsonWriter& value(bool flag);
  JsonWriter& value(const Shape& shape);  // an extent is a number, or the text of an expression
  JsonWriter& value(const std::vector<std::string>& texts);
  JsonWriter& null();

  template <class T>
  JsonWriter& member(std::string_view name, const T& of) {
    return key(name).value(of);
  }
  const std::string& text() const { return out_; }

 private:
  JsonWriter& put(std::string_view text);

  std::string out_;
  bool comma_ = false;  // there is a member before the next one
};

}  // namespace fusec::ir
