// SPDX-License-Identifier: Apache-2.0
// Writes protobuf messages: the few kinds of fields that an ONNX model needs. A message is the text of its fields.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fusec::ort {

class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, float value) {
    key(field, 5);
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift));
    return *this;
  }
  // A string, bytes, or a message inside this one.
  Message& text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  // Fields that were written before.
  Message& fields(std::string_view value) {
    bytes_.append(value);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

}  // namespace fusec::ort
