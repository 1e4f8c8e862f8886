// SPDX-License-Identifier: Apache-2.0
// The tokens of fusec's text forms, and the pieces that graph text and kernel text share: names, types, dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fusec/dim.h"
#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

enum class TokenKind : uint8_t {
  end,
  ident,   // [A-Za-z_][A-Za-z0-9_.]*, so "load.4" is one
  value,   // %name, %12 or %"any string"; text is what stands after the sigil
  global,  // @name or @"any string"
  number,  // unsigned, decimal or 0x...; a sign is a token of its own
  string,  // "..."
  hash,    // #1f2e3d
  punct,   // one character, or "->"
  bad,     // text says why
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;                // decoded: without sigils, quotes and escapes
  bool quoted = false;             // of a value or global
  std::size_t begin = 0, end = 0;  // offsets in the source
  bool is(std::string_view punctuation) const { return kind == TokenKind::punct && text == punctuation; }
  bool is_word(std::string_view word) const { return kind == TokenKind::ident && text == word; }
};

// One token of lookahead over a text that must outlive it. `//` starts a comment that ends with the line.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { advance(); }

  const Token& peek() const { return token_; }
  Token next();
  bool accept(std::string_view punctuation);  // takes it if it is there
  bool accept_word(std::string_view word);
  Status expect(std::string_view punctuation);
  Status expect_word(std::string_view word);
  // `what` is for the message: "expected <what>, got ...".
  Result<Token> expect(TokenKind kind, std::string_view what);

  // The comment between the last taken token and the end of its line, less the "//" and one space; empty if none.
  std::string_view trailing_comment() const;
  // A dimension expression up to a comma or closing bracket outside of parentheses.
  Result<Dim> dim();
  // The same, also ended by a brace and where one operand follows another; it may go over lines.
  Result<Dim> expression();
  Result<Shape> shape();      // "[N, 3]"
  Result<DType> dtype();      // "f32"
  Result<Type> type();        // "f32[N, 3]"
  Result<int64_t> integer();  // with an optional sign

  // invalid_model: "line 3, column 7: message".
  Status error_at(std::size_t offset, std::string_view message) const;
  // The text is at fault for what was found in it, but not for memory that is lacking.
  Status error_at(std::size_t offset, const Status& found) const {
    return found.code() == StatusCode::out_of_memory ? found : error_at(offset, found.message());
  }
  Status error(std::string_view message) const { return error_at(token_.begin, message); }  // at the next token
  Status expected(std::string_view what) const;
  std::string_view source() const { return source_; }

 private:
  void advance();
  void skip_space();
  void lex_word(TokenKind kind);
  void lex_sigil(TokenKind kind);
  void lex_number();
  void lex_quoted();
  void fail(std::size_t offset, std::string message);

  std::string_view source_;
  std::size_t position_ = 0;
  std::size_t last_end_ = 0;  // of the last taken token
  Token token_;
};

// "..." with \" \\ \n \t \r and \xHH for other control bytes and bytes that are not UTF-8.
std::string quote(std::string_view text);
// The same without the quotes, for comments (double quotes stay as they are).
std::string escaped(std::string_view text);
Result<std::string> unescaped(std::string_view text);
// "%" and the name, quoted unless it is an identifier.
std::string sigil_name(char sigil, std::string_view name);

}  // namespace fusec::ir
