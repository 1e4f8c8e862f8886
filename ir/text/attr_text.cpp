// SPDX-License-Identifier: Apache-2.0
// Prints and parses the attributes of nodes and library steps, driven by the op table. Printed text parses back to
// equal attributes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fusec/shape.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

const AttrSpec* find_spec(const std::vector<AttrSpec>& specs, std::string_view name) {
  const auto it = std::find_if(specs.begin(), specs.end(), [&](const AttrSpec& spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

struct PrintValue {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return literal(v); }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
  std::string operator()(const Shape& v) const { return to_string(v); }
  std::string operator()(DType v) const { return to_string(v); }
};

Result<std::vector<int64_t>> parse_integers(Lexer& lexer) {
  FUSEC_TRY(lexer.expect("["));
  std::vector<int64_t> values;
  if (lexer.accept("]")) return values;
  do {
    FUSEC_ASSIGN(const int64_t value, lexer.integer());
    values.push_back(value);
  } while (lexer.accept(","));
  FUSEC_TRY(lexer.expect("]"));
  return values;
}

template <class T>
Result<AttrValue> wrap(Result<T> value) {
  if (!value.ok()) return value.status();
  return AttrValue(std::move(*value));
}

Result<AttrValue> parse_value(Lexer& lexer, std::string_view kind) {
  if (kind == "int") return wrap(lexer.integer());
  if (kind == "float") return wrap(parse_float(lexer));
  if (kind == "ints") return wrap(parse_integers(lexer));
  if (kind == "dims") return wrap(lexer.shape());
  if (kind == "dtype") return wrap(lexer.dtype());
  FUSEC_ASSIGN(Token text, lexer.expect(TokenKind::string, "a string"));
  return AttrValue(std::move(text.text));
}

Status parse_attr(Lexer& lexer, Op op, const std::vector<AttrSpec>& specs, Attrs& attrs) {
  const std::size_t begin = lexer.peek().begin;
  FUSEC_ASSIGN(const Token name, lexer.expect(TokenKind::ident, "the name of an attribute"));
  const AttrSpec* spec = find_spec(specs, name.text);
  if (spec == nullptr) return lexer.error_at(begin, fmt::format("{} has no attribute '{}'", op.name(), name.text));
  if (attrs.find(name.text) != nullptr) return lexer.error_at(begin, fmt::format("'{}' is given twice", name.text));
  FUSEC_TRY(lexer.expect("="));
  FUSEC_ASSIGN(AttrValue value, parse_value(lexer, spec->kind));
  attrs.set(name.text, std::move(value));
  return {};
}

}  // namespace

std::vector<AttrSpec> attr_specs(Op op) {
  std::vector<AttrSpec> specs;
  if (op.is_scalar()) {
    if (op.scalar() == ScalarOp::cast) specs.push_back({"to", "dtype"});
    return specs;
  }
  std::string_view rest = info(op.tensor()).attributes;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t colon = item.find(':');
    specs.push_back({item.substr(0, colon), item.substr(colon + 1)});
  }
  return specs;
}

std::string print_attrs(Op op, const Attrs& attrs) {
  std::string out;
  for (const AttrSpec& spec : attr_specs(op)) {
    const AttrValue* value = attrs.find(spec.name);
    if (value == nullptr) continue;
    out += fmt::format("{}{} = {}", out.empty() ? " {" : ", ", spec.name, std::visit(PrintValue{}, *value));
  }
  return out.empty() ? out : out + "}";
}

Result<Attrs> parse_attrs(Lexer& lexer, Op op) {
  const std::vector<AttrSpec> specs = attr_specs(op);
  Attrs attrs;
  if (lexer.accept("{") && !lexer.accept("}")) {
    do {
      FUSEC_TRY(parse_attr(lexer, op, specs, attrs));
    } while (lexer.accept(","));
    FUSEC_TRY(lexer.expect("}"));
  }
  return attrs;
}

}  // namespace fusec::ir
