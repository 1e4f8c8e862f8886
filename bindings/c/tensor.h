// SPDX-License-Identifier: Apache-2.0
// Tensors of the C interface as fusec::Tensor.
#pragma once

#include <memory>
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

// Ends a tensor of the caller once it is his no more.
class ManagedOwner {
 public:
  ManagedOwner() = default;
  ManagedOwner(const ManagedOwner&) = delete;
  ManagedOwner& operator=(const ManagedOwner&) = delete;
  ~ManagedOwner() {
    if (tensor_ != nullptr) tensor_->deleter(tensor_);
  }
  // Without a deleter there is nothing to end, and the struct itself may be gone by then.
  void take(fusec_managed_tensor* tensor) {
    if (tensor->deleter != nullptr) tensor_ = tensor;
  }

 private:
  fusec_managed_tensor* tensor_ = nullptr;
};
// A Tensor in the memory of a caller's, which must be dense and of the host.
struct SharedTensor {
  Tensor tensor;
  std::shared_ptr<ManagedOwner> owner;
};
// Errors name the function that copies such tensors.
Result<SharedTensor> share(const fusec_managed_tensor& managed, const std::string& what, const char* copying);

// Makes the Tensor borrow other memory of the same shape. Allocates nothing.
void set_data(Tensor& tensor, void* data);

}  // namespace fusec::c
