// SPDX-License-Identifier: Apache-2.0
// Combiners and the combination tree, operation by operation. Compiled code must give these bits. Every operation is
// rounded to the dtype of its operands.
//
//   add mul max min and or    the scalar op of that name
//   argmax argmin             the greater (smaller) value wins, NaN wins over all; for equal values (and two NaN) the
//                             lower index wins, for *_last the higher one
//   welford (mean, m2, n)     n = 0 on one side: the other side. Else n = na + nb, w = nb / n, d = mb - ma,
//                             mean = ma + d*w, m2 = (m2a + m2b) + (d*d)*(na*w)
//   max_sum (m, s)            m = max(ma, mb), s = sa*f(ma) + sb*f(mb) with f(x) = 1 if x == m else exp(x - m)
//
// Every lane of every chunk starts from the identity (ir/kernel/combiner.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fusec/dtype.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// A value of any dtype: f for floats, i for integers and bool (as returned by load_int).
struct Number {
  double f = 0;
  int64_t i = 0;
};

Number load_number(DType dtype, const void* at);
void store_number(DType dtype, void* at, const Number& value);
// Rounds or wraps the value to the dtype.
Number rounded(DType dtype, const Number& value);
Number cast_number(DType from, DType to, const Number& value);
Number make_number(const Constant& constant);
// `operand` is the dtype of the value operands, `result` that of the result. A cast is cast_number.
Number apply(ScalarOp op, DType operand, DType result, const Number* args, std::size_t count);

using Tuple = std::array<Number, 3>;
using TupleTypes = std::array<DType, 3>;

Tuple identity(Combiner combiner, const TupleTypes& types);
Tuple combine(Combiner combiner, const TupleTypes& types, const Tuple& a, const Tuple& b);

// Folds elements that arrive in rising order of index; indices may be missing.
class TreeCombiner {
 public:
  TreeCombiner(Combiner combiner, const TupleTypes& types, Tree tree, int64_t count);
  void add(int64_t index, const Tuple& element);
  Tuple finish();

 private:
  void close_chunks_before(int64_t chunk);
  Tuple fold_pairs(std::vector<Tuple> items) const;

  Combiner combiner_;
  TupleTypes types_;
  int64_t lane_count_, chunk_size_, count_;
  std::vector<Tuple> lanes_, chunks_;
};

}  // namespace fusec::ir
