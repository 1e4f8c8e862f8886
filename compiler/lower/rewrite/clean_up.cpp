// SPDX-License-Identifier: Apache-2.0
// Lower: shares equal values, hoists loop invariants and removes dead code in scheduled kernels. It merges or moves
// only pure statements: arithmetic, index values and unclamped loads of inputs.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/value_range.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {

using ir::Kernel;

namespace {

bool is_pure(const Kernel& kernel, const Stmt& stmt) {
  if (const auto* load = std::get_if<ir::Load>(&stmt.v))
    return kernel.buffers[load->buffer].space == ir::Space::in && load->clamp == 0;
  return std::holds_alternative<ir::Let>(stmt.v) || std::holds_alternative<ir::IndexValue>(stmt.v);
}

std::string operand_key(const Operand& o) {
  if (const auto* r = std::get_if<RegId>(&o)) return ir::reg_name(*r);
  const auto& c = std::get<ir::Constant>(o);
  uint64_t bits = 0;
  std::memcpy(&bits, &c.f, sizeof bits);
  return std::string(to_string(c.dtype)) + ":" + std::to_string(bits) + ":" + std::to_string(c.i);
}

// Statements with equal keys compute equal values, where both are defined.
std::string value_key(const Kernel& kernel, const Stmt& stmt) {
  const RegId dst = defined(stmt)[0];
  std::string key = std::string(to_string(kernel.regs[dst].dtype)) + "." + std::to_string(kernel.regs[dst].width);
  if (const auto* s = std::get_if<ir::Let>(&stmt.v)) {
    key += " " + std::string(info(s->op).name);
    for (const Operand& o : s->args) key += " " + operand_key(o);
  } else if (const auto* s = std::get_if<ir::IndexValue>(&stmt.v)) {
    key += " index " + s->value.str();
  } else if (const auto* s = std::get_if<ir::Load>(&stmt.v)) {
    key += " load " + std::to_string(s->buffer.index);
    for (const IndexExpr& d : s->index) key += " " + d.str();
    for (const IndexExpr& d : s->guard) key += " g " + d.str();
    key += " " + operand_key(s->otherwise);
  }
  return key;
}

// Redirects uses of registers, in operands and in index expressions.
class Renamer {
 public:
  void add(RegId from, RegId to) {
    regs_[from] = to;
    symbols_[from] = IndexExpr::symbol(to);
  }
  bool empty() const { return regs_.empty(); }
  void apply(Stmt& stmt) const {
    for_each_operand(stmt, [&](Operand& o) {
      if (auto* r = std::get_if<RegId>(&o))
        if (auto it = regs_.find(*r); it != regs_.end()) *r = it->second;
    });
    for_each_index(stmt, [&](IndexExpr& d) { d = d.substitute(symbols_); });
  }

 private:
  std::map<RegId, RegId> regs_;
  std::map<ir::SymbolId, IndexExpr> symbols_;
};

// Whether every value of `narrow` is a value of `wide`.
bool holds_all(DType wide, DType narrow) {
  return is_float(narrow) && is_float(wide) && size_of(narrow) < size_of(wide);
}

// cast_t(cast_w(x: t)) = x where w holds every t.
std::optional<RegId> cast_back(const Kernel& kernel, const Stmt& stmt, const std::map<RegId, RegId>& widened) {
  const auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr || let->op != ir::ScalarOp::cast) return std::nullopt;
  const auto* from = std::get_if<RegId>(&let->args[0]);
  const auto it = from == nullptr ? widened.end() : widened.find(*from);
  if (it == widened.end() || kernel.regs[it->second] != kernel.regs[let->dst]) return std::nullopt;
  return it->second;
}

void note_widening(const Kernel& kernel, const Stmt& stmt, std::map<RegId, RegId>& widened) {
  const auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr || let->op != ir::ScalarOp::cast) return;
  const auto* from = std::get_if<RegId>(&let->args[0]);
  if (from != nullptr && holds_all(kernel.regs[let->dst].dtype, kernel.regs[*from].dtype)) widened[let->dst] = *from;
}

