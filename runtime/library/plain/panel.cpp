// SPDX-License-Identifier: Apache-2.0
// The vectorized inner loops of the plain library for f32 and f64: panel products, running max and sum. Function
// multiversioning selects the clone for the CPU at load time.

#include "runtime/library/plain/loops.h"

// With the thread sanitizer there are no clones, because the loader picks one before the sanitizer is ready.
#if defined(__SANITIZE_THREAD__)
#define FUSEC_VECTOR_CLONES
#else
#define FUSEC_VECTOR_CLONES [[gnu::target_clones("avx512f", "avx2,fma", "default")]]
#endif

namespace fusec::runtime::plain {
namespace {

template <class T>
[[gnu::always_inline]] inline void multiply(const T* const* rows, int64_t depth, const T* panel,
                                            T (*values)[kPanelColumns]) {
  static_assert(kPanelRows == 4);
  const T *row0 = rows[0], *row1 = rows[1], *row2 = rows[2], *row3 = rows[3];
  T sum0[kPanelColumns] = {}, sum1[kPanelColumns] = {}, sum2[kPanelColumns] = {}, sum3[kPanelColumns] = {};
  for (int64_t i = 0; i < depth; ++i, panel += kPanelColumns) {
#pragma omp simd
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      sum0[j] += row0[i] * panel[j];
      sum1[j] += row1[i] * panel[j];
      sum2[j] += row2[i] * panel[j];
      sum3[j] += row3[i] * panel[j];
    }
  }
  std::copy(sum0, sum0 + kPanelColumns, values[0]);
  std::copy(sum1, sum1 + kPanelColumns, values[1]);
  std::copy(sum2, sum2 + kPanelColumns, values[2]);
  std::copy(sum3, sum3 + kPanelColumns, values[3]);
}

}  // namespace

FUSEC_VECTOR_CLONES void multiply_panel(const float* const* rows, int64_t depth, const float* panel,
                                        float (*values)[kPanelColumns]) {
  multiply(rows, depth, panel, values);
}

FUSEC_VECTOR_CLONES void multiply_panel(const double* const* rows, int64_t depth, const double* panel,
                                        double (*values)[kPanelColumns]) {
  multiply(rows, depth, panel, values);
}

FUSEC_VECTOR_CLONES void take_max(const float* x, int64_t count, float* best) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) best[i] = x[i] <= best[i] || best[i] != best[i] ? best[i] : x[i];
}

FUSEC_VECTOR_CLONES void take_sum(const float* x, int64_t count, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += x[i];
}

}  // namespace fusec::runtime::plain
