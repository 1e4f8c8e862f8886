// SPDX-License-Identifier: Apache-2.0
// Parses attributes of builder ops by the specs of the op.

#include "bindings/c/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace fusec::c {
namespace {

Status reject(std::string message) { return Status(StatusCode::invalid_argument, std::move(message)); }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Where the first character outside of brackets and quotes is that `ends`; npos if these do not match.
template <class Ends>
std::size_t find_outside(std::string_view text, const Ends& ends) {
  std::string open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!open.empty() && open.back() == '"') {
      if (c == '\\') ++i;
      if (c == '"') open.pop_back();
      continue;
    }
    if (open.empty() && ends(c)) return i;
    if (c == '"') open += '"';
    if (c == '(' || c == '[') open += c == '(' ? ')' : ']';
    if (c == ')' || c == ']') {
      if (open.empty() || open.back() != c) return std::string_view::npos;
      open.pop_back();
    }
  }
  return open.empty() ? text.size() : std::string_view::npos;
}

// The members of "[a, b]".
Result<std::vector<std::string_view>> split_list(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return reject("it is no list in brackets");
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> items;
  if (trim(text).empty()) return items;
  while (true) {
    const std::size_t end = find_outside(text, [](char c) { return c == ','; });
    if (end == std::string_view::npos) return reject("its brackets do not match");
    items.push_back(trim(text.substr(0, end)));
    if (items.back().empty()) return reject("a member of the list is empty");
    if (end == text.size()) return items;
    text.remove_prefix(end + 1);
  }
}

template <class T>
Result<T> parse_number(std::string_view text, const char* kind) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return value;
  return reject(fmt::format("'{}' is no {}", text, kind));
}

Result<std::vector<int64_t>> parse_integers(std::string_view text) {
  FUSEC_ASSIGN(const std::vector<std::string_view> items, split_list(text));
  std::vector<int64_t> values;
  for (const std::string_view item : items) {
    FUSEC_ASSIGN(const int64_t value, parse_number<int64_t>(item, "integer"));
    values.push_back(value);
  }
  return values;
}

// A word, or a text in quotes.
std::string parse_text(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string out;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

Result<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return reject(fmt::format("'{}' is not one of true, false, 1, 0", text));
}

template <class V, class T>
Result<V> wrap(Result<T> value) {
  if (!value.ok()) return value.status();
  return V(std::move(*value));
}

}  // namespace

Result<Shape> parse_extents(std::string_view text) {
  FUSEC_ASSIGN(const std::vector<std::string_view> items, split_list(text));
  Shape shape;
  for (const std::string_view item : items) {
    FUSEC_ASSIGN(Dim extent, Dim::parse(item));
    shape.push_back(std::move(extent));
  }
  return shape;
}

std::vector<AttributeSpec> parse_specs(std::string_view text) {
  std::vector<AttributeSpec> specs;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const bool required = item.back() != '?';
    if (!required) item.remove_suffix(1);
    const std::size_t colon = item.find(':');
    specs.push_back({item.substr(0, colon), item.substr(colon + 1), required});
  }
  return specs;
}

Result<Attributes::Value> Attributes::parse_value(std::string_view text, std::string_view kind) {
  if (kind == "integer") return wrap<Value>(parse_number<int64_t>(text, "integer"));
  if (kind == "number") return wrap<Value>(parse_number<double>(text, "number"));
  if (kind == "flag") return wrap<Value>(parse_flag(text));
  if (kind == "extent") return wrap<Value>(Dim::parse(text));
  if (kind == "integers") return wrap<Value>(parse_integers(text));
  if (kind == "extents") return wrap<Value>(parse_extents(text));
  if (kind == "name") return Value(std::string(text));
  if (kind == "text") return Value(parse_text(text));
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype) return reject(fmt::format("'{}' is no dtype such as f32, i64 or bool", text));
  return Value(*dtype);
}

Result<Attributes> Attributes::parse(std::string_view text, std::string_view specs_text, std::string_view op) {
  const std::vector<AttributeSpec> specs = parse_specs(specs_text);
  Attributes out;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || std::any_of(name.begin(), name.end(), is_space)) {
      return reject(fmt::format("{}: '{}' is not name=value", op, text.substr(0, text.find(' '))));
    }
    text.remove_prefix(equals + 1);
    const std::size_t end = find_outside(text, is_space);
    if (end == std::string_view::npos) return reject(fmt::format("{}: the brackets of '{}' do not match", op, name));
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const AttributeSpec& known) { return known.name == name; });
    if (spec == specs.end()) {
      return reject(
          fmt::format("{} has no attribute '{}'; it has {}", op, name, specs_text.empty() ? "none" : specs_text));
    }
    if (out.find(name) != nullptr) return reject(fmt::format("{}: attribute '{}' is given twice", op, name));
    Result<Value> value = parse_value(text.substr(0, end), spec->kind);
    if (!value.ok()) {
      return reject(fmt::format("{}: attribute '{}' takes {} ({}): {}", op, name, spec->kind, text.substr(0, end),
                                value.status().message()));
    }
    out.entries_.push_back({spec->name, std::move(*value)});
    text.remove_prefix(end);
  }
  for (const AttributeSpec& spec : specs) {
    if (spec.required && out.find(spec.name) == nullptr) {
      return reject(fmt::format("{} needs the attribute '{}', of kind {}", op, spec.name, spec.kind));
    }
  }
  return out;
}

const Attributes::Value* Attributes::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &found->value;
}

}  // namespace fusec::c
