// SPDX-License-Identifier: Apache-2.0
// Derives the symbol values from the input shapes before a Plan is looked up or bound: first from axes that are a
// single symbol, then from axes of the form c*s + r with one unknown symbol. It then checks every axis against these
// values, so bind may assume that the input shapes fit the model.

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "ir/graph/limits.h"
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

// Values of symbols, each with the axis that gave it.
struct Found {
  struct Axis {
    std::size_t input, axis;
  };
  Bindings values;
  std::map<std::string, Axis> givers;

  bool add(const std::string& symbol, int64_t value, Axis giver) {
    givers.try_emplace(symbol, giver);
    return values.try_emplace(symbol, value).second;
  }
};

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
bool bind_more(const ir::Program& program, std::span<const std::vector<int64_t>> shapes, bool expressions, Found& out) {
  bool progress = false;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim& dim = program.input_types[i].shape[axis];
      if (const std::optional<std::string> symbol = dim.as_symbol()) {
        progress |= out.add(*symbol, shapes[i][axis], {i, axis});
      } else if (expressions && !dim.is_const()) {
        if (auto solved = solve(dim, shapes[i][axis], out.values))
          progress |= out.add(solved->first, solved->second, {i, axis});
      }
    }
  }
  return progress;
}

std::string axis_label(const ir::Program& program, Found::Axis at) {
  return "axis " + std::to_string(at.axis) + " of " + input_label(program, at.input);
}

// "past = 8 (axis 2 of input 'key'), seq = 4 (axis 1 of input 'ids')"
std::string symbols_text(const ir::Program& program, const Dim& dim, const Found& found) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  std::string out;
  for (const std::string& symbol : symbols) {
    out += (out.empty() ? "" : ", ") + symbol + " = " + std::to_string(found.values.at(symbol)) + " (" +
           axis_label(program, found.givers.at(symbol)) + ")";
  }
  return out;
}

// The first axis that is the extent tells which input is out of range.
Status check_limits(const ir::Program& program, const Found& found) {
  for (const auto& [extent, range] : program.limits) {
    const std::optional<int64_t> value = extent.eval(found.values);
    if (!value || (range.least <= *value && *value <= range.most)) continue;
    for (std::size_t i = 0; i < program.input_types.size(); ++i) {
      const Shape& shape = program.input_types[i].shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] == extent) return mismatch(program, i, axis, ir::range_text(range), *value);
    }
    return Status(StatusCode::invalid_argument, (extent.as_symbol() ? "the symbol '" : "the extent '") + extent.str() +
                                                    "' must be " + ir::range_text(range) + ", the inputs make it " +
                                                    std::to_string(*value) + ": " +
                                                    symbols_text(program, extent, found));
  }
  return {};
}

std::string describe(const ir::Program& program, const Dim& dim, const Found& found, int64_t value) {
  if (dim.is_const()) return std::to_string(value);
  const std::string out = dim.str() + " = " + std::to_string(value);
  if (const auto symbol = dim.as_symbol()) return out + ", as " + axis_label(program, found.givers.at(*symbol));
  return out + " with " + symbols_text(program, dim, found);
}

}  // namespace

Result<Bindings> bind_symbols(const ir::Program& program, std::span<const std::vector<int64_t>> shapes) {
  FUSEC_TRY(check_ranks(program, shapes));
  Found found;
  bind_more(program, shapes, false, found);
  while (bind_more(program, shapes, true, found)) {
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Dim& dim = program.input_types[i].shape[axis];
      const std::optional<int64_t> value = dim.eval(found.values);
      if (!value) return mismatch(program, i, axis, dim.str() + " for some value of its symbols", shapes[i][axis]);
      if (*value != shapes[i][axis])
        return mismatch(program, i, axis, describe(program, dim, found, *value), shapes[i][axis]);
    }
  }
  for (const std::string& symbol : program.symbols) {
    if (!found.values.count(symbol)) {
      return Status(StatusCode::invalid_argument, "no input shape gives the symbol '" + symbol + "' a value");
    }
  }
  FUSEC_TRY(check_limits(program, found));
  return std::move(found.values);
}

}  // namespace fusec::runtime
