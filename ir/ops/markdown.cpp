// SPDX-License-Identifier: Apache-2.0
// Writes docs/ops.md from the op tables.

#include <fmt/format.h>

#include "ir/ops/op.h"

namespace fusec::ir {
namespace {

const char* text(Typing typing) {
  switch (typing) {
    case Typing::float_:
      return "float → same";
    case Typing::num:
      return "number → same";
    case Typing::signed_:
      return "float or signed integer → same";
    case Typing::int_:
      return "integer → same";
    case Typing::bool_:
      return "bool → bool";
    case Typing::compare:
      return "numbers → bool";
    case Typing::equal:
      return "any → bool";
    case Typing::classify:
      return "float → bool";
    case Typing::select:
      return "bool, T, T → T";
    case Typing::cast:
      return "any → attribute `to`";
    case Typing::f32_:
      return "f32 → f32";
    case Typing::to_bits:
    case Typing::from_bits:
    case Typing::to_int:
      break;  // kernel ops are not on the page
  }
  return "";
}

const char* text(OpPattern kind) {
  switch (kind) {
    case OpPattern::source:
      return "source";
    case OpPattern::index_map:
      return "index map";
    case OpPattern::reduction:
      return "reduction";
    case OpPattern::anchor:
      return "anchor";
    case OpPattern::composite:
      return "composite";
    case OpPattern::opaque:
      return "opaque";
  }
  return "";
}

// Code in a table cell, with `|` escaped, because it would end the cell.
std::string cell(std::string_view code) {
  if (code.empty()) return "";
  std::string out = "`";
  for (char c : code) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out + "`";
}

void scalar_table(std::string& out, bool definitions) {
  out += definitions
             ? "| op | operands | types | definition | gradient | ulp | domain |\n|---|---|---|---|---|---|---|\n"
             : "| op | operands | types | gradient | ulp | domain |\n|---|---|---|---|---|---|\n";
  for (const ScalarOpInfo& row : all_scalar_ops()) {
    if (row.is_definition != definitions) continue;
    out += fmt::format("| `{}` | {} | {} |", row.name, row.arity, text(row.typing));
    if (definitions) out += fmt::format(" {} |", cell(row.definition));
    out += fmt::format(" {} | {} | {}…{} |\n", cell(row.gradient), row.ulp, row.domain_lo, row.domain_hi);
  }
}

void tensor_table(std::string& out) {
  out += "| op | operands | kind | attributes |\n|---|---|---|---|\n";
  for (const TensorOpInfo& row : all_tensor_ops()) {
    std::string operands = std::to_string(row.min_inputs);
    if (row.max_inputs < 0) operands += " or more";
    if (row.max_inputs > row.min_inputs) operands += fmt::format("–{}", row.max_inputs);
    out += fmt::format("| `{}` | {} | {} | {} |\n", row.name, operands, text(row.kind), cell(row.attributes));
  }
}

}  // namespace

std::string ops_markdown() {
  std::string out =
      "# Ops\n\nThis page is written from `ir/ops/scalar_ops.def` and `ir/ops/tensor_ops.def`.\n\n"
      "Gradients are over the operands `a`, `b`, `c`, the result `y` and its gradient `dy`, one expression per "
      "operand. "
      "`ulp` bounds the error of compiled f32 code against the formula in f64, over the domain.\n\n"
      "## Scalar primitives\n\n";
  scalar_table(out, false);
  out += "\n## Scalar ops defined by others\n\n";
  scalar_table(out, true);
  out += "\n## Tensor ops\n\n";
  tensor_table(out);
  return out;
}

}  // namespace fusec::ir
