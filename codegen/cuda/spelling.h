// SPDX-License-Identifier: Apache-2.0
// How CUDA C++ spells the primitives of the op tables: the words that the `cuda` columns of ir/ops/scalar_ops.def and
// ir/ops/kernel_ops.def are written in. Everything is constant, so that codegen/cuda/prelude.cpp can check while
// compiling that no row lacks a text and that the prelude has every function that a row names.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/ops/op.h"

namespace fusec::codegen::cuda {

// The text of an op on operands of one kind of dtype.
struct Form {
  enum class Kind : uint8_t {
    none,
    text,      // $a $b $c: the operands; $T: the dtype; $U: an unsigned type with enough bits; $o: `op`
    builtin,   // a function of CUDA; the one for float has the suffix f
    prelude,   // a function of the prelude: `text`_f32, `text`_f64, int_`text`
    formula,   // the one of ir/ops/gpu_formulas.def
    quotient,  // a/b, protected from what NVRTC assumes of it
  };
  Kind kind = Kind::none;
  std::string_view text, op;
};

struct Spelling {
  Form f32, f64, integer, boolean;
};

namespace spell {

constexpr Spelling all(Form form) { return {form, form, form, form}; }

// Any type.
constexpr Spelling text(std::string_view form) { return all({Form::Kind::text, form, ""}); }
constexpr Spelling infix(std::string_view op) { return all({Form::Kind::text, "$a $o $b", op}); }
constexpr Spelling prelude(std::string_view name) { return all({Form::Kind::prelude, name, ""}); }

// Floats.
constexpr Spelling floats(const Spelling& f32, const Spelling& f64) { return {f32.f32, f64.f64, {}, {}}; }
constexpr Spelling builtin(std::string_view name) {
  const Spelling call = all({Form::Kind::builtin, name, ""});
  return floats(call, call);
}
constexpr Spelling formula() {
  const Spelling steps = all({Form::Kind::formula, "", ""});
  return floats(steps, steps);
}
constexpr Spelling quotient() {
  const Spelling division = all({Form::Kind::quotient, "", ""});
  return floats(division, division);
}

// Integers. Results are converted back, because C++ computes narrow types as int.
constexpr Spelling bitwise(std::string_view op) { return all({Form::Kind::text, "($T)($a $o $b)", op}); }

// Floats and integers. The arithmetic of integers wraps.
constexpr Spelling each(const Spelling& floats, const Spelling& integers) {
  return {floats.f32, floats.f64, integers.integer, {}};
}
constexpr Spelling arithmetic(std::string_view op) {
  return each(infix(op), all({Form::Kind::text, "($T)(($U)$a $o ($U)$b)", op}));
}

// Casts are written by `convert`.
constexpr Spelling conversion() { return {}; }

}  // namespace spell

// Whether the spelling has a form for every kind of operand that the typing allows, and `has_function(name)` holds for
// each function of the prelude that it names. It is asked for f32, f64 and integers.
template <class HasFunction>
constexpr bool is_complete(const Spelling& spelling, ir::Typing typing, const HasFunction& has_function) {
  using ir::Typing;
  const auto good = [&](const Form& form, std::string_view before, std::string_view after) {
    if (form.kind == Form::Kind::prelude) return has_function(before, form.text, after);
    return form.kind != Form::Kind::none;
  };
  const bool everything = typing == Typing::equal || typing == Typing::select;
  const bool numbers = everything || typing == Typing::num || typing == Typing::signed_ || typing == Typing::compare;
  const bool floats = numbers || typing == Typing::float_ || typing == Typing::classify;
  const bool integers = numbers || typing == Typing::int_ || typing == Typing::from_bits;
  const bool f32 = floats || typing == Typing::f32_ || typing == Typing::to_bits;
  const bool booleans = everything || typing == Typing::bool_;
  return (!f32 || good(spelling.f32, "", "_f32")) && (!floats || good(spelling.f64, "", "_f64")) &&
         (!integers || good(spelling.integer, "int_", "")) && (!booleans || good(spelling.boolean, "", ""));
}

}  // namespace fusec::codegen::cuda
