// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: finds the parts of a nest that is a matrix product.

#include "compiler/lower/cuda/product_parts.h"

#include <algorithm>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {
namespace {

class Finder {
 public:
  Finder(ir::Kernel& kernel, const PerfectNest& nest, ProductKind kind) : k_(kernel), nest_(nest), kind_(kind) {}

  std::optional<ProductParts> run() {
    if (nest_.heads.empty()) return std::nullopt;
    p_.n = nest_.heads.back();
    if (nest_.heads.size() > 1) p_.m = nest_.heads[nest_.heads.size() - 2];
    for (const Stmt& stmt : nest_.body) {
      const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
      if (reduce != nullptr && p_.sum != nullptr) return std::nullopt;
      if (reduce != nullptr) p_.sum = reduce;
      if (reduce == nullptr && !is_plain(stmt)) return std::nullopt;
      if (p_.sum == nullptr) p_.made.push_back(stmt);
      if (reduce != nullptr) append(p_.made, reduce->body);
    }
    if (p_.sum == nullptr || !is_product()) return std::nullopt;
    return std::move(p_);
  }

 private:
  bool is_plain(const Stmt& stmt) const {
    if (!ir::nested_blocks(stmt).empty() || std::holds_alternative<ir::Alloc>(stmt.v)) return false;
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    return load == nullptr ||
           ((load->clamp == 0 || kind_ != ProductKind::of_matrix) && k_.buffers[load->buffer].space == ir::Space::in);
  }

  const Stmt* definition(const Operand& operand) const {
    const auto* reg = std::get_if<RegId>(&operand);
    for (const Stmt& stmt : p_.made) {
      const std::vector<RegId> defined = ir::defined(stmt);
      if (reg != nullptr && std::find(defined.begin(), defined.end(), *reg) != defined.end()) return &stmt;
    }
    return nullptr;
  }
  const ir::Let* let_of(const Operand& operand) const {
    const Stmt* stmt = definition(operand);
    return stmt != nullptr ? std::get_if<ir::Let>(&stmt->v) : nullptr;
  }
  // The 16-bit value that the operand of the product converts.
  std::optional<RegId> factor(const Operand& operand) {
    const std::optional<DType> dtype = narrow_type(operand);
    if (!dtype) return std::nullopt;
    const ir::Let* let = let_of(operand);
    if (let->op == ir::ScalarOp::cast) return std::get<RegId>(let->args[0]);
    const RegId narrow = add_reg(k_, *dtype);
    p_.made.push_back({ir::Let{narrow, ir::ScalarOp::cast, {operand}}});
    return narrow;
  }
  // The 16-bit type that holds the operand: a conversion from it, or 0 in its place where a condition says so, as in
  // the padding of an image that was scaled.
  std::optional<DType> narrow_type(const Operand& operand) const {
    const ir::Let* let = let_of(operand);
    if (let == nullptr) return std::nullopt;
    if (let->op == ir::ScalarOp::cast) {
      const auto* from = std::get_if<RegId>(&let->args[0]);
      if (from == nullptr || !is_16_bit_float(k_.regs[*from].dtype)) return std::nullopt;
      return k_.regs[*from].dtype;
    }
    if (let->op != ir::ScalarOp::where) return std::nullopt;
    const auto* zero = std::get_if<ir::Constant>(&let->args[2]);
    return zero != nullptr && zero->f == 0 ? narrow_type(let->args[1]) : std::nullopt;
  }

  bool is_product() {
    if (p_.sum->combiner != ir::Combiner::add || p_.sum->loops.size() != 1 || p_.sum->yield.size() != 1 ||
        !p_.sum->guard.empty() || k_.regs[p_.sum->dst[0]] != ir::RegInfo{DType::f32, 1} ||
        !std::all_of(p_.sum->body.begin(), p_.sum->body.end(), [&](const Stmt& stmt) { return is_plain(stmt); }))
      return false;
    p_.term = p_.sum->loops[0];
    const ir::Let* mul = let_of(p_.sum->yield[0]);
    if (mul == nullptr || mul->op != ir::ScalarOp::mul) return false;
    const bool narrow = kind_ != ProductKind::wide && narrow_type(mul->args[0]) &&
                        narrow_type(mul->args[0]) == narrow_type(mul->args[1]);
    if (narrow) {
      const Operand x = mul->args[0], y = mul->args[1];  // factor adds to the statements
      p_.left = *factor(x), p_.right = *factor(y);
    } else if (!set_wide_factors(*mul)) {
      return false;
    }
    if (p_.uses(p_.left, p_.n.var)) std::swap(p_.left, p_.right);
    if (p_.uses(p_.left, p_.n.var)) return false;
    if (kind_ != ProductKind::of_matrix) return p_.uses(p_.right, p_.n.var);
    return !(p_.m && p_.uses(p_.right, p_.m->var)) && p_.reads_rows(k_, p_.right);
  }

