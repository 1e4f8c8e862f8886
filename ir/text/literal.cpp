// SPDX-License-Identifier: Apache-2.0
// Prints and parses number literals of every dtype without losing bits. A decimal is rounded only once to its dtype.

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/ops/element.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

uint64_t load_bits(DType dtype, const void* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(dtype));  // little endian
  return bits;
}

void store_bits(DType dtype, void* element, uint64_t bits) { std::memcpy(element, &bits, size_of(dtype)); }

// The positive quiet NaN without payload.
uint64_t usual_nan(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7ff8000000000000;
    case DType::f32:
      return 0x7fc00000;
    case DType::f16:
      return 0x7e00;
    default:
      return 0x7fc0;
  }
}

template <class T>
std::string shortest(T value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

// The decimal with the fewest significant digits that rounds to the same element.
std::string shortest_half(DType dtype, const void* element) {
  const double value = load_element<double>(dtype, element);
  char buffer[64];
  for (int precision = 1;; ++precision) {
    char* end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, precision).ptr;
    double parsed = 0;
    std::from_chars(buffer, end, parsed);
    uint16_t back = 0;
    store_element(dtype, &back, parsed);
    if (back == load_bits(dtype, element)) return shortest(parsed);
  }
}

std::string float_literal(DType dtype, const void* element) {
  const double value = load_element<double>(dtype, element);
  const uint64_t bits = load_bits(dtype, element);
  if (std::isnan(value)) return bits == usual_nan(dtype) ? "nan" : fmt::format("nan({:#x})", bits);
  if (dtype == DType::f64) return shortest(value);
  if (dtype == DType::f32) return shortest(static_cast<float>(value));
  return std::isinf(value) ? shortest(value) : shortest_half(dtype, element);
}

Status bad_literal(const Lexer& lexer, std::size_t begin, DType dtype, std::string_view text) {
  return lexer.error_at(begin, fmt::format("'{}' is no {} literal", escaped(text), to_string(dtype)));
}

template <class T>
Status parse_number(Lexer& lexer, DType dtype, T& value) {
  const std::size_t begin = lexer.peek().begin;
  const bool negative = lexer.accept("-");
  if (std::is_floating_point_v<T> && lexer.peek().is_word("inf")) {
    lexer.next();
    value = std::numeric_limits<T>::infinity() * (negative ? T(-1) : T(1));
    return {};
  }
  FUSEC_ASSIGN(const Token digits, lexer.expect(TokenKind::number, fmt::format("a {} literal", to_string(dtype))));
  const std::string text = (negative ? "-" : "") + digits.text;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::result_out_of_range) {
    return lexer.error_at(begin, fmt::format("{} is out of range for {}", text, to_string(dtype)));
  }
  if (fault != std::errc() || end != text.data() + text.size()) return bad_literal(lexer, begin, dtype, text);
  return {};
}

Status parse_nan(Lexer& lexer, DType dtype, void* element) {
  lexer.next();
  uint64_t bits = usual_nan(dtype);
  if (lexer.accept("(")) {
    const std::size_t begin = lexer.peek().begin;
    FUSEC_ASSIGN(const Token token, lexer.expect(TokenKind::number, "the bits of a NaN"));
    const std::string& text = token.text;
    const char* last = text.data() + text.size();
    const bool hex = text.starts_with("0x") && std::from_chars(text.data() + 2, last, bits, 16).ptr == last;
    store_bits(dtype, element, bits);
    const bool fits = size_of(dtype) == 8 || bits >> (8 * size_of(dtype)) == 0;
    if (!hex || !fits || !std::isnan(load_element<double>(dtype, element))) {
      return lexer.error_at(begin, fmt::format("'{}' are not the bits of a {} NaN", text, to_string(dtype)));
    }
    FUSEC_TRY(lexer.expect(")"));
  }
  store_bits(dtype, element, bits);
  return {};
}

template <class T>
Status parse_integer(Lexer& lexer, DType dtype, void* element) {
  const std::size_t begin = lexer.peek().begin;
  T value = 0;
  FUSEC_TRY(parse_number(lexer, dtype, value));
  store_bits(dtype, element, static_cast<uint64_t>(value));
  if (load_element<T>(dtype, element) != value) {
    return lexer.error_at(begin, fmt::format("{} is out of range for {}", value, to_string(dtype)));
  }
  return {};
}

Status parse_bool(Lexer& lexer, void* element) {
  const bool value = lexer.peek().is_word("true");
  if (!value && !lexer.peek().is_word("false")) return lexer.expected("true or false");
  lexer.next();
  store_bits(DType::bool_, element, value ? 1 : 0);
  return {};
}

}  // namespace

std::string literal(double value) { return float_literal(DType::f64, &value); }

std::string literal(DType dtype, const void* element) {
  if (dtype == DType::bool_) return load_bits(dtype, element) != 0 ? "true" : "false";
  if (is_float(dtype)) return float_literal(dtype, element);
  if (is_signed_int(dtype)) return std::to_string(load_element<int64_t>(dtype, element));
  return std::to_string(load_element<uint64_t>(dtype, element));
}

Status parse_literal(Lexer& lexer, DType dtype, void* element) {
  if (dtype == DType::bool_) return parse_bool(lexer, element);
  if (is_signed_int(dtype)) return parse_integer<int64_t>(lexer, dtype, element);
  if (is_unsigned_int(dtype)) return parse_integer<uint64_t>(lexer, dtype, element);
  if (lexer.peek().is_word("nan")) return parse_nan(lexer, dtype, element);
  if (dtype == DType::f32) {
    float value = 0;  // read as f32: a detour through f64 would round twice
    FUSEC_TRY(parse_number(lexer, dtype, value));
    std::memcpy(element, &value, sizeof(value));
    return {};
  }
  double value = 0;
  FUSEC_TRY(parse_number(lexer, dtype, value));
  store_element(dtype, element, value);
  return {};
}

Result<double> parse_float(Lexer& lexer) {
  double value = 0;
  FUSEC_TRY(parse_literal(lexer, DType::f64, &value));
  return value;
}

}  // namespace fusec::ir