// Notes an op on a widened f16 or bf16 that can be done on the bits of the narrow value: max(x, 0), abs, neg. Keeps the
// op as applied to the narrow value.
void note_bitwise(const Kernel& kernel, const Stmt& stmt, const std::map<RegId, RegId>& widened,
                  std::map<RegId, ir::Let>& bitwise) {
  const auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr) return;
  const auto* from = let->args.empty() ? nullptr : std::get_if<RegId>(&let->args[0]);
  const auto it = from == nullptr ? widened.end() : widened.find(*from);
  if (it == widened.end() || !is_16_bit_float(kernel.regs[it->second].dtype) ||
      kernel.regs[let->dst].dtype != DType::f32)
    return;
  if (!ir::on_half_bits(*let)) return;
  ir::Let narrow = *let;
  narrow.args[0] = it->second;
  if (narrow.args.size() > 1) narrow.args[1] = ir::float_constant(kernel.regs[it->second].dtype, 0);
  bitwise[let->dst] = narrow;
}

// cast_t(op(cast_w(x: t))) = op(x) in t for such an op.
void keep_narrow(const Kernel& kernel, Stmt& stmt, const std::map<RegId, ir::Let>& bitwise) {
  auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr || let->op != ir::ScalarOp::cast) return;
  const auto* from = std::get_if<RegId>(&let->args[0]);
  const auto it = from == nullptr ? bitwise.end() : bitwise.find(*from);
  if (it == bitwise.end()) return;
  if (kernel.regs[std::get<RegId>(it->second.args[0])] != kernel.regs[let->dst]) return;
  let->op = it->second.op;
  let->args = it->second.args;
}

// Notes floats with a constant bound: max(x, c) or min(x, c).
void note_bound(const Kernel& kernel, const Stmt& stmt, std::map<RegId, ir::Let>& bounded) {
  const auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr || (let->op != ir::ScalarOp::max && let->op != ir::ScalarOp::min)) return;
  const auto* from = std::get_if<RegId>(&let->args[0]);
  if (from == nullptr || !std::holds_alternative<ir::Constant>(let->args[1])) return;
  if (is_float(kernel.regs[*from].dtype) && kernel.regs[*from] == kernel.regs[let->dst]) bounded[let->dst] = *let;
}

// Whether the bound changes no value of the type.
bool is_beyond(const ir::Let& bound, DType type) {
  const double c = std::get<ir::Constant>(bound.args[1]).f;
  const int bits = static_cast<int>(8 * size_of(type));
  const double low = is_signed_int(type) ? -std::ldexp(1, bits - 1) : 0;
  return bound.op == ir::ScalarOp::max ? c <= low : c >= low + std::ldexp(1, bits) - 1;
}

// cast_t(min(x, c)) = cast_t(x) where c is not below the largest t, and likewise for max: casts of floats saturate, and
// NaN gives 0 either way.
void drop_bounds(const Kernel& kernel, Stmt& stmt, const std::map<RegId, ir::Let>& bounded) {
  auto* let = std::get_if<ir::Let>(&stmt.v);
  if (let == nullptr || let->op != ir::ScalarOp::cast) return;
  const DType to = kernel.regs[let->dst].dtype;
  if (!is_int(to) || size_of(to) > 2) return;
  for (auto* from = std::get_if<RegId>(&let->args[0]); from != nullptr; from = std::get_if<RegId>(&let->args[0])) {
    const auto it = bounded.find(*from);
    if (it == bounded.end() || !is_beyond(it->second, to)) return;
    let->args[0] = it->second.args[0];
  }
}

void share_in(Kernel& kernel, Block& block, std::map<std::string, RegId> known, Renamer& renamer) {
  std::map<RegId, RegId> widened;
  std::map<RegId, ir::Let> bitwise, bounded;
  Block result;
  for (Stmt& stmt : block) {
    if (!renamer.empty()) renamer.apply(stmt);
    if (is_pure(kernel, stmt)) {
      const RegId dst = defined(stmt)[0];
      keep_narrow(kernel, stmt, bitwise);
      if (const auto same = cast_back(kernel, stmt, widened)) {
        renamer.add(dst, *same);
        continue;
      }
      drop_bounds(kernel, stmt, bounded);
      note_bound(kernel, stmt, bounded);
      note_widening(kernel, stmt, widened);
      note_bitwise(kernel, stmt, widened, bitwise);
      auto [it, fresh] = known.emplace(value_key(kernel, stmt), dst);
      if (!fresh) {
        renamer.add(dst, it->second);
        continue;
      }
    }
    for (Block* inner : nested_blocks(stmt)) share_in(kernel, *inner, known, renamer);
    if (!renamer.empty()) renamer.apply(stmt);  // yields read registers of the body
    result.push_back(std::move(stmt));
  }
  block = std::move(result);
}

}  // namespace

