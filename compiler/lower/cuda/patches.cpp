// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: finds the patches that a matrix product reads.

#include "compiler/lower/cuda/patches.h"

#include "compiler/lower/rewrite/kernel_names.h"

namespace fusec::compiler {
namespace {

// The block with the term as `width * line + place`, simplified.
void split_term(Block& block, const LoopHead& row, const LoopHead& term, int64_t width, VarId line, VarId place) {
  substitute(block, term.var, IndexExpr::symbol(line) * width + IndexExpr::symbol(place));
  ir::IndexRanges ranges = ir::compute_ranges({row});
  ranges[line] = {IndexExpr(0), *term.extent.exact_div(width) - 1};
  ranges[place] = {IndexExpr(0), IndexExpr(width - 1)};
  for (Stmt& stmt : block) ir::for_each_index(stmt, [&](IndexExpr& e) { e = simplify(e, ranges); });
}

// How many places further the next row reads: nullopt if an expression says otherwise than the others or is not affine;
// 0 if there is none.
std::optional<int64_t> find_step(const Block& block, VarId row, VarId place) {
  int64_t step = 0;
  bool alike = true;
  const auto visit = [&](const IndexExpr& e) {
    const auto affine = affine_in(e, {row, place});
    const IndexExpr by_row = affine ? affine->coefficient(row) : 0, by_place = affine ? affine->coefficient(place) : 0;
    alike = alike && affine && by_row.is_const() && by_place.is_const();
    if (!alike || (by_row.is(0) && by_place.is(0))) return;
    alike = !by_place.is(0) && by_row.value() % by_place.value() == 0 && by_row.value() / by_place.value() > 0 &&
            (step == 0 || step == by_row.value() / by_place.value());
    if (alike) step = by_row.value() / by_place.value();
  };
  for (const Stmt& stmt : block) ir::for_each_index(stmt, visit);
  return alike ? std::optional(step) : std::nullopt;
}

}  // namespace

std::optional<Patches> find_patches(ir::Kernel& kernel, const Block& block, const LoopHead& row, const LoopHead& term) {
  if (!term.extent.is_const()) return std::nullopt;
  const VarId line = add_var(kernel), place = add_var(kernel);
  for (int64_t width = term.extent.value(); width > 1; --width) {
    if (term.extent.value() % width != 0) continue;
    Block split = block;
    split_term(split, row, term, width, line, place);
    const std::optional<int64_t> step = find_step(split, row.var, place);
    if (step && *step > 0) return Patches{width, *step};
  }
  return std::nullopt;
}

Block make_position(ir::Kernel& kernel, const Block& block, const Patches& patches, const LoopHead& row,
                    const LoopHead& term, const IndexExpr& first_row, const IndexExpr& line,
                    const IndexExpr& position) {
  const VarId l = add_var(kernel), place = add_var(kernel);
  Block result = clone(kernel, block);
  split_term(result, row, term, patches.width, l, place);
  substitute(result, l, line);
  substitute(result, place, position);
  substitute(result, row.var, first_row);
  return result;
}

}  // namespace fusec::compiler
