// SPDX-License-Identifier: Apache-2.0
// Matrix product of the plain library: packs panels of the right matrix and multiplies them with rows of the left one,
// for any dtype and strides. Each sum runs in rising order of k, whatever the thread count.

#include <algorithm>

#include "runtime/library/plain/finish.h"
#include "runtime/library/plain/loops.h"

namespace fusec::runtime::plain {
namespace {

// kPanelRows rows of the left matrix from `row` on, packed unless they can be read in place.
template <class T>
void take_rows(const CallOperand& a, const void* base, int64_t offset, int64_t row, int64_t last, int64_t depth,
               T* buffer, const T** rows) {
  const std::size_t r = a.dims.size() - 2;
  for (int64_t i = 0; i < kPanelRows; ++i) {
    const int64_t from = offset + std::min(row + i, last) * a.strides[r];
    rows[i] = load_run(a, base, from, a.strides[r + 1], depth, buffer + i * depth);
  }
}

template <class T>
void pack_panel(const CallOperand& b, const void* base, int64_t offset, int64_t width, int64_t depth, T* panel) {
  const std::size_t r = b.dims.size() - 2;
  for (int64_t k = 0; k < depth; ++k, panel += kPanelColumns) {
    ir::load_elements(b.dtype, base, offset + k * b.strides[r], b.strides[r + 1], width, panel);
    std::fill(panel + width, panel + kPanelColumns, T(0));
  }
}

template <class T>
void multiply(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, T* workspace,
              int threads) {
  const CallOperand &a = problem[Role::input], &b = problem[Role::weight], &out = problem[Role::output];
  const std::size_t r = out.dims.size() - 2;
  const int64_t rows = out.dims[r], columns = out.dims[r + 1], depth = a.dims[r + 1];
  const int64_t panels = (columns + kPanelColumns - 1) / kPanelColumns;
  int64_t batches = 1;
  for (std::size_t i = 0; i < r; ++i) batches *= out.dims[i];
  parallel_for(threads, batches * panels, [&](int64_t begin, int64_t end, int thread) {
    T *panel = workspace + thread * depth * kPack, *buffer = panel + depth * kPanelColumns;
    for (int64_t task = begin; task < end; ++task) {
      int64_t at[kMaxAxes] = {};
      unravel(task / panels, out.dims.data(), r, at);
      const int64_t column = task % panels * kPanelColumns, width = std::min(kPanelColumns, columns - column);
      const int64_t a_offset = compute_offset(a, at), b_offset = compute_offset(b, at) + column * b.strides[r + 1];
      pack_panel(b, args[b.arg], b_offset, width, depth, panel);
      at[r + 1] = column;
      for (int64_t row = 0; row < rows; row += kPanelRows) {
        const T* left[kPanelRows];
        T values[kPanelRows][kPanelColumns];
        take_rows(a, args[a.arg], a_offset, row, rows - 1, depth, buffer, left);
        multiply_panel(left, depth, panel, values);
        for (int64_t i = 0; i < std::min(kPanelRows, rows - row); ++i) {
          at[r] = row + i;
          finish(epilogues, out, Run{at, r + 1, width}, args, values[i]);
        }
      }
    }
  });
}

}  // namespace

std::size_t matmul_workspace(const Problem& problem, int threads) {
  const int64_t depth = problem[Role::input].dims.back();
  const std::size_t size = visit_running(problem[Role::output].dtype, []<class T>(T) { return sizeof(T); });
  return static_cast<std::size_t>(depth * kPack * std::max(threads, 1)) * size;
}

void matmul(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
            int threads) {
  visit_running(problem[Role::output].dtype,
                [&]<class T>(T) { multiply(problem, epilogues, args, static_cast<T*>(workspace), threads); });
}

}  // namespace fusec::runtime::plain