void eliminate_common_subexpressions(Kernel& kernel) {
  Renamer renamer;
  share_in(kernel, kernel.body, {}, renamer);
}

namespace {

class Hoister {
 public:
  explicit Hoister(Kernel& kernel) : kernel_(kernel) {}

  void run(Block& block, bool is_grid_level) {
    for (size_t i = 0; i < block.size(); ++i) {
      const LoopView loop = view_loop(block[i]);
      for (const LoopHead& head : loop.heads) extents_[head.var] = head.extent;
      for (Block* inner : nested_blocks(block[i])) run(*inner, is_grid(block[i]));
      for (const LoopHead& head : loop.heads) extents_.erase(head.var);
      if (is_grid(block[i]) && is_grid_level) continue;
      std::vector<Stmt> moved = take_invariant(block[i]);
      if (is_grid(block[i])) continue;
      const size_t count = moved.size();
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(i), std::make_move_iterator(moved.begin()),
                   std::make_move_iterator(moved.end()));
      i += count;
    }
  }

 private:
  static bool is_grid(const Stmt& stmt) {
    const auto* loop = std::get_if<ir::Loop>(&stmt.v);
    return loop != nullptr && loop->head.tag == ir::LoopTag::grid;
  }

  struct LoopView {
    Block* body = nullptr;
    std::vector<LoopHead> heads;
  };

  static LoopView view_loop(Stmt& stmt) {
    if (auto* s = std::get_if<ir::Loop>(&stmt.v)) return {&s->body, {s->head}};
    if (auto* s = std::get_if<ir::Reduce>(&stmt.v)) return {&s->body, s->loops};
    return {};
  }

  // Takes the statements out of the loop's body that do not depend on the loop. If the loop may run zero times, it
  // takes only statements that are safe to run in any case.
  std::vector<Stmt> take_invariant(Stmt& stmt) {
    std::vector<Stmt> moved;
    if (is_grid(stmt)) return moved;
    LoopView loop = view_loop(stmt);
    if (loop.body == nullptr) return moved;
    const bool runs = std::all_of(loop.heads.begin(), loop.heads.end(),
                                  [](const LoopHead& h) { return h.extent.is_const() && h.extent.value() > 0; });
    std::set<ir::SymbolId> inside;
    for (const LoopHead& head : loop.heads) inside.insert(head.var);
    std::set<RegId> made;
    Block kept;
    for (Stmt& inner : *loop.body) {
      if (is_pure(kernel_, inner) && (runs || safe(inner)) && !depends(inner, inside, made)) {
        moved.push_back(std::move(inner));
        continue;
      }
      for_each_stmt_in(inner, [&](const Stmt& s) {
        for (RegId r : defined(s)) {
          made.insert(r);
          inside.insert(r);
        }
      });
      kept.push_back(std::move(inner));
    }
    *loop.body = std::move(kept);
    return moved;
  }

  template <class F>
  static void for_each_stmt_in(const Stmt& stmt, F f) {
    f(stmt);
    for (const Block* b : nested_blocks(stmt)) for_each_stmt(*b, f);
  }

  // Whether every divisor is positive: a constant, or the extent of an enclosing loop.
  bool divides_safely(const IndexExpr& d) const {
    for (const IndexExpr::Term& term : d.terms()) {
      for (const IndexExpr::Atom& atom : term.atoms) {
        const bool divides = atom.fn == IndexExpr::Fn::floordiv || atom.fn == IndexExpr::Fn::mod;
        if (divides && !is_positive(atom.args[1])) return false;
        for (const IndexExpr& arg : atom.args) {
          if (!divides_safely(arg)) return false;
        }
      }
    }
    return true;
  }
  bool is_positive(const IndexExpr& d) const {
    if (d.is_const()) return d.value() > 0;
    return std::any_of(extents_.begin(), extents_.end(), [&](const auto& loop) { return loop.second == d; });
  }

