// SPDX-License-Identifier: Apache-2.0
// Derives the symbol values from the input shapes before a Plan is looked up or bound: first from axes that are a
// single symbol, then from axes of the form c*s + r with one unknown symbol. It then checks every axis against these
// values, so bind may assume that the input shapes fit the model.

#include <optional>

#include "runtime/plan/bind.h"

namespace fusec::runtime {
namespace {

std::string text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::string input_label(const ir::Program& program, std::size_t i) {
  return "input '" + (i < program.input_names.size() ? program.input_names[i] : std::to_string(i)) + "'";
}

Status mismatch(const ir::Program& program, std::size_t input, std::size_t axis, const std::string& expected,
                int64_t given) {
  return Status(StatusCode::invalid_argument,
                input_label(program, input) + " of type " + to_string(program.input_types[input]) + ": axis " +
                    std::to_string(axis) + " must be " + expected + ", given is " + std::to_string(given));
}

Status check_ranks(const ir::Program& program, std::span<const std::vector<int64_t>> shapes) {
  if (shapes.size() != program.input_types.size()) {
    return Status(StatusCode::invalid_argument, "the model has " + std::to_string(program.input_types.size()) +
                                                    " inputs, given are " + std::to_string(shapes.size()));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() != program.input_types[i].shape.size()) {
      return Status(StatusCode::invalid_argument, input_label(program, i) + " must have the shape " +
                                                      to_string(program.input_types[i].shape) + ", given is " +
                                                      text(shapes[i]));
    }
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      if (shapes[i][axis] < 0) return mismatch(program, i, axis, "at least 0", shapes[i][axis]);
    }
  }
  return {};
}

// The value of the only unbound symbol of `dim` that makes it `given`, for c*s + r with constant c and r.
std::optional<std::pair<std::string, int64_t>> solve(const Dim& dim, int64_t given, const Bindings& bindings) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const auto& [name, value] : bindings) symbols.erase(name);
  if (symbols.size() != 1) return std::nullopt;
  const std::string symbol = *symbols.begin();
  Bindings trial = bindings;
  const auto at = [&](int64_t value) {
    trial[symbol] = value;
    return dim.eval(trial);
  };
  const std::optional<int64_t> zero = at(0), one = at(1);
  int64_t slope = 0, rise = 0;
  if (!zero || !one || __builtin_sub_overflow(*one, *zero, &slope) || __builtin_sub_overflow(given, *zero, &rise)) {
    return std::nullopt;
  }
  if (slope == 0 || slope == -1 || rise % slope != 0 || rise / slope < 0) return std::nullopt;
  const int64_t value = rise / slope;
  return at(value) == given ? std::make_optional(std::pair(symbol, value)) : std::nullopt;
}

// Makes one pass over all axes and binds plain symbols and, if `expressions`, expressions with one unknown symbol.
// Returns false if it bound nothing new.
bool bind_more(const ir::Program& program, std::span<const std::vector<int64_t>> shapes, bool expressions,
               Bindings& out) {
  bool progress = false;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim& dim = program.input_types[i].shape[axis];
      if (const std::optional<std::string> symbol = dim.as_symbol()) {
        progress |= out.try_emplace(*symbol, shapes[i][axis]).second;
      } else if (expressions && !dim.is_const()) {
        if (auto solved = solve(dim, shapes[i][axis], out)) progress |= out.insert(*solved).second;
      }
    }
  }
  return progress;
}

// The first axis that is the symbol tells which input is too large.
Status check_limits(const ir::Program& program, const Bindings& bindings) {
  for (const auto& [symbol, most] : program.limits) {
    const auto bound = bindings.find(symbol);
    if (bound == bindings.end() || bound->second <= most) continue;
    for (std::size_t i = 0; i < program.input_types.size(); ++i) {
      const Shape& shape = program.input_types[i].shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis].as_symbol() == symbol)
          return mismatch(program, i, axis, "at most " + std::to_string(most), bound->second);
    }
    return Status(StatusCode::invalid_argument, "the symbol '" + symbol + "' must be at most " + std::to_string(most) +
                                                    ", the inputs make it " + std::to_string(bound->second));
  }
  return {};
}

std::string describe(const Dim& dim, const Bindings& bindings, int64_t value) {
  if (dim.is_const()) return std::to_string(value);
  std::string out = dim.str() + " = " + std::to_string(value);
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  if (dim.as_symbol()) return out + " (as in an earlier axis)";
  const char* separator = " with ";
  for (const std::string& symbol : symbols) {
    out += separator + symbol + " = " + std::to_string(bindings.at(symbol));
    separator = ", ";
  }
  return out;
}

}  // namespace

Result<Bindings> bind_symbols(const ir::Program& program, std::span<const std::vector<int64_t>> shapes) {
  FUSEC_TRY(check_ranks(program, shapes));
  Bindings bindings;
  bind_more(program, shapes, false, bindings);
  while (bind_more(program, shapes, true, bindings)) {
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim& dim = program.input_types[i].shape[axis];
      const std::optional<int64_t> value = dim.eval(bindings);
      if (!value) return mismatch(program, i, axis, dim.str() + " for some value of its symbols", shapes[i][axis]);
      if (*value != shapes[i][axis])
        return mismatch(program, i, axis, describe(dim, bindings, *value), shapes[i][axis]);
    }
  }
  for (const std::string& symbol : program.symbols) {
    if (!bindings.count(symbol)) {
      return Status(StatusCode::invalid_argument, "no input shape gives the symbol '" + symbol + "' a value");
    }
  }
  FUSEC_TRY(check_limits(program, bindings));
  return bindings;
}

}  // namespace fusec::runtime
