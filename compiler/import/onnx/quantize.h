// SPDX-License-Identifier: Apache-2.0
// Helpers for quantized ops.
#pragma once

#include <vector>

#include "compiler/import/onnx/builder.h"

namespace fusec::importer {

// Computes saturate(round(x) + zero) in an integer type of 8 or 16 bits; an invalid zero is 0.
Val saturate(Builder& b, Val x, Val zero, DType to);

// An integer operand and its zero point, already shaped to broadcast to it; an invalid zero is 0.
struct Quantized {
  Val x, zero;
};

// Describes the sums that a matrix product or convolution computes. Its second operand is viewed as [outer, count *
// size, inner].
struct Terms {
  Dim count;
  int64_t size;
  Dim inner;
  bool can_split;  // whether the sums may be split along `count`
};

// How sums of products of 8-bit integers (x - zero) are computed exactly in the float matmul or conv of a library. In
// f32 the sums are split into pieces so short that no sum exceeds 2^24. If that takes too many pieces, the whole sum is
// computed in f64, where it would be inexact only beyond 2^53.
struct ExactProduct {
  DType dtype = DType::f64;
  std::vector<Dim> ends;  // of the pieces, along `count`; the last one is count
  bool fits_i32 = false;
};
ExactProduct exact_product(const Builder& b, const Quantized& x, const Quantized& w, const Terms& terms);

// x - zero
Val centered(Builder& b, const Quantized& q, DType dtype);
// Casts the sums of a piece to i32; sums that do not fit wrap around.
Val as_i32(Builder& b, Val sums, const ExactProduct& product);

}  // namespace fusec::importer
