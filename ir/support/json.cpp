// SPDX-License-Identifier: Apache-2.0
// Writes JSON as UTF-8, whatever bytes a text holds.

#include "ir/support/json.h"

#include <fmt/format.h>

#include <cmath>

namespace fusec::ir {
namespace {

// The bytes of the UTF-8 character that the text begins with; 0 if it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than they need be, surrogates, and what is past U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

}  // namespace

JsonWriter& JsonWriter::put(std::string_view text) {
  if (comma_) out_ += ',';
  out_ += text;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  put({&bracket, 1});
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  put(quote(name));
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) { return put(quote(text)); }
JsonWriter& JsonWriter::value(int64_t number) { return put(std::to_string(number)); }
JsonWriter& JsonWriter::value(double number) { return std::isfinite(number) ? put(fmt::format("{}", number)) : null(); }
JsonWriter& JsonWriter::value(bool flag) { return put(flag ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return put("null"); }

JsonWriter& JsonWriter::value(const Shape& shape) {
  open('[');
  for (const Dim& extent : shape) extent.is_const() ? value(extent.value()) : value(std::string_view(extent.str()));
  return close(']');
}

JsonWriter& JsonWriter::value(const std::vector<std::string>& texts) {
  open('[');
  for (const std::string& text : texts) value(std::string_view(text));
  return close(']');
}

}  // namespace fusec::ir
