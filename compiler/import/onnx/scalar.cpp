// SPDX-License-Identifier: Apache-2.0
// Makes tensors, and loads and stores their elements, for the import stage.

#include "compiler/import/onnx/scalar.h"

#include "compiler/import/onnx/error.h"
#include "ir/ops/cast.h"

namespace fusec::importer {

namespace {

const void* at(const Tensor& tensor, int64_t i) {
  return static_cast<const char*>(tensor.data()) + i * static_cast<int64_t>(size_of(tensor.dtype()));
}
void* at(Tensor& tensor, int64_t i) {
  return static_cast<char*>(tensor.data()) + i * static_cast<int64_t>(size_of(tensor.dtype()));
}

}  // namespace

void store_f64(Tensor& tensor, int64_t i, double value) { ir::store_double(tensor.dtype(), at(tensor, i), value); }
void store_i64(Tensor& tensor, int64_t i, int64_t value) { ir::store_int(tensor.dtype(), at(tensor, i), value); }
double load_f64(const Tensor& tensor, int64_t i) { return ir::load_double(tensor.dtype(), at(tensor, i)); }
int64_t load_i64(const Tensor& tensor, int64_t i) { return ir::load_int(tensor.dtype(), at(tensor, i)); }

Tensor make_tensor(DType dtype, std::vector<int64_t> shape) { return take(Tensor::make(dtype, std::move(shape))); }

Tensor scalar_tensor(DType dtype, double value) {
  Tensor tensor = make_tensor(dtype, {});
  store_f64(tensor, 0, value);
  return tensor;
}

Tensor ints_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor = make_tensor(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) store_i64(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<int64_t> to_ints(const Tensor& tensor) {
  std::vector<int64_t> values(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_i64(tensor, static_cast<int64_t>(i));
  return values;
}

}  // namespace fusec::importer
