// SPDX-License-Identifier: Apache-2.0
// Models may be malicious: length, nesting and the number of terms are bounded.
#include "compiler/import/onnx/dim_param.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "ir/support/characters.h"

namespace fusec::importer {
namespace {

constexpr std::size_t kMaxParamBytes = 256;
constexpr int kMaxParamDepth = 32;
constexpr std::size_t kMaxParamTerms = 64;
constexpr int64_t kMaxDivisor = int64_t{1} << 20;

// numerator / divisor, where a division is not yet rounded.
struct Quotient {
  Dim numerator;
  int64_t divisor = 1;
};
using Value = std::optional<Quotient>;

std::size_t term_count(const Dim& d) { return d.is_const() ? 1 : d.terms().size(); }

Value whole(Dim d) { return Quotient{std::move(d)}; }

Value multiply(const Quotient& a, const Quotient& b) {
  if (term_count(a.numerator) * term_count(b.numerator) > kMaxParamTerms) return std::nullopt;
  if (a.divisor > kMaxDivisor / b.divisor) return std::nullopt;
  return Quotient{a.numerator * b.numerator, a.divisor * b.divisor};
}

Value add(const Quotient& a, const Quotient& b, int64_t sign) {
  if (a.divisor > kMaxDivisor / b.divisor) return std::nullopt;
  return Quotient{a.numerator * b.divisor + b.numerator * (sign * a.divisor), a.divisor * b.divisor};
}

Value divide(const Quotient& a, const Quotient& b) {
  if (b.numerator.is_const() && b.numerator.value() > 0 && b.numerator.value() <= kMaxDivisor)
    return multiply(a, {b.divisor, b.numerator.value()});
  if (a.divisor != 1 || b.divisor != 1) return std::nullopt;
  const std::optional<Dim> exact = a.numerator.exact_div(b.numerator);
  return exact ? whole(*exact) : std::nullopt;
}

std::optional<Dim> as_dim(const Value& a) {
  if (!a) return std::nullopt;
  return a->numerator.exact_div(a->divisor);
}

Value round(const Value& a, bool up) {
  if (!a) return std::nullopt;
  return whole(up ? ceildiv(a->numerator, a->divisor) : floordiv(a->numerator, a->divisor));
}

// A divisor that is a number must be positive; one of symbols is checked when they are bound.
Value round_quotient(const Value& a, const Value& b) {
  if (!a || !b || (b->numerator.is_const() && b->numerator.value() <= 0)) return std::nullopt;
  return whole(floordiv(a->numerator * b->divisor, b->numerator * a->divisor));
}

Value remainder(const Value& a, const Value& b) {
  const std::optional<Dim> x = as_dim(a), y = as_dim(b);
  if (!x || !y || (y->is_const() && y->value() <= 0)) return std::nullopt;
  return whole(mod(*x, *y));
}

class DimParamParser {
 public:
  explicit DimParamParser(std::string_view text) : text_(text) {}

  std::optional<Dim> parse() {
    const Value value = sum();
    return take_end() ? as_dim(value) : std::nullopt;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Value sum() {
    if (++depth_ > kMaxParamDepth) return std::nullopt;
    Value total = product();
    while (total) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const Value next = product();
      total = next ? add(*total, *next, plus ? 1 : -1) : std::nullopt;
    }
    --depth_;
    return total;
  }

  Value product() {
    Value total = factor();
    while (total) {
      if (take("//")) {
        total = round_quotient(total, factor());
      } else if (take("/")) {
        const Value next = factor();
        total = next ? divide(*total, *next) : std::nullopt;
      } else if (take("%")) {
        total = remainder(total, factor());
      } else if (take("*")) {
        const Value next = factor();
        total = next ? multiply(*total, *next) : std::nullopt;
      } else {
        break;
      }
    }
    return total;
  }

  Value factor() {
    bool negative = false;
    while (take("-")) negative = !negative;
    skip_space();
    Value value;
    if (take("(")) {
      value = sum();
      if (!take(")")) return std::nullopt;
    } else if (at_ < text_.size() && ir::is_digit(text_[at_])) {
      value = number();
    } else if (at_ < text_.size() && ir::starts_name(text_[at_])) {
      value = name();
    }
    if (value && negative) value->numerator = -value->numerator;
    return value;
  }

  Value number() {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(rest - text_.data());
    return whole(value);
  }

  Value name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (ir::starts_name(text_[at_]) || ir::is_digit(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    return take("(") ? call(word) : whole(Dim::symbol(std::string(word)));
  }

  Value call(std::string_view function) {
    std::vector<Value> args;
    do args.push_back(sum());
    while (args.back() && take(","));
    if (!args.back() || !take(")")) return std::nullopt;
    if (args.size() == 1) {
      if (function == "floor") return round(args[0], false);
      return function == "ceil" || function == "ceiling" ? round(args[0], true) : std::nullopt;
    }
    if (args.size() != 2) return std::nullopt;
    if (function == "floordiv" || function == "FloorDiv") return round_quotient(args[0], args[1]);
    if (function == "mod" || function == "Mod") return remainder(args[0], args[1]);
    const std::optional<Dim> a = as_dim(args[0]), b = as_dim(args[1]);
    if (!a || !b) return std::nullopt;
    if (function == "min" || function == "Min") return whole(min(*a, *b));
    return function == "max" || function == "Max" ? whole(max(*a, *b)) : std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<Dim> parse_dim_param(const std::string& text) try {
  const auto may_be_in_name = [](char c) { return ir::starts_name(c) || ir::is_digit(c) || c == '.'; };
  if (text.size() > kMaxParamBytes || std::all_of(text.begin(), text.end(), may_be_in_name)) return std::nullopt;
  const std::optional<Dim> dim = DimParamParser(text).parse();
  return dim && !dim->is_const() ? dim : std::nullopt;
} catch (const DimOverflow&) {
  return std::nullopt;
}

}  // namespace fusec::importer