  // Whether the statement may run where its loop does not. A load must read an element that the buffer has: a fixed
  // one, or one for each iteration of an enclosing loop.
  bool safe(const Stmt& stmt) const {
    if (const auto* index = std::get_if<ir::IndexValue>(&stmt.v)) return divides_safely(index->value);
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr) return true;
    if (load->index.size() != 1) return false;
    const IndexExpr& size = kernel_.buffers[load->buffer].shape[0];
    const IndexExpr& index = load->index[0];
    if (index.is_const()) return size.is_const() && index.value() < size.value();
    const auto var = index.as_symbol();
    const auto around = var ? extents_.find(*var) : extents_.end();
    return around != extents_.end() && around->second == size;
  }

  static bool depends(Stmt& stmt, const std::set<ir::SymbolId>& inside, const std::set<RegId>& made) {
    bool found = false;
    for_each_operand(stmt, [&](Operand& o) {
      if (const auto* r = std::get_if<RegId>(&o)) found = found || made.contains(*r);
    });
    for_each_index(stmt, [&](IndexExpr& d) {
      std::set<ir::SymbolId> symbols;
      d.collect_symbols(symbols);
      for (const ir::SymbolId s : symbols) found = found || inside.contains(s);
    });
    return found;
  }

  Kernel& kernel_;
  std::map<ir::SymbolId, IndexExpr> extents_;  // of the enclosing loops
};

}  // namespace

void hoist_loop_invariants(Kernel& kernel) { Hoister(kernel).run(kernel.body, true); }

namespace {

void mark_used(Block& block, std::set<RegId>& used, std::set<ir::SymbolId>& symbols) {
  for_each_stmt(block, [&](Stmt& stmt) {
    for_each_operand(stmt, [&](Operand& o) {
      if (const auto* r = std::get_if<RegId>(&o)) used.insert(*r);
    });
    for_each_index(stmt, [&](IndexExpr& d) { d.collect_symbols(symbols); });
  });
}

bool sweep(Kernel& kernel, Block& block, const std::set<RegId>& used, const std::set<ir::SymbolId>& symbols) {
  bool changed = false;
  for (Stmt& stmt : block)
    for (Block* inner : nested_blocks(stmt)) changed = sweep(kernel, *inner, used, symbols) || changed;
  const auto dead = [&](const Stmt& stmt) {
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) return loop->body.empty();
    if (!is_pure(kernel, stmt)) return false;
    const RegId dst = defined(stmt)[0];
    return !used.contains(dst) && !symbols.contains(dst);
  };
  const size_t before = block.size();
  block.erase(std::remove_if(block.begin(), block.end(), dead), block.end());
  return changed || block.size() != before;
}

}  // namespace

void eliminate_dead_code(Kernel& kernel) {
  for (bool again = true; again;) {
    std::set<RegId> used;
    std::set<ir::SymbolId> symbols;
    mark_used(kernel.body, used, symbols);
    again = sweep(kernel, kernel.body, used, symbols);
  }
}

// An index that min and max keep in range needs no clamp.
void drop_clamps(Kernel& kernel) {
  const auto ranges = ir::compute_value_ranges(kernel);
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    auto* load = std::get_if<ir::Load>(&stmt.v);
    for (size_t axis = 0; load != nullptr && axis < std::min<size_t>(32, load->index.size()); ++axis) {
      if ((load->clamp >> axis & 1) == 0) continue;
      const auto symbol = load->index[axis].as_symbol();
      const auto reg = symbol ? symbol->reg() : std::nullopt;
      const IndexExpr& extent = kernel.buffers[load->buffer].shape[axis];
      if (!reg || !extent.is_const() || !is_bounded(kernel, *reg, ranges[*reg])) continue;
      if (ranges[*reg].lo >= 0 && ranges[*reg].hi < extent.value()) load->clamp &= ~(uint32_t{1} << axis);
    }
  });
}

void clean_up(Kernel& kernel) {
  simplify_dims(kernel);
  for (int round = 0; round < 2; ++round) {
    eliminate_common_subexpressions(kernel);
    hoist_loop_invariants(kernel);
  }
  eliminate_dead_code(kernel);
  drop_clamps(kernel);
}

}  // namespace fusec::compiler
