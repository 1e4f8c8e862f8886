// SPDX-License-Identifier: Apache-2.0
// Text of the largest values of symbols, which graphs and programs share.
#include <fmt/format.h>

#include "ir/text/lexer.h"

namespace fusec::ir {

std::string limits_text(const std::map<std::string, int64_t>& limits) {
  if (limits.empty()) return "";
  return fmt::format(" limits({})",
                     listed(limits, [](const auto& l) { return fmt::format("{} = {}", l.first, l.second); }));
}

Result<std::map<std::string, int64_t>> parse_limits(Lexer& lexer) {
  std::map<std::string, int64_t> limits;
  if (!lexer.accept_word("limits")) return limits;
  FUSEC_TRY(lexer.expect("("));
  do {
    FUSEC_ASSIGN(const Token name, lexer.expect(TokenKind::ident, "the name of a symbol"));
    FUSEC_TRY(lexer.expect("="));
    FUSEC_ASSIGN(const int64_t most, lexer.integer());
    if (!limits.emplace(name.text, most).second) return lexer.error_at(name.begin, "a second limit of " + name.text);
  } while (lexer.accept(","));
  FUSEC_TRY(lexer.expect(")"));
  return limits;
}

}  // namespace fusec::ir
