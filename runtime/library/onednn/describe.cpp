// SPDX-License-Identifier: Apache-2.0
// Derives oneDNN types, memory descriptors and canonical strides from normalized operands at bind time. Adjusts only
// strides that no element uses.

#include "runtime/library/onednn/describe.h"

#include <algorithm>

namespace fusec::runtime::onednn {

std::optional<memory::data_type> data_type(DType dtype) {
  if (dtype == DType::f32) return memory::data_type::f32;
  if (dtype == DType::bf16 && __builtin_cpu_supports("avx512bf16")) return memory::data_type::bf16;
  // For f16, oneDNN requires AVX512-FP16.
  if (dtype == DType::f16 && dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_fp16) {
    return memory::data_type::f16;
  }
  return std::nullopt;
}

memory::desc describe(const Extents& dims, const Extents& strides, DType dtype) {
  return memory::desc(dims, *data_type(dtype), strides);
}

std::optional<ImageOrder> infer_order(const CallOperand& image) {
  if (image.dims[1] == 1) return std::nullopt;
  for (std::size_t i = image.dims.size(); i-- > 2;) {
    if (image.dims[i] == 1) continue;
    return image.strides[1] < image.strides[i] ? ImageOrder::last : ImageOrder::first;
  }
  return std::nullopt;
}

CallOperand canonical_matrix(CallOperand matrix) {
  const std::size_t r = matrix.dims.size() - 2, c = r + 1;
  int64_t &rows = matrix.strides[r], &columns = matrix.strides[c];
  if (matrix.dims[r] == 1 && matrix.dims[c] == 1) {
    rows = columns = 1;
  } else if (matrix.dims[r] == 1) {
    rows = columns == 1 ? matrix.dims[c] : 1;
  } else if (matrix.dims[c] == 1) {
    columns = rows == 1 ? matrix.dims[r] : 1;
  }
  int64_t dense = std::max(rows * matrix.dims[r], columns * matrix.dims[c]);
  for (std::size_t i = r; i-- > 0;) {
    if (matrix.dims[i] == 1) matrix.strides[i] = dense;
    dense = std::max(dense, matrix.strides[i] * matrix.dims[i]);
  }
  return matrix;
}

}  // namespace fusec::runtime::onednn
