// SPDX-License-Identifier: Apache-2.0
// Tensor: typed n-dimensional memory, owned or borrowed, of the host or of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec {

// A copy shares the memory. Strides are in elements and may be zero or negative for borrowed memory; owned memory is
// row-major, 64-byte aligned and zero-filled. On a GPU, data() is an address of the device, not to be read by the host;
// `make_tensor` and `copy` of fusec/device.h make and move such tensors.
class FUSEC_API Tensor {
 public:
  Tensor() = default;
  // Owned memory. The product of the extents must fit 63 bits (invalid_argument) and memory must suffice
  // (out_of_memory). Memory of the host; of any device: make_tensor.
  static Result<Tensor> make(DType dtype, std::vector<int64_t> shape) noexcept;
  // Memory of the caller, which must outlive the Tensor. Empty strides mean row-major.
  static Tensor borrow(DType dtype, std::vector<int64_t> shape, void* data, std::vector<int64_t> strides = {},
                       Device device = {});
  // Memory kept alive by `owner`.
  static Tensor share(DType dtype, std::vector<int64_t> shape, void* data, std::shared_ptr<const void> owner,
                      Device device = {});

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t num_elements() const;
  std::size_t bytes() const { return static_cast<std::size_t>(num_elements()) * size_of(dtype_); }
  bool is_contiguous() const;
  Device device() const { return device_; }
  bool on_host() const { return device_.kind == TargetKind::cpu; }
  void* data() { return data_; }
  const void* data() const { return data_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_, strides_;
  void* data_ = nullptr;
  Device device_;
  std::shared_ptr<const void> owner_;
};

}  // namespace fusec
