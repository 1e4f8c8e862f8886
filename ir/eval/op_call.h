// SPDX-License-Identifier: Apache-2.0
// What the evaluators of tensor ops share: the call with its operands, attributes and result, sliding windows over any
// number of spatial axes, and panels, the inner loop of products and convolutions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/eval/graph.h"
#include "ir/graph/graph.h"
#include "ir/ops/element.h"

namespace fusec::ir {

using Extents = std::vector<int64_t>;

struct OpCall {
  const Node& node;
  Attrs attrs;                        // all dimensions are constants
  std::vector<Tensor> operands;       // row-major
  std::vector<DType> operand_dtypes;  // as declared by the graph
  DType dtype;                        // dtype of the result, as declared by the graph
  DType storage;                      // dtype of the result tensor: f64 for wide floats, else dtype
  Extents shape;                      // shape of the result
  const Tensor* constant;             // data of a constant node, else null
  const EvalOptions& options;

  const Tensor& operand(std::size_t i) const { return operands[i]; }
  Result<Tensor> make_result() const { return Tensor::make(storage, shape); }
  Extents extents(std::string_view attr) const;  // values of a dims attribute
};

// "where: message" is invalid_argument with a note that names the node.
Status node_error(const Node& node, std::string message);

// The indices in operand 1. Negative ones count from the end. Each is checked against the extent of its axis;
// `extent_of` receives its row-major position.
Result<Extents> read_indices(const OpCall& call, const std::function<int64_t(int64_t)>& extent_of);

#define TENSOR_OP(name, ...) Result<Tensor> eval_##name(const OpCall& call);
#include "ir/ops/tensor_ops.def"
Result<Tensor> eval_scalar_node(const OpCall& call);

int64_t product(const Extents& extents);
int64_t product(const Extents& extents, std::size_t begin, std::size_t end);
Extents row_major_strides(const Extents& extents);
// The coordinates of row-major position `index`.
Extents unravel(int64_t index, const Extents& extents);
int64_t dot(const Extents& a, const Extents& b);

// dst[dst_offset + i . dst_strides] = src[src_offset + i . src_strides] for all i in extents. Offsets and strides count
// elements of `size` bytes.
struct StridedCopy {
  Extents extents, src_strides, dst_strides;
  int64_t src_offset = 0, dst_offset = 0;
};
void copy_strided(StridedCopy copy, std::size_t size, const void* src, void* dst, int threads);

// The elements as T, without a copy if they already have that type.
template <class T>
class ElementsAs {
 public:
  explicit ElementsAs(const Tensor& tensor) : tensor_(tensor) {
    if (is_float(tensor.dtype()) && size_of(tensor.dtype()) == sizeof(T)) {
      data_ = tensor.as<T>();
      return;
    }
    copy_.resize(static_cast<std::size_t>(tensor.num_elements()));
    load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.num_elements(), copy_.data());
    data_ = copy_.data();
  }
  ElementsAs(const ElementsAs&) = delete;
  ElementsAs& operator=(const ElementsAs&) = delete;
  const T* data() const { return data_; }

 private:
  Tensor tensor_;  // keeps borrowed elements alive
  std::vector<T> copy_;
  const T* data_ = nullptr;
};

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

// The memory layout of a tensor [N, C, spatial...] or [N, spatial..., C].
struct ImageLayout {
  int64_t batch = 0, channels = 0;  // extents
  int64_t batch_stride = 0, channel_stride = 0;
  Extents spatial, spatial_strides;

  ImageLayout(const Tensor& tensor, const std::string& layout) {
    const bool last = layout == "last";
    const std::size_t channel = last ? tensor.shape().size() - 1 : 1, first = last ? 1 : 2;
    batch = tensor.shape()[0];
    batch_stride = tensor.strides()[0];
    channels = tensor.shape()[channel];
    channel_stride = tensor.strides()[channel];
    for (std::size_t i = first; i < first + tensor.shape().size() - 2; ++i) {
      spatial.push_back(tensor.shape()[i]);
      spatial_strides.push_back(tensor.strides()[i]);
    }
  }
};

struct Window {
  Extents kernel, strides, pads, dilations;  // pads: all begins, then all ends

  Window(Extents kernel_extents, const Attrs& attrs)
      : kernel(std::move(kernel_extents)),
        strides(attrs.ints("strides")),
        pads(attrs.ints("pads")),
        dilations(attrs.ints("dilations")) {}

  struct Tap {
    int64_t offset = -1;        // in memory; -1 in the padding
    bool inside_padded = true;  // false past the end padding, which only ceil_mode reaches
  };
  Tap tap(const Extents& output, const Extents& position, const ImageLayout& in) const {
    Tap tap;
    int64_t offset = 0;
    bool inside = true;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const int64_t at = output[i] * strides[i] + position[i] * dilations[i] - pads[i];
      inside = inside && at >= 0 && at < in.spatial[i];
      tap.inside_padded = tap.inside_padded && at < in.spatial[i] + pads[kernel.size() + i];
      offset += at * in.spatial_strides[i];
    }
    if (inside) tap.offset = offset;
    return tap;
  }
};

}  // namespace fusec::ir
