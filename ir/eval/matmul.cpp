// SPDX-License-Identifier: Apache-2.0
// Evaluates matrix products for the graph evaluator, in f64 or wrapping integers, with numpy's rules for vectors and
// batch axes.

#include <algorithm>

#include "ir/eval/op_call.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// One operand as a stack of matrices. The strides of the batch axes are aligned with the result's; broadcast axes have
// stride 0.
struct MatrixStack {
  int64_t rows = 1, columns = 1, row_stride = 0, column_stride = 0;
  Extents batch_strides;
};

// A vector is a row on the left and a column on the right.
MatrixStack view(const Tensor& tensor, bool transposed, bool left, std::size_t batch_rank) {
  Extents shape = tensor.shape(), strides = tensor.strides();
  const bool vector = shape.size() == 1;
  if (vector) {
    shape.insert(left ? shape.begin() : shape.end(), 1);
    strides.insert(left ? strides.begin() : strides.end(), 0);
  }
  std::size_t r = shape.size() - 2, c = shape.size() - 1;
  if (transposed && !vector) std::swap(r, c);
  MatrixStack m{shape[r], shape[c], strides[r], strides[c], Extents(batch_rank, 0)};
  const std::size_t own = shape.size() - 2;
  for (std::size_t i = 0; i < own; ++i) m.batch_strides[batch_rank - own + i] = shape[i] == 1 ? 0 : strides[i];
  return m;
}

Extents batch_shape(const Tensor& a, const Tensor& b, const Extents& result) {
  const std::size_t rank = std::max({a.shape().size(), b.shape().size(), std::size_t{2}}) - 2;
  return {result.begin(), result.begin() + static_cast<std::ptrdiff_t>(rank)};
}

// The left matrix of one batch, row-major.
template <class T>
void pack_rows(const T* from, const MatrixStack& m, T* to) {
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) *to++ = from[r * m.row_stride + c * m.column_stride];
  }
}

template <class T>
void pack_panel(const T* from, const MatrixStack& m, int64_t column, int64_t width, T* to) {
  for (int64_t k = 0; k < m.rows; ++k) {
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      *to++ = j < width ? from[k * m.row_stride + (column + j) * m.column_stride] : T(0);
    }
  }
}

template <class T>
void multiply(const OpCall& call, Tensor& out) {
  const Extents batch = batch_shape(call.operand(0), call.operand(1), call.shape);
  const MatrixStack a = view(call.operand(0), call.attrs.i("transpose_a") == 1, true, batch.size());
  const MatrixStack b = view(call.operand(1), call.attrs.i("transpose_b") == 1, false, batch.size());
  const ElementsAs<T> a_elements(call.operand(0)), b_elements(call.operand(1));
  const int64_t panels = (b.columns + kPanelColumns - 1) / kPanelColumns;
  parallel_for(call.options.threads, product(batch) * panels, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> rows(static_cast<std::size_t>(a.rows * a.columns));
    std::vector<T> panel(static_cast<std::size_t>(b.rows * kPanelColumns));
    int64_t packed = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t index = task / panels, column = task % panels * kPanelColumns;
      const int64_t width = std::min(kPanelColumns, b.columns - column);
      const Extents at = unravel(index, batch);
      if (packed != index) pack_rows(a_elements.data() + dot(at, a.batch_strides), a, rows.data());
      packed = index;
      pack_panel(b_elements.data() + dot(at, b.batch_strides), b, column, width, panel.data());
      multiply_panel(rows.data(), a.rows, a.columns, panel.data(), [&](int64_t row, const T* values) {
        store_elements(call.storage, out.data(), (index * a.rows + row) * b.columns + column, 1, width, values);
      });
    }
  });
}

}  // namespace

Result<Tensor> eval_matmul(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  if (out.num_elements() == 0) return out;
  if (is_float(call.dtype)) {
    multiply<double>(call, out);
  } else {
    multiply<uint64_t>(call, out);  // wraps; signed products have the same bits
  }
  return out;
}

}  // namespace fusec::ir
