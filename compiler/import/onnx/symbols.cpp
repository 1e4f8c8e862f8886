// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/import/onnx/dim_param.h"
#include "compiler/import/onnx/error.h"
#include "ir/graph/limits.h"

namespace fusec::importer {
namespace {

// Turns text into an identifier of the Dim language: [A-Za-z_][A-Za-z0-9_.]*, and not the name of a function.
std::string identifier(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 64)) {
    bool fits = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    out += fits && static_cast<unsigned char>(c) < 128 ? c : '_';
  }
  bool is_function = out == "floordiv" || out == "mod" || out == "min" || out == "max";
  bool starts_badly = out.empty() || !(std::isalpha(static_cast<unsigned char>(out[0])) || out[0] == '_');
  return is_function || starts_badly ? "_" + out : out;
}

}  // namespace

void Symbols::declare(const proto::TensorShapeProto& declared, const Tensor* contents) {
  if (declared.dim_size() > options_->limits.rank) return;  // shape() refuses it
  const bool fits = contents != nullptr && contents->shape().size() == static_cast<std::size_t>(declared.dim_size());
  for (int i = 0; i < declared.dim_size(); ++i) {
    const std::string& param = declared.dim(i).dim_param();
    if (param.empty() || parse_dim_param(param)) continue;
    plain_.insert(param);
    if (fits) of_constants_.emplace(param, contents->shape()[static_cast<std::size_t>(i)]);
  }
}

std::optional<int64_t> Symbols::fixed(const std::string& name) const {
  for (const auto* known : {&options_->symbols, &of_constants_})
    if (const auto value = known->find(name); value != known->end()) return value->second;
  return std::nullopt;
}

Dim Symbols::symbol(const std::string& wish) {
  if (static_cast<int64_t>(taken_.size()) >= options_->limits.symbols)
    fail_limit(fmt::format("there are more symbols than the limit symbols = {}", options_->limits.symbols));
  const std::string base = identifier(wish);
  std::string name = base;
  // The search for a free suffix continues where the last one for this name stopped, because very many names may be
  // alike.
  for (int& i = numbers_.emplace(base, 2).first->second; !taken_.insert(name).second; ++i)
    name = fmt::format("{}_{}", base, i);
  const auto equal = assumptions_->equals.find(name);
  Dim value = equal != assumptions_->equals.end() ? equal->second : Dim::symbol(name);
  for (const std::string& key : {name, wish}) {
    const std::optional<int64_t> extent = fixed(key);
    if (extent && *extent < 0) fail_option("the extent of '" + key + "' is negative");
    if (extent) value = *extent;
  }
  symbols_.emplace(name, value);
  symbols_.emplace(wish, value);
  return value;
}

// Each symbol in it must be known from elsewhere: of "batch-size" alone nobody can tell that it is a difference.
std::optional<Dim> Symbols::expression(const std::string& param) {
  if (assumptions_->names.count(param) > 0 || fixed(param)) return std::nullopt;
  const std::optional<Dim> parsed = parse_dim_param(param);
  if (!parsed) return std::nullopt;
  std::set<std::string> used;
  parsed->collect_symbols(used);
  std::map<std::string, Dim> values;
  for (const std::string& name : used) {
    if (plain_.count(name) == 0 && !fixed(name)) return std::nullopt;
    values.emplace(name, named(name));
  }
  Dim value = parsed->substitute(values);
  if (!value.is_const()) expressions_.emplace(param, value);
  return value;
}

Dim Symbols::named(const std::string& param) {
  if (const auto known = params_.find(param); known != params_.end()) return known->second;
  const std::optional<Dim> value = expression(param);
  return params_.emplace(param, value ? *value : symbol(param)).first->second;
}

std::optional<std::string> Symbols::find_expression(const Dim& extent) const {
  const auto is_extent = [&](const auto& known) { return known.second == extent; };
  const auto found = std::find_if(expressions_.begin(), expressions_.end(), is_extent);
  return found == expressions_.end() ? std::nullopt : std::optional(found->first);
}

Shape Symbols::shape(const std::string& input, const proto::TensorShapeProto& declared) {
  if (declared.dim_size() > options_->limits.rank) {
    fail_limit(
        fmt::format("it has {} axes, more than the limit rank = {}", declared.dim_size(), options_->limits.rank));
  }
  Shape shape;
  for (const auto& dim : declared.dim()) {
    check_name(dim.dim_param(), options_->limits);
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0) fail_invalid(fmt::format("it has a negative extent {}", dim.dim_value()));
      shape.push_back(dim.dim_value());
    } else if (!dim.dim_param().empty()) {
      shape.push_back(named(dim.dim_param()));
    } else {
      shape.push_back(symbol(fmt::format("{}_{}", input, shape.size())));
    }
  }
  return shape;
}

void Symbols::fail_unknown(const std::string& name) const {
  std::string known;
  for (const std::string& s : taken_) known += (known.empty() ? "" : ", ") + s;
  throw ImportError{Status(StatusCode::invalid_argument, fmt::format("the model has no symbol '{}'; it has: {}", name,
                                                                     known.empty() ? "none" : known))};
}

void Symbols::check_overrides() const {
  for (const auto& [name, extent] : options_->symbols)
    if (symbols_.count(name) == 0) fail_unknown(name);
}

void Symbols::add_ranges(ir::Limits& limits) const {
  for (const auto& [name, range] : options_->ranges) {
    const auto known = symbols_.find(name);
    if (known == symbols_.end()) fail_unknown(name);
    if (add_limit(known->second, range, limits)) continue;
    const auto own = limits.find(known->second);
    fail_option(fmt::format("the range of '{}' is {}, but the model needs it to be {}", name, ir::range_text(range),
                            own != limits.end() ? ir::range_text(own->second) : known->second.str()));
  }
}

}  // namespace fusec::importer
