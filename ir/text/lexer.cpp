// SPDX-License-Identifier: Apache-2.0
// Splits fusec's text forms into tokens and parses their shared elements. It accepts any bytes; errors are statuses
// with line and column.

#include "ir/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ir/support/characters.h"

namespace fusec::ir {
namespace {

bool in_word(char c) { return starts_name(c) || is_digit(c) || c == '.'; }

// The length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return tail(1) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    const bool overlong = a == 0xe0 && b < 0xa0, surrogate = a == 0xed && b > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    const bool overlong = a == 0xf0 && b < 0x90, beyond = a == 0xf4 && b > 0x8f;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

std::string escape(std::string_view text, bool quotes) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = utf8_length(text.substr(i));
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (length == 0 || static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::optional<char> simple_escape(char c) {
  switch (c) {
    case '\\':
    case '"':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    default:
      return std::nullopt;
  }
}

std::string describe(const Token& token, std::string_view source) {
  if (token.kind == TokenKind::end) return "the end of the text";
  return fmt::format("'{}'", escape(source.substr(token.begin, token.end - token.begin), false));
}

}  // namespace

std::string escaped(std::string_view text) { return escape(text, false); }
std::string quote(std::string_view text) { return '"' + escape(text, true) + '"'; }

Result<std::string> unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return Status(StatusCode::invalid_model, "a lone backslash");
    if (const auto c = simple_escape(text[i])) {
      out += *c;
      continue;
    }
    uint8_t byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] != 'x' || i + 3 > text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      return Status(StatusCode::invalid_model, fmt::format("unknown escape '\\{}'", escaped(text.substr(i, 1))));
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string sigil_name(char sigil, std::string_view name) {
  const bool plain = !name.empty() && starts_name(name[0]) && std::all_of(name.begin(), name.end(), in_word);
  return plain ? sigil + std::string(name) : sigil + quote(name);
}

void Lexer::skip_space() {
  while (position_ < source_.size()) {
    const char c = source_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (source_.substr(position_, 2) == "//") {
      position_ = std::min(source_.find('\n', position_), source_.size());
    } else {
      return;
    }
  }
}

void Lexer::fail(std::size_t offset, std::string message) {
  token_.kind = TokenKind::bad;
  token_.begin = offset;
  token_.text = std::move(message);
}

void Lexer::lex_word(TokenKind kind) {
  const std::size_t begin = position_;
  while (position_ < source_.size() && in_word(source_[position_])) ++position_;
  token_.kind = kind;
  token_.text = source_.substr(begin, position_ - begin);
}

void Lexer::lex_quoted() {
  const std::size_t begin = ++position_;
  while (position_ < source_.size() && source_[position_] != '"' && source_[position_] != '\n') {
    position_ += source_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= source_.size() || source_[position_] != '"') {
    position_ = source_.size();
    return fail(token_.begin, "a string without its closing quote");
  }
  auto text = unescaped(source_.substr(begin, position_ - begin));
  ++position_;
  if (!text.ok()) return fail(token_.begin, text.status().message() + " in a string");
  token_.text = std::move(*text);
}

void Lexer::lex_sigil(TokenKind kind) {
  ++position_;
  const char c = position_ < source_.size() ? source_[position_] : '\0';
  token_.kind = kind;
  if (c == '"') {
    token_.quoted = true;
    return lex_quoted();
  }
  if (!in_word(c)) return fail(token_.begin, fmt::format("'{}' without a name", source_[token_.begin]));
  lex_word(kind);
}

void Lexer::lex_number() {
  const std::size_t begin = position_;
  const std::string_view prefix = source_.substr(position_, 2);
  const bool hex = prefix == "0x" || prefix == "0X";
  while (position_ < source_.size() && in_word(source_[position_])) {
    const char c = source_[position_++];
    const bool exponent = !hex && (c == 'e' || c == 'E');
    if (exponent && position_ < source_.size() && (source_[position_] == '+' || source_[position_] == '-')) ++position_;
  }
  token_.kind = TokenKind::number;
  token_.text = source_.substr(begin, position_ - begin);
}

void Lexer::advance() {
  skip_space();
  token_ = Token{};
  token_.begin = position_;
  if (position_ < source_.size()) {
    const char c = source_[position_];
    if (starts_name(c)) {
      lex_word(TokenKind::ident);
    } else if (is_digit(c)) {
      lex_number();
    } else if (c == '%') {
      lex_sigil(TokenKind::value);
    } else if (c == '@') {
      lex_sigil(TokenKind::global);
    } else if (c == '#') {
      lex_sigil(TokenKind::hash);
    } else if (c == '"') {
      token_.kind = TokenKind::string;
      lex_quoted();
    } else {
      token_.kind = TokenKind::punct;
      token_.text = source_.substr(position_, source_.substr(position_, 2) == "->" ? 2 : 1);
      position_ += token_.text.size();
    }
  }
  token_.end = position_;
}

Token Lexer::next() {
  Token taken = std::move(token_);
  last_end_ = taken.end;
  advance();
  return taken;
}

bool Lexer::accept(std::string_view punctuation) {
  if (!token_.is(punctuation)) return false;
  next();
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!token_.is_word(word)) return false;
  next();
  return true;
}

