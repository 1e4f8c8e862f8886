// SPDX-License-Identifier: Apache-2.0
// The parts of a nest that is a product of 16-bit matrices with what surrounds it:
//
//   y[.., m, n] = f(sum over k of f32(left[.., m, k]) * f32(right[.., n, k]), ...)
#pragma once

#include <optional>

#include "compiler/lower/cuda/families.h"

namespace fusec::compiler {

struct ProductParts {
  const ir::Reduce* sum = nullptr;  // of the nest
  ir::Block made;                   // what makes the factors: the statements before the sum and those inside of it
  ir::LoopHead n, term;             // of columns, and of the sum
  std::optional<ir::LoopHead> m;    // of rows: the innermost loop of the others, if there is any
  ir::RegId left, right;            // the 16-bit factors: of rows, and of columns

  // Those of the statements on which the register depends, in order.
  ir::Block closure(ir::RegId reg) const;
  // Whether the factor lies in memory, unguarded, with its terms side by side from even elements on, and is made of
  // nothing else.
  bool reads_rows(const ir::Kernel& kernel, ir::RegId reg) const;
};

// nullopt: the nest is no such product, or its right factor does not lie in memory with its terms side by side.
std::optional<ProductParts> find_product_parts(ir::Kernel& kernel, const PerfectNest& nest);

}  // namespace fusec::compiler
