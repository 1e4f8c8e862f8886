// SPDX-License-Identifier: Apache-2.0
// Prints Dims and IndexExprs as text and parses Dims. Printed text parses back to an equal Dim. The parser accepts
// untrusted text: it limits nesting and reports overflow as an error.

#include <charconv>
#include <limits>

#include "ir/base/dim_internal.h"
#include "ir/support/characters.h"
#include "ir/support/check.h"

namespace fusec {
namespace {

using base::Atom;
using base::Term;
using base::TermView;

constexpr const char* kFnNames[] = {"", "floordiv", "mod", "min", "max"};
constexpr int kMaxDepth = 256;  // of parentheses and calls: hostile text must not exhaust the stack

std::string symbol_text(const Dim::Atom& atom) { return atom.name; }
std::string symbol_text(const ir::IndexExpr::Atom& atom) { return systematic_name(atom.symbol); }

template <class A>
std::string atom_text(const A& atom) {
  if (atom.fn == Dim::Fn::symbol) return symbol_text(atom);
  return std::string(kFnNames[static_cast<int>(atom.fn)]) + "(" + atom.args[0].str() + ", " + atom.args[1].str() + ")";
}

template <class T>
void append_term(std::string& out, const T& t) {
  // The lowest integer has no positive counterpart to subtract.
  const bool negative = t.coefficient < 0 && (out.empty() || t.coefficient != std::numeric_limits<int64_t>::min());
  if (out.empty()) {
    if (negative) out += "-";
  } else {
    out += negative ? " - " : " + ";
  }
  std::string magnitude = std::to_string(t.coefficient);
  if (negative) magnitude.erase(0, 1);
  const bool show = t.atoms.empty() || magnitude != "1";
  if (show) out += magnitude;
  for (std::size_t i = 0; i < t.atoms.size(); ++i) out += (show || i > 0 ? "*" : "") + atom_text(t.atoms[i]);
}

// sum: ['-'] product (('+'|'-') product)*; product: factor ('*' factor)*; factor: number, symbol, call, '(' sum ')',
// '-' factor.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    std::optional<Dim> d = sum();
    skip_space();
    if (d && at_ < text_.size()) d = fail("unexpected '" + std::string(1, text_[at_]) + "'");
    if (d) return *d;
    return Status(StatusCode::invalid_argument, "dimension '" + std::string(text_.substr(0, 200)) + "': " + error_ +
                                                    " at column " + std::to_string(at_ + 1));
  }

 private:
  std::nullopt_t fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return std::nullopt;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Dim> sum() {
    if (++depth_ > kMaxDepth) return fail("nested too deep");
    std::optional<Dim> total = product();
    while (total) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const std::optional<Dim> next = product();
      if (!next) return std::nullopt;
      total = plus ? *total + *next : *total - *next;
    }
    --depth_;
    return total;
  }

  std::optional<Dim> product() {
    std::optional<Dim> total = factor();
    while (total && take('*')) {
      const std::optional<Dim> next = factor();
      if (!next) return std::nullopt;
      total = *total * *next;
    }
    return total;
  }

  std::optional<Dim> factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    skip_space();
    if (at_ < text_.size() && ir::is_digit(text_[at_])) return number(negative);
    std::optional<Dim> d;
    if (take('(')) {
      d = sum();
      if (d && !take(')')) return fail("expected ')'");
    } else if (at_ < text_.size() && ir::starts_name(text_[at_])) {
      d = name();
    } else {
      return fail("expected a number, a symbol or '('");
    }
    if (d && negative) d = -*d;
    return d;
  }

  std::optional<Dim> number(bool negative) {
    std::string digits = negative ? "-" : "";
    while (at_ < text_.size() && ir::is_digit(text_[at_])) digits += text_[at_++];
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc()) return fail("number out of range");
    return Dim(value);
  }

  std::optional<Dim> name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (ir::starts_name(text_[at_]) || ir::is_digit(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (!take('(')) return Dim::symbol(word);
    for (int fn = 1; fn <= 4; ++fn) {
      if (word == kFnNames[fn]) return call(static_cast<Dim::Fn>(fn));
    }
    return fail("unknown function '" + word + "'");
  }

  std::optional<Dim> call(Dim::Fn fn) {
    const std::optional<Dim> a = sum();
    if (!a) return std::nullopt;
    if (!take(',')) return fail("expected ','");
    const std::optional<Dim> b = sum();
    if (!b) return std::nullopt;
    if (!take(')')) return fail("expected ')'");
    if (b->is(0) && (fn == Dim::Fn::floordiv || fn == Dim::Fn::mod)) return fail("division by zero");
    return base::apply(fn, *a, *b);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

// The constant comes last.
template <class E>
std::string text(const E& e) {
  if (e.is_const()) return std::to_string(e.value());
  std::string out;
  const Term<E>* constant = nullptr;
  const TermView<E> terms(e);
  for (const Term<E>& t : terms) {
    if (t.atoms.empty()) {
      constant = &t;
    } else {
      append_term(out, t);
    }
  }
  if (constant != nullptr) append_term(out, *constant);
  return out;
}

}  // namespace

std::string Dim::str() const { return text(*this); }
std::string ir::IndexExpr::str() const { return text(*this); }

std::string ir::systematic_name(SymbolId symbol) {
  if (symbol.kind == SymbolKind::lane) return "lane";
  if (symbol.kind == SymbolKind::thread) return "t";
  constexpr const char* kLetters = "ci\0n\0v";
  std::string name = kLetters[static_cast<int>(symbol.kind)] + std::to_string(symbol.index % kDerived);
  if (symbol.index >= kDerived) name += "." + std::to_string(symbol.index / kDerived);
  return name;
}

Result<Dim> Dim::parse(std::string_view text) noexcept {
  return ir::guarded([&]() -> Result<Dim> {
    try {
      return Parser(text).parse();
    } catch (const DimOverflow& e) {
      return Status(StatusCode::invalid_argument, "dimension '" + std::string(text.substr(0, 200)) + "': " + e.what());
    }
  });
}

}  // namespace fusec
