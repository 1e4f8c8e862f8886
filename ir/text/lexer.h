// SPDX-License-Identifier: Apache-2.0
// The tokens of fusec's text forms, and the elements that graph, kernel and program text share: names, types,
// dimensions, numbers, attributes and lists. Every element of every dtype survives printing and parsing bit by bit.
// Attributes look like {axis = 1, perm = [1, 0], shape = [N, 4], mode = "edge", dtype = f32}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/dim.h"
#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"
#include "ir/ops/attr.h"
#include "ir/ops/op.h"

namespace fusec::ir {

enum class TokenKind : uint8_t {
  end,
  ident,   // [A-Za-z_][A-Za-z0-9_.]*, so "load.4" is one token
  value,   // %name, %12 or %"any string"; text is what follows the sigil
  global,  // @name or @"any string"
  number,  // unsigned, decimal or 0x...; a sign is a separate token
  string,  // "..."
  hash,    // #1f2e3d
  punct,   // one character, or "->"
  bad,     // text is the error message
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;                // decoded: without sigils, quotes and escapes
  bool quoted = false;             // for values and globals
  std::size_t begin = 0, end = 0;  // offsets in the source
  bool is(std::string_view punctuation) const { return kind == TokenKind::punct && text == punctuation; }
  bool is_word(std::string_view word) const { return kind == TokenKind::ident && text == word; }
};

// One token of lookahead over a text that must outlive the lexer. `//` starts a comment that ends with the line.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { advance(); }

  const Token& peek() const { return token_; }
  Token next();
  bool accept(std::string_view punctuation);  // takes it if it is next
  bool accept_word(std::string_view word);
  Status expect(std::string_view punctuation);
  Status expect_word(std::string_view word);
  // `what` is used in the message: "expected <what>, got ...".
  Result<Token> expect(TokenKind kind, std::string_view what);

  // The comment between the last taken token and the end of its line, without the "//" and one space; empty if there is
  // none.
  std::string_view trailing_comment() const;
  // A dimension expression up to a comma or closing bracket outside parentheses.
  Result<Dim> dim();
  // The same, but it also ends at a brace and where one operand directly follows another; it may span lines.
  Result<Dim> expression();
  Result<Shape> shape();      // "[N, 3]"
  Result<DType> dtype();      // "f32"
  Result<Type> type();        // "f32[N, 3]"
  Result<int64_t> integer();  // with an optional sign

  // invalid_model: "line 3, column 7: message".
  Status error_at(std::size_t offset, std::string_view message) const;
  // An error found in the text is reported at its position; lack of memory is passed on unchanged.
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
  std::size_t last_end_ = 0;  // end of the last taken token
  Token token_;
};

// "..." with \" \\ \n \t \r, and \xHH for other control bytes and for bytes that are not UTF-8.
std::string quote(std::string_view text);
// The same without the quotes, for comments (double quotes are not escaped).
std::string escaped(std::string_view text);
Result<std::string> unescaped(std::string_view text);
// The sigil and the name, which is quoted unless it is an identifier.
std::string sigil_name(char sigil, std::string_view name);

// The shortest decimal that reads back as the same value; "inf", "-0", "nan", and "nan(0x7fc00001)" for NaNs other than
// the usual quiet one. Integers in decimal; true and false.
std::string literal(DType dtype, const void* element);
std::string literal(double value);

// Reads one literal into `element`. A float literal is rounded to nearest even; an integer must fit.
Status parse_literal(Lexer& lexer, DType dtype, void* element);
Result<double> parse_float(Lexer& lexer);

struct AttrSpec {
  std::string_view name, kind;  // kinds as in tensor_ops.def
};

// The attributes of `op`, in print order: those of the op table; `to` for cast; none for other scalar ops.
std::vector<AttrSpec> attr_specs(Op op);
// " {...}", or nothing if there are no attributes.
std::string print_attrs(Op op, const Attrs& attrs);
// Parses attributes in any order. The braces may be missing. infer_type checks whether all attributes are present.
Result<Attrs> parse_attrs(Lexer& lexer, Op op);

// " limits(N = 512, S = 2:77, N + S = 1:)", or nothing if there are none: a largest value, a smallest and a largest, a
// smallest. parse_limits reads it, and nothing where it is missing.
std::string limits_text(const Limits& limits);
Result<Limits> parse_limits(Lexer& lexer);

// "a, b, c" of text(item).
template <class Items, class Text>
std::string listed(const Items& items, const Text& text) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    out += text(item);
  }
  return out;
}

inline std::string listed(const std::vector<Dim>& dims) {
  return listed(dims, [](const Dim& d) { return d.str(); });
}

}  // namespace fusec::ir
