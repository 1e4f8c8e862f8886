// SPDX-License-Identifier: Apache-2.0
// Text of the values that symbols may have, which graphs and programs share.
#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

std::string range_text(const ExtentRange& range) {
  if (range.least == 0) return std::to_string(range.most);
  return fmt::format("{}:{}", range.least, range.most == INT64_MAX ? "" : std::to_string(range.most));
}

// The text up to "=".
Result<Dim> parse_extent(Lexer& lexer) {
  const std::size_t begin = lexer.peek().begin;
  while (lexer.peek().kind == TokenKind::ident || lexer.peek().kind == TokenKind::number ||
         (lexer.peek().kind == TokenKind::punct && !lexer.peek().is("="))) {
    lexer.next();
  }
  auto extent = Dim::parse(lexer.source().substr(begin, lexer.peek().begin - begin));
  if (!extent.ok()) return lexer.error_at(begin, extent.status());
  if (extent->is_const()) return lexer.error_at(begin, "a limit of a number");
  return extent;
}

Result<ExtentRange> parse_range(Lexer& lexer) {
  const std::size_t begin = lexer.peek().begin;
  ExtentRange range;
  FUSEC_ASSIGN(range.most, lexer.integer());
  if (lexer.accept(":")) {
    range.least = std::exchange(range.most, INT64_MAX);
    if (lexer.peek().kind == TokenKind::number) {
      FUSEC_ASSIGN(range.most, lexer.integer());
    }
  }
  if (range.least < 0 || range.most < range.least) return lexer.error_at(begin, "a range without values");
  return range;
}

}  // namespace

std::string limits_text(const Limits& limits) {
  if (limits.empty()) return "";
  return fmt::format(" limits({})", listed(limits, [](const auto& l) {
                       return fmt::format("{} = {}", l.first.str(), range_text(l.second));
                     }));
}

Result<Limits> parse_limits(Lexer& lexer) {
  Limits limits;
  if (!lexer.accept_word("limits")) return limits;
  FUSEC_TRY(lexer.expect("("));
  do {
    const std::size_t begin = lexer.peek().begin;
    FUSEC_ASSIGN(const Dim extent, parse_extent(lexer));
    FUSEC_TRY(lexer.expect("="));
    FUSEC_ASSIGN(const ExtentRange range, parse_range(lexer));
    if (!limits.emplace(extent, range).second) return lexer.error_at(begin, "a second limit of " + extent.str());
  } while (lexer.accept(","));
  FUSEC_TRY(lexer.expect(")"));
  return limits;
}

}  // namespace fusec::ir
