// SPDX-License-Identifier: Apache-2.0
// The loops of the plain library. args are those of LibraryOp::run; workspace has *_workspace() bytes, which depend on
// the thread count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::plain {

std::size_t matmul_workspace(const Problem& problem, int threads);
void matmul(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
            int threads);

std::size_t conv_workspace(const Problem& problem, int threads);
void conv(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
          int threads);

void pool(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, int threads);

// The inner loops of the plain library, compiled for several vector widths. The loader picks the one for the CPU.

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPanelRows = 4;
inline constexpr int64_t kPack = kPanelColumns + kPanelRows;  // packed values per step of the depth

// values[r][j] = sum over i of rows[r][i] * panel[i][j], in rising i. rows: kPanelRows x depth; the last rows may be
// repeated.
void multiply_panel(const float* const* rows, int64_t depth, const float* panel, float (*values)[kPanelColumns]);
void multiply_panel(const double* const* rows, int64_t depth, const double* panel, double (*values)[kPanelColumns]);

template <class T>
void multiply_panel(const T* const* rows, int64_t depth, const T* panel, T (*values)[kPanelColumns]) {
  std::fill(&values[0][0], &values[0][0] + kPanelRows * kPanelColumns, T(0));
  for (int64_t i = 0; i < depth; ++i) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      for (int64_t j = 0; j < kPanelColumns; ++j) values[r][j] += rows[r][i] * panel[i * kPanelColumns + j];
    }
  }
}

// best[i] = max(best[i], x[i]); NaN wins.
void take_max(const float* x, int64_t count, float* best);
// sums[i] += x[i]
void take_sum(const float* x, int64_t count, float* sums);

template <class T>
void take_max(const T* x, int64_t count, T* best) {
  for (int64_t i = 0; i < count; ++i) best[i] = x[i] > best[i] || x[i] != x[i] ? x[i] : best[i];
}
template <class T>
void take_sum(const T* x, int64_t count, T* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += x[i];
}

}  // namespace fusec::runtime::plain