  // Factors of f32 as they are.
  bool set_wide_factors(const ir::Let& mul) {
    const auto *x = std::get_if<RegId>(&mul.args[0]), *y = std::get_if<RegId>(&mul.args[1]);
    if (kind_ == ProductKind::of_matrix || x == nullptr || y == nullptr) return false;
    p_.left = *x, p_.right = *y;
    return true;
  }

  ir::Kernel& k_;
  const PerfectNest& nest_;
  const ProductKind kind_;
  ProductParts p_;
};

}  // namespace

ir::Block ProductParts::closure(RegId reg) const {
  std::set<RegId> needed = {reg};
  Block out;
  for (std::size_t i = made.size(); i-- > 0;) {
    const Stmt& stmt = made[i];
    const std::vector<RegId> defined = ir::defined(stmt);
    if (std::none_of(defined.begin(), defined.end(), [&](RegId r) { return needed.contains(r); })) continue;
    ir::for_each_operand(stmt, [&](const Operand& operand) {
      if (const auto* r = std::get_if<RegId>(&operand)) needed.insert(*r);
    });
    ir::for_each_index(stmt, [&](const IndexExpr& e) {
      std::set<ir::SymbolId> symbols;
      e.collect_symbols(symbols);
      for (const ir::SymbolId s : symbols)
        if (s.reg()) needed.insert(*s.reg());
    });
    out.insert(out.begin(), stmt);
  }
  return out;
}

bool ProductParts::uses(RegId reg, VarId var) const {
  const Block block = closure(reg);
  return std::any_of(block.begin(), block.end(), [&](const Stmt& stmt) { return mentions(stmt, var); });
}

bool ProductParts::reads_rows(const ir::Kernel& kernel, RegId reg) const {
  const Block block = closure(reg);
  const auto* load = block.size() == 1 ? std::get_if<ir::Load>(&block[0].v) : nullptr;
  if (load == nullptr || load->index.size() != 1 || !load->guard.empty()) return false;
  const auto affine = affine_in(load->index[0], {term.var});
  return affine && affine->coefficient(term.var).is(1) && divisible_by(kernel, affine->rest, 2);
}

bool reads_runs(ir::Kernel& kernel, const ProductParts& parts, std::vector<LoopHead> heads, const Block& work,
                int64_t lanes, RunKind kind) {
  if (!divisible_by(kernel, parts.term.extent, lanes)) return false;
  // Two terms show at which distance single ones lie.
  const int64_t run = std::max<int64_t>(lanes, 2);
  const VarId first = add_var(kernel), place = add_var(kernel);
  Block split = work;
  substitute(split, parts.term.var, IndexExpr::symbol(first) * run + IndexExpr::symbol(place));
  heads.push_back({LoopTag::seq, first, ceildiv(parts.term.extent, run)});
  heads.push_back({LoopTag::seq, place, run});
  const ir::IndexRanges ranges = ir::compute_ranges(heads);
  const auto step = [&](const IndexExpr& e) -> std::optional<IndexExpr> {
    const auto affine = affine_in(simplify(e, ranges), {place});
    return affine ? std::optional(affine->coefficient(place)) : std::nullopt;
  };
  const auto is_one_access = [&](const ir::Load& load) {
    const ir::Buffer& buffer = kernel.buffers[load.buffer];
    const auto affine = affine_in(simplify(load.index.back(), ranges), {place});
    return split.size() == 1 && load.clamp == 0 && load.index.size() == 1 && buffer.strides.empty() &&
           load.otherwise.f == 0 && buffer.alignment % kAccessBytes == 0 && buffer.alignment > 0 && affine &&
           affine->coefficient(place).is(1) && divisible_by(kernel, affine->rest, lanes) &&
           lanes * static_cast<int64_t>(size_of(buffer.dtype)) == kAccessBytes;
  };
  return std::all_of(split.begin(), split.end(), [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr) return !mentions(stmt, place);
    for (const IndexExpr& condition : load->guard)
      if (lanes > 1 && !step(condition).value_or(1).is(0)) return false;
    if (kind == RunKind::copies) return is_one_access(*load);
    return std::all_of(load->index.begin(), load->index.end(), [&](const IndexExpr& e) {
      const auto distance = step(e);
      return distance && (kind == RunKind::even || distance->is(0) || distance->is(1));
    });
  });
}

std::optional<ProductParts> find_product_parts(ir::Kernel& kernel, const PerfectNest& nest, ProductKind kind) {
  return Finder(kernel, nest, kind).run();
}

}  // namespace fusec::compiler
