// SPDX-License-Identifier: Apache-2.0
// Parses the head of a kernel's text: its parameters, extents, facts and aliases. Statements are read by
// kernel_parse_statements.cpp. All rules but names and grammar are left to ir/verify.

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/support/check.h"
#include "ir/text/kernel_parser.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {

std::optional<int64_t> decimal(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Kernel> KernelParser::parse() {
  FUSEC_TRY(lexer_.expect_word("kernel"));
  FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::global, "the name of the kernel, as @softmax"));
  k_.name = std::move(name.text);
  FUSEC_TRY(params());
  FUSEC_TRY(clauses());
  FUSEC_TRY(resolve_head());
  FUSEC_ASSIGN(k_.body, block());
  if (lexer_.peek().kind != TokenKind::end) return lexer_.expected("the end of the text");
  return std::move(k_);
}

Status KernelParser::params() {
  FUSEC_TRY(lexer_.expect("("));
  if (lexer_.accept(")")) return {};
  do {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::value, "a parameter, as %x: in f32[n]"));
    FUSEC_TRY(declaration(name, true));
  } while (lexer_.accept(","));
  return lexer_.expect(")");
}

Status KernelParser::declaration(const Token& name, bool parameter) {
  FUSEC_TRY(lexer_.expect(":"));
  Buffer b;
  b.name = name.text;
  const Token word = lexer_.next();
  const auto space = find_name<Space>(word.kind == TokenKind::ident ? word.text : "", 5);
  const bool fits = space && (*space == Space::in || *space == Space::out) == parameter;
  if (!fits) return error(word, parameter ? "expected in or out" : "expected reg, shared or scratch");
  b.space = *space;
  FUSEC_ASSIGN(b.dtype, lexer_.dtype());
  const std::size_t at = lexer_.peek().begin;
  ShapeText shapes{BufferId(), at, {}, {}};
  FUSEC_ASSIGN(shapes.shape, lexer_.shape());
  if (lexer_.accept_word("strides")) {
    FUSEC_ASSIGN(shapes.strides, lexer_.shape());
  }
  if (lexer_.accept_word("align")) {
    FUSEC_ASSIGN(const int64_t bytes, lexer_.integer());
    if (bytes < 1 || bytes > 1 << 20) return lexer_.error("an alignment is 1 ... 2^20 bytes");
    b.alignment = static_cast<int>(bytes);
  }
  if (lexer_.accept_word("layout")) {
    FUSEC_ASSIGN(Token layout, lexer_.expect(TokenKind::string, "the name of a layout, as \"pitch 65\""));
    b.layout = std::move(layout.text);
  }
  if (buffers_.count(b.name)) return error(name, fmt::format("buffer {} is declared twice", b.name));
  const std::string key = b.name;
  shapes.buffer = buffers_[key] = add_buffer(k_, std::move(b));
  if (!parameter) return resolve(shapes);
  shapes_.push_back(std::move(shapes));
  return {};
}

Status KernelParser::clauses() {
  bool stated = false;
  while (!lexer_.peek().is("{")) {
    if (lexer_.accept_word("extents")) {
      stated = true;
      FUSEC_TRY(extents());
    } else if (lexer_.accept_word("facts")) {
      FUSEC_TRY(facts());
    } else if (lexer_.accept_word("alias")) {
      FUSEC_TRY(alias());
    } else {
      return lexer_.expected("extents, facts, alias or '{'");
    }
  }
  if (stated) return {};
  std::vector<Shape> shapes;
  for (const ShapeText& s : shapes_) shapes.push_back(s.shape), shapes.push_back(s.strides);
  for (const std::string& name : implied_extents(shapes)) add_extent(name);
  return {};
}

Status KernelParser::resolve_head() {
  for (const ShapeText& s : shapes_) FUSEC_TRY(resolve(s));
  for (const auto& [name, factor] : facts_) {
    const auto it = symbols_.find(name.text);
    const auto extent = it == symbols_.end() ? std::nullopt : it->second.extent();
    if (!extent) return error(name, fmt::format("there is no extent {}", name.text));
    k_.divisible[*extent] = factor;
  }
  return {};
}

