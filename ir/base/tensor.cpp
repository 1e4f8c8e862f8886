// SPDX-License-Identifier: Apache-2.0
// Implements Tensor: owned, shared and borrowed memory with shape and strides. Sizes from outside are checked for
// overflow before memory is allocated.

#include "fusec/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ir/support/check.h"
#include "ir/support/memory.h"

namespace fusec {
namespace {

// The byte count; nullopt if an extent is negative or the byte count exceeds 63 bits.
std::optional<int64_t> byte_count(DType dtype, const std::vector<int64_t>& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; })) return std::nullopt;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t d : shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  // Unsigned, because the strides of an empty tensor with huge other extents may wrap; they address nothing.
  uint64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(shape[i]);
  }
  return strides;
}

std::string text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace

Result<Tensor> Tensor::make(DType dtype, std::vector<int64_t> shape) noexcept {
  return ir::guarded([&]() -> Result<Tensor> {
    const std::optional<int64_t> bytes = byte_count(dtype, shape);
    if (!bytes) {
      return Status(StatusCode::invalid_argument, "a tensor cannot have shape " + text(shape) + ": its size in bytes " +
                                                      "must be at least 0 and fit 63 bits");
    }
    void* data = ir::allocate_host(static_cast<std::size_t>(*bytes));
    if (data == nullptr) {
      return Status(StatusCode::out_of_memory,
                    std::to_string(*bytes) + " bytes of host memory for a tensor " + to_string(dtype) + text(shape));
    }
    std::memset(data, 0, static_cast<std::size_t>(*bytes));
    std::shared_ptr<const void> owner(data, [](const void* p) { std::free(const_cast<void*>(p)); });
    return share(dtype, std::move(shape), data, std::move(owner));
  });
}

Tensor Tensor::borrow(DType dtype, std::vector<int64_t> shape, void* data, std::vector<int64_t> strides,
                      Device device) {
  Tensor t;
  t.device_ = device;
  t.dtype_ = dtype;
  t.strides_ = strides.empty() ? row_major(shape) : std::move(strides);
  t.shape_ = std::move(shape);
  t.data_ = data;
  return t;
}

Tensor Tensor::share(DType dtype, std::vector<int64_t> shape, void* data, std::shared_ptr<const void> owner,
                     Device device) {
  Tensor t = borrow(dtype, std::move(shape), data, {}, device);
  t.owner_ = std::move(owner);
  return t;
}

int64_t Tensor::num_elements() const {
  if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return 0;
  int64_t n = 1;
  for (int64_t d : shape_) n *= d;
  return n;
}

bool Tensor::is_contiguous() const {
  if (num_elements() <= 1) return true;
  int64_t expected = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

}  // namespace fusec
