// SPDX-License-Identifier: Apache-2.0
// Expressions of CUDA C++ as text: lines, scalar ops, index expressions and combiners on tuples of raw values.
//
// Registers hold raw values: f16 and bf16 as their bits in u16, bool as bool, all others as themselves. Arithmetic uses
// the compute form: float for f16 and bf16, else the raw form. In memory, bool is u8, 0 or 1. Indices are int where the
// kernel's facts say that 32 bits suffice, else i64; common subexpressions are left to the compiler. Combiners have the
// operations and the order of ir/eval/combine.h.
//
// The prelude holds the functions in front of the text. Only the parts that the text uses are added, so that it never
// includes anything. Parts are named after the functions that they define. Parts written in PTX are omitted where
// FUSEC_SHIM is defined: whoever runs the text on a CPU supplies replacements.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

// Lines, indented by the number of open braces.
class Text {
 public:
  void line(const std::string& s);
  void open(const std::string& head);  // "head {", or "{"
  void close();
  void comment(const std::string& s);  // takes any text; nothing in it can end the comment
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  int depth_ = 1;
};

// `s` as an operand of any operator: in parentheses unless it is one name, number, call or subscript.
std::string operand(const std::string& s);
std::string joined(const std::vector<std::string>& parts, const std::string& between);

class Prelude {
 public:
  // `index_type`: the type of the loop counter in LANES.
  Prelude(const Target& target, std::string index_type) : sm_(target.sm), index_type_(std::move(index_type)) {}

  // Adds a part of the table and the parts that it needs; returns its name.
  std::string use(const std::string& name);
  // For a part written for this kernel: whether it has been added already.
  bool has(const std::string& name) const { return present_.contains(name); }
  void define(const std::string& name, const std::string& text);
  void define_ptx(const std::string& name, const std::string& text);  // left out where PTX is
  std::string str() const;

 private:
  int sm_;
  std::string index_type_;
  std::set<std::string> present_;
  std::string ptx_, text_;
};

// Thrown where a kernel cannot be expressed. While it propagates, the innermost statement's text is added to it, once.
class UnsupportedKernel : public std::runtime_error {
 public:
  explicit UnsupportedKernel(const std::string& why, bool is_named = false)
      : std::runtime_error(why), is_named(is_named) {}
  bool is_named;
};

std::string register_type(DType dtype);                     // "u16" for halves
std::string memory_type(DType dtype);                       // "u8" for bool
std::string literal(const ir::Constant& constant);          // raw
std::string compute_literal(const ir::Constant& constant);  // compute form

std::string widen(Prelude& prelude, DType dtype, const std::string& raw);
std::string narrow(Prelude& prelude, DType dtype, const std::string& compute);  // rounded to nearest even
// The cast of ir/ops: one rounding; floats to integers truncate and saturate, NaN gives 0. From compute form to raw.
std::string convert(Prelude& prelude, DType from, DType to, const std::string& compute);

// An op other than cast on the compute forms of operands of `type` (for where: the type of the choices). Returns the
// compute form of the result. Definitions become functions of the prelude.
std::string scalar_op(Prelude& prelude, ir::ScalarOp op, DType type, const std::vector<std::string>& args);
// Takes compute forms, returns a raw result.
std::string raw_op(Prelude& prelude, ir::ScalarOp op, DType type, const std::vector<std::string>& args, DType result);
// max(x, +0), abs or neg of a half, on its bits (ir::on_half_bits).
std::string op_on_bits(Prelude& prelude, ir::ScalarOp op, DType type, const std::string& raw);

using ir::IndexExpr;

// base + step * lane; step nullopt: not affine with a constant step. `varies` false: step is 0.
struct LaneForm {
  IndexExpr base;
  std::optional<int64_t> step = 0;
  bool varies() const { return step != 0; }
};

class Index {
 public:
  Index(const ir::Kernel& kernel, Prelude& prelude);

  const std::string& type() const { return type_; }
  // The symbol is written as `text` and has the inclusive range; an empty range means that nothing is known.
  void bind(ir::SymbolId symbol, const std::string& text, ir::IndexRange range);
  // The symbol stands for a resolved expression.
  void alias(ir::SymbolId symbol, const IndexExpr& value) { aliases_[symbol] = value; }
  void unbind(ir::SymbolId symbol);

  // Substitutes aliases and simplifies what the ranges decide.
  IndexExpr resolve(const IndexExpr& d) const;
  bool proves_nonneg(const IndexExpr& d) const { return ir::proves_nonneg(d, ranges_); }
  // `d` must be resolved.
  std::string text(const IndexExpr& d);
  // For a number that is not a memory offset: evaluated so that it is right in 64 bits, whatever the facts say.
  std::string wide_text(const IndexExpr& d);
  LaneForm lane_form(const IndexExpr& d) const;
  // Whether a register occurs in it.
  bool uses_data(const IndexExpr& d) const;
  // The greatest known divisor, using the facts about extents; 0 for 0.
  int64_t divisor(const IndexExpr& d) const;

 private:
  std::string term_text(const IndexExpr::Term& term, int64_t coefficient);
  std::string atom_text(const IndexExpr::Atom& atom);
  std::string division(const IndexExpr::Atom& atom);
  std::string symbol_text(ir::SymbolId symbol) const;
  const ir::RegInfo* register_info(ir::SymbolId symbol) const;
  bool uses_lane(const IndexExpr& d) const;

  const ir::Kernel& kernel_;
  Prelude& prelude_;
  std::string type_;
  bool wide_ = false;
  std::map<ir::SymbolId, std::string> texts_;
  std::map<ir::SymbolId, IndexExpr> aliases_;
  ir::IndexRanges ranges_;
};

// While it lives, `lane` has the range 0 .. width-1, or is 0 for width 1.
class LaneScope {
 public:
  LaneScope(Index& index, int width);
  ~LaneScope() { index_.unbind(ir::kLane); }
  LaneScope(const LaneScope&) = delete;

 private:
  Index& index_;
};

}  // namespace fusec::codegen::cuda
