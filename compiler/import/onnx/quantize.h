// SPDX-License-Identifier: Apache-2.0
// What quantized ops share.
#pragma once

#include <vector>

#include "compiler/import/onnx/builder.h"

namespace fusec::importer {

// saturate(round(x) + zero) in an integer type of 8 or 16 bits; an invalid zero is 0.
Val saturate(Builder& b, Val x, Val zero, DType to);

// An integer operand and its zero point, already shaped to broadcast to it; an invalid zero is 0.
struct Quantized {
  Val x, zero;
};

// The terms of the sums that a matrix product or convolution makes: its second operand is [outer, count * size, inner].
struct Terms {
  Dim count;
  int64_t size;
  Dim inner;
  bool can_split;  // whether the sums may be made in pieces of `count`
};

// How products of 8-bit integers (x - zero) sum up exactly in the float matmul or conv that libraries have: in f32, in
// pieces that are so short that no sum can pass 2^24; where that takes many of them, in f64 at once, whose sums would
// have to pass 2^53.
struct ExactProduct {
  DType dtype = DType::f64;
  std::vector<Dim> ends;  // of the pieces, along `count`; the last one is count
  bool fits_i32 = false;
};
ExactProduct exact_product(const Builder& b, const Quantized& x, const Quantized& w, const Terms& terms);

// x - zero
Val centered(Builder& b, const Quantized& q, DType dtype);
// The sums of a piece as i32, wrapping around where they do not fit.
Val as_i32(Builder& b, Val sums, const ExactProduct& product);

}  // namespace fusec::importer