Status Lexer::expect(std::string_view punctuation) {
  return accept(punctuation) ? Status() : expected(fmt::format("'{}'", punctuation));
}

Status Lexer::expect_word(std::string_view word) {
  return accept_word(word) ? Status() : expected(fmt::format("'{}'", word));
}

Result<Token> Lexer::expect(TokenKind kind, std::string_view what) {
  if (token_.kind != kind) return expected(what);
  return next();
}

std::string_view Lexer::trailing_comment() const {
  const std::size_t line_end = std::min(source_.find('\n', last_end_), source_.size());
  std::string_view rest = source_.substr(last_end_, line_end - last_end_);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  if (rest.substr(0, 2) != "//") return {};
  rest.remove_prefix(2);
  if (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

Result<Dim> Lexer::dim() {
  const std::size_t begin = token_.begin;
  int depth = 0;
  while (token_.kind != TokenKind::end && token_.kind != TokenKind::bad) {
    const bool closes = token_.is(")") || token_.is("]") || token_.is("}");
    if (depth == 0 && (closes || token_.is(","))) break;
    depth += token_.is("(") ? 1 : token_.is(")") ? -1 : 0;
    next();
  }
  if (token_.begin == begin || token_.kind == TokenKind::bad) return expected("a dimension");
  auto dim = Dim::parse(source_.substr(begin, last_end_ - begin));
  if (!dim.ok()) return error_at(begin, dim.status());
  return dim;
}

Result<Dim> Lexer::expression() {
  const std::size_t begin = token_.begin;
  bool after_operand = false;
  for (int depth = 0;;) {
    const bool operand = token_.kind == TokenKind::ident || token_.kind == TokenKind::number;
    if (!operand && token_.kind != TokenKind::punct) break;
    if (operand && after_operand) break;
    if (token_.is("{") || token_.is("}") || token_.is("[") || token_.is("]")) break;
    if (depth == 0 && (token_.is(",") || token_.is(")"))) break;
    depth += token_.is("(") ? 1 : token_.is(")") ? -1 : 0;
    after_operand = operand || token_.is(")");
    next();
  }
  if (token_.begin == begin) return expected("an index expression");
  std::string text(source_.substr(begin, last_end_ - begin));
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  auto dim = Dim::parse(text);
  if (!dim.ok()) return error_at(begin, dim.status());
  return dim;
}

Result<Shape> Lexer::shape() {
  FUSEC_TRY(expect("["));
  Shape shape;
  if (accept("]")) return shape;
  do {
    FUSEC_ASSIGN(Dim d, dim());
    shape.push_back(std::move(d));
  } while (accept(","));
  FUSEC_TRY(expect("]"));
  return shape;
}

Result<DType> Lexer::dtype() {
  const auto dtype = token_.kind == TokenKind::ident ? parse_dtype(token_.text) : std::nullopt;
  if (!dtype) return expected("an element type");
  next();
  return *dtype;
}

Result<Type> Lexer::type() {
  FUSEC_ASSIGN(const DType element, dtype());
  FUSEC_ASSIGN(Shape extents, shape());
  return Type{element, std::move(extents)};
}

Result<int64_t> Lexer::integer() {
  const std::size_t begin = token_.begin;
  const bool negative = accept("-");
  FUSEC_ASSIGN(const Token digits, expect(TokenKind::number, "an integer"));
  const std::string text = (negative ? "-" : "") + digits.text;
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::result_out_of_range) return error_at(begin, text + " does not fit 64 bits");
  if (fault != std::errc() || end != text.data() + text.size()) {
    return error_at(begin, fmt::format("expected an integer, got '{}'", text));
  }
  return value;
}

Status Lexer::error_at(std::size_t offset, std::string_view message) const {
  const std::string_view before = source_.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return Status(StatusCode::invalid_model, fmt::format("line {}, column {}: {}", line, column, message));
}

Status Lexer::expected(std::string_view what) const {
  if (token_.kind == TokenKind::bad) return error(token_.text);
  return error(fmt::format("expected {}, got {}", what, describe(token_, source_)));
}

}  // namespace fusec::ir
