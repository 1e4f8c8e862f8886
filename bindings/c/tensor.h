// SPDX-License-Identifier: Apache-2.0
// Tensors of the C interface as fusec::Tensor.
#pragma once

#include <span>
#include <vector>

#include "bindings/c/error.h"
#include "fusec/tensor.h"

namespace fusec::c {

fusec_dtype dtype_to_c(DType dtype);

// Borrows the memory of the caller. Errors name the tensor `what`.
Result<Tensor> borrow(const fusec_tensor& tensor, const std::string& what);
// Those of an array parameter; a NULL is refused where there are any.
Result<std::vector<Tensor>> borrow_all(const fusec_tensor* tensors, std::size_t count, const char* parameter);
// A copy in memory of the host.
Result<Tensor> copy_to_host(const fusec_tensor& tensor, const std::string& what);

// Makes the Tensor borrow other memory of the same shape. Allocates nothing.
void set_data(Tensor& tensor, void* data);

}  // namespace fusec::c
