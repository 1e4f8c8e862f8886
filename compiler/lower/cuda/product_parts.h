// SPDX-License-Identifier: Apache-2.0
// The parts of a nest that is a matrix product with what surrounds it:
//
//   y[.., m, n] = f(sum over k of left[.., m, k] * right[.., n, k], ...)
#pragma once

#include <optional>

#include "compiler/lower/cuda/families.h"

namespace fusec::compiler {

struct ProductParts {
  const ir::Reduce* sum = nullptr;  // of the nest
  ir::Block made;                   // what makes the factors: the statements before the sum and those inside of it
  ir::LoopHead n, term;             // of columns, and of the sum
  std::optional<ir::LoopHead> m;    // of rows: the innermost loop of the others, if there is any
  ir::RegId left, right;            // the factors: of rows, and of columns

  // Those of the statements on which the register depends, in order.
  ir::Block closure(ir::RegId reg) const;
  // Whether the factor depends on the loop.
  bool uses(ir::RegId reg, VarId var) const;
  // Whether the factor lies in memory, unguarded, with its terms side by side from even elements on, and is made of
  // nothing else.
  bool reads_rows(const ir::Kernel& kernel, ir::RegId reg) const;
};

enum class ProductKind : uint8_t {
  of_matrix,  // 16-bit factors, of which the right one lies in memory with its terms side by side, alike for all rows
  general,    // any factors, which both may depend on outer loops: 16-bit ones if both are, else f32
  wide,       // the same, but f32 always
};
// How the loads of a factor lie along a run of terms.
enum class RunKind : uint8_t {
  even,          // at equal distances
  side_by_side,  // at distances of one element, where there are any
  copies,        // side by side as one access of 16 bytes, of what the factor is: one load
};
// Whether each run of so many terms, of which there are whole ones alone, is loaded like this by `work`, under guards
// that hold for all of it or none. `heads`: the loops around.
bool reads_runs(ir::Kernel& kernel, const ProductParts& parts, std::vector<ir::LoopHead> heads, const ir::Block& work,
                int64_t lanes, RunKind kind);

// nullopt: the nest is no such product.
std::optional<ProductParts> find_product_parts(ir::Kernel& kernel, const PerfectNest& nest,
                                               ProductKind kind = ProductKind::of_matrix);

}  // namespace fusec::compiler
