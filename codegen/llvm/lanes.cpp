// SPDX-License-Identifier: Apache-2.0
// Splits index expressions into a base and a constant step per lane, binds `lane` for constant or runtime lanes, and
// writes index values. Used by both LLVM emitters.

#include <algorithm>
#include <set>

#include "codegen/llvm/access.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

bool is_vector_register(const Writer& w, ir::SymbolId symbol) {
  const auto reg = symbol.reg();
  return reg && w.kernel.regs.contains(*reg) && w.kernel.regs[*reg].width > 1;
}

bool uses_lane(const Writer& w, const IndexExpr::Atom& atom) {
  const auto varies = [&](ir::SymbolId symbol) { return symbol == ir::kLane || is_vector_register(w, symbol); };
  if (atom.fn == IndexExpr::Fn::symbol) return varies(atom.symbol);
  std::set<ir::SymbolId> symbols;
  for (const IndexExpr& arg : atom.args) arg.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), varies);
}

}  // namespace

LaneScope::LaneScope(Writer& w, int width) : w_(w) {
  if (width == 1) {
    w.index.bind(ir::kLane, 0);
  } else {
    w.index.bound(ir::kLane, 0, width - 1);
  }
}
LaneScope::~LaneScope() { w_.index.unbind(ir::kLane); }

LaneForm lane_form(const Writer& w, const IndexExpr& resolved) {
  LaneForm out;
  if (resolved.is_const()) return {resolved};
  std::vector<IndexExpr::Term> rest;
  for (IndexExpr::Term& term : resolved.terms()) {
    int varying = 0;
    for (const IndexExpr::Atom& atom : term.atoms) varying += uses_lane(w, atom);
    if (varying == 0) {
      rest.push_back(std::move(term));
    } else if (term.atoms.size() == 1 && term.atoms[0].fn == IndexExpr::Fn::symbol &&
               term.atoms[0].symbol == ir::kLane) {
      out.step = term.coefficient;
    } else {
      out.step = std::nullopt;
      return out;
    }
  }
  out.base = IndexExpr::from_terms(std::move(rest));
  return out;
}

Value* with_lane(Writer& w, int64_t at, const std::function<Value*()>& make) {
  Value* outer = w.lane;
  w.index.bind(ir::kLane, at);
  w.lane = w.ir.b.getInt64(static_cast<uint64_t>(at));
  Value* out = make();
  w.index.unbind(ir::kLane);
  w.lane = outer;
  return out;
}

Value* with_lane(Writer& w, Value* at, const std::function<Value*()>& make) {
  Value* outer = w.lane;
  w.lane = at;
  Value* out = make();
  w.lane = outer;
  return out;
}

void each_lane(Writer& w, int width, const std::function<void(int)>& f) {
  for (int k = 0; k < width; ++k) {
    with_lane(w, k, [&] {
      f(k);
      return nullptr;
    });
  }
  w.index.bound(ir::kLane, 0, width - 1);
}

int64_t known_divisor(const Writer& w, const IndexExpr& d) { return find_divisor(d, w.kernel); }

void write_index_value(Writer& w, const ir::IndexValue& stmt) {
  auto& b = w.ir.b;
  const ir::RegInfo& info = w.kernel.regs[stmt.dst];
  const LaneScope scope(w, info.width);
  const IndexExpr value = w.index.resolve(stmt.value);
  const LaneForm form = lane_form(w, value);
  Value* out = nullptr;
  if (form.step) {
    Value* base = w.index.wide(form.base);
    if (is_int(info.dtype)) base = convert(w.ir, DType::i64, info.dtype, base);
    out = form.varies() ? ramp(w.ir, base, *form.step, info.width) : base;
  } else {
    out = llvm::PoisonValue::get(with_width(b.getInt64Ty(), info.width));
    each_lane(w, info.width, [&](int k) {
      out = b.CreateInsertElement(out, w.index.wide(w.index.resolve(value)), static_cast<uint64_t>(k));
    });
    if (is_int(info.dtype)) out = convert(w.ir, DType::i64, info.dtype, out);
  }
  define(w, stmt.dst, is_int(info.dtype) ? out : convert(w.ir, DType::i64, info.dtype, out));
}

}  // namespace fusec::codegen
