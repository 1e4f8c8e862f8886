// SPDX-License-Identifier: Apache-2.0
// The product shared by convolutions and matrix products: rows of a matrix times a packed panel of columns.
#pragma once

#include <cstdint>

namespace fusec::ir {

inline constexpr int64_t kPanelColumns = 8;

// out[r][j] = sum over k of a[r * a_stride + k] * panel[k * kPanelColumns + j], for kRows rows. Each element has one
// accumulator with k rising, so the result does not depend on how the work is split.
template <int kRows, class T>
void multiply_rows(const T* a, int64_t a_stride, const T* panel, int64_t depth, T (*out)[kPanelColumns]) {
  T sum[kRows][kPanelColumns] = {};
  for (int64_t k = 0; k < depth; ++k) {
    for (int r = 0; r < kRows; ++r) {
      const T x = a[r * a_stride + k];
      for (int64_t j = 0; j < kPanelColumns; ++j) sum[r][j] += x * panel[k * kPanelColumns + j];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kPanelColumns; ++j) out[r][j] = sum[r][j];
  }
}

// Calls store(row, values) for every row of a.
template <class T, class Store>
void multiply_panel(const T* a, int64_t rows, int64_t depth, const T* panel, const Store& store) {
  constexpr int kRows = 2;  // with 8 columns of f64 the sums fill 8 of SSE's 16 registers
  T out[kRows][kPanelColumns];
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    multiply_rows<kRows>(a + row * depth, depth, panel, depth, out);
    for (int r = 0; r < kRows; ++r) store(row + r, out[r]);
  }
  for (; row < rows; ++row) {
    multiply_rows<1>(a + row * depth, depth, panel, depth, out);
    store(row, out[0]);
  }
}

}  // namespace fusec::ir