Status KernelParser::resolve(const ShapeText& s) {
  Buffer& b = k_.buffers[s.buffer];
  for (const Dim& d : s.shape) {
    FUSEC_ASSIGN(IndexExpr e, resolve(d, s.at));
    b.shape.push_back(std::move(e));
  }
  for (const Dim& d : s.strides) {
    FUSEC_ASSIGN(IndexExpr e, resolve(d, s.at));
    b.strides.push_back(std::move(e));
  }
  return {};
}

std::optional<SymbolId> KernelParser::symbol(const std::string& name) const {
  if (name == systematic_name(kLane)) return kLane;
  if (const auto reg = parse_reg(name)) return *reg;
  const auto it = symbols_.find(name);
  if (it != symbols_.end()) return it->second;
  return name == systematic_name(kThread) ? std::optional(kThread) : std::nullopt;
}

Result<IndexExpr> KernelParser::resolve(const Dim& d, std::size_t at) const {
  std::set<std::string> names;
  d.collect_symbols(names);
  for (const std::string& name : names) {
    if (!symbol(name)) return lexer_.error_at(at, fmt::format("there is no symbol {}", name));
  }
  return index_expr(d, [&](const std::string& name) { return IndexExpr::symbol(*symbol(name)); });
}

Result<IndexExpr> KernelParser::expression() {
  const std::size_t at = lexer_.peek().begin;
  FUSEC_ASSIGN(const Dim d, lexer_.expression());
  return resolve(d, at);
}

Status KernelParser::extents() {
  FUSEC_TRY(lexer_.expect("("));
  if (lexer_.accept(")")) return {};
  do {
    FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::ident, "the name of an extent"));
    add_extent(name.text);
  } while (lexer_.accept(","));
  return lexer_.expect(")");
}

Status KernelParser::facts() {
  FUSEC_TRY(lexer_.expect("("));
  do {
    if (lexer_.accept_word("fits32")) {
      k_.fits32 = true;
      continue;
    }
    FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::ident, "a fact, as n % 4 == 0"));
    FUSEC_ASSIGN(const int64_t factor, modulus());
    for (int i = 0; i < 2; ++i) FUSEC_TRY(lexer_.expect("="));
    FUSEC_ASSIGN(const int64_t rest, lexer_.integer());
    if (rest != 0 || factor < 1) return error(name, "a fact has the form n % 4 == 0");
    facts_.emplace_back(std::move(name), factor);
  } while (lexer_.accept(","));
  return lexer_.expect(")");
}

Result<int64_t> KernelParser::modulus() {
  const Token token = lexer_.next();
  if (token.begin >= lexer_.source().size() || lexer_.source()[token.begin] != '%') return error(token, "expected '%'");
  if (token.kind != TokenKind::value) return lexer_.integer();
  const auto value = decimal(token.text);
  if (!value) return error(token, "expected '%' and an integer");
  return *value;
}

Status KernelParser::alias() {
  FUSEC_TRY(lexer_.expect("("));
  FUSEC_ASSIGN(const BufferId in, buffer());
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(const BufferId out, buffer());
  k_.may_alias.emplace_back(in, out);
  return lexer_.expect(")");
}

Result<BufferId> KernelParser::buffer() {
  FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a buffer"));
  const auto it = buffers_.find(name.text);
  if (it == buffers_.end()) return error(name, fmt::format("there is no buffer {}", name.text));
  return it->second;
}

Result<std::vector<IndexExpr>> KernelParser::indices(std::string_view open, std::string_view close) {
  FUSEC_TRY(lexer_.expect(open));
  std::vector<IndexExpr> list;
  if (lexer_.accept(close)) return list;
  do {
    FUSEC_ASSIGN(IndexExpr e, expression());
    list.push_back(std::move(e));
  } while (lexer_.accept(","));
  FUSEC_TRY(lexer_.expect(close));
  return list;
}

Result<Guard> KernelParser::guard() {
  if (!lexer_.accept_word("guard")) return Guard();
  return indices("(", ")");
}

Result<Kernel> parse_kernel(std::string_view text) {
  return guarded([&] { return KernelParser(text).parse(); }, {.overflow = StatusCode::invalid_model});
}

}  // namespace fusec::ir
