// SPDX-License-Identifier: Apache-2.0
// Access to elements of row-major tensors by linear index.
#pragma once

#include <cstdint>
#include <vector>

#include "fusec/tensor.h"

namespace fusec::importer {

void store_f64(Tensor& tensor, int64_t i, double value);  // see ir::store_double
void store_i64(Tensor& tensor, int64_t i, int64_t value);
double load_f64(const Tensor& tensor, int64_t i);
int64_t load_i64(const Tensor& tensor, int64_t i);

Tensor make_tensor(DType dtype, std::vector<int64_t> shape);  // throws ImportError when memory is short
Tensor scalar_tensor(DType dtype, double value);              // rank 0
Tensor ints_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values);
std::vector<int64_t> to_ints(const Tensor& tensor);  // every element

}  // namespace fusec::importer
