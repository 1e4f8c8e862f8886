// SPDX-License-Identifier: Apache-2.0
// The inner product of plain matrix products and convolutions: a few packed rows times a packed panel of columns.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fusec::runtime::plain {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPanelRows = 4;

// values[r][j] = sum over i of rows[r][i] * panel[i][j], in rising i. rows: kPanelRows x depth, the last ones may
// repeat.
template <class T>
void multiply_panel(const T* const* rows, int64_t depth, const T* panel, T values[kPanelRows][kPanelColumns]) {
  T sums[kPanelRows][kPanelColumns] = {};
  for (int64_t i = 0; i < depth; ++i) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const T factor = rows[r][i];
      for (int64_t j = 0; j < kPanelColumns; ++j) sums[r][j] += factor * panel[i * kPanelColumns + j];
    }
  }
  std::copy(&sums[0][0], &sums[0][0] + kPanelRows * kPanelColumns, &values[0][0]);
}

}  // namespace fusec::runtime::plain
