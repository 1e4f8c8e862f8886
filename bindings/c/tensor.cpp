// SPDX-License-Identifier: Apache-2.0
// Converts tensors of the C interface, which have the layout of DLPack's, and checks them.

#include "bindings/c/tensor.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "fusec/device.h"

namespace fusec::c {
namespace {

// The layout of DLTensor and DLManagedTensorVersioned of DLPack 1.x on a machine of 64 bits.
static_assert(sizeof(fusec_tensor) == 48 && offsetof(fusec_tensor, device) == 8 && offsetof(fusec_tensor, ndim) == 16);
static_assert(offsetof(fusec_tensor, dtype) == 20 && offsetof(fusec_tensor, shape) == 24);
static_assert(offsetof(fusec_tensor, strides) == 32 && offsetof(fusec_tensor, byte_offset) == 40);
static_assert(offsetof(fusec_managed_tensor, manager_ctx) == 8 && offsetof(fusec_managed_tensor, deleter) == 16);
static_assert(offsetof(fusec_managed_tensor, flags) == 24 && offsetof(fusec_managed_tensor, tensor) == 32);

constexpr int32_t kMaxRank = 64;

Status reject(const std::string& what, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("{} {}", what, why));
}

std::optional<DType> dtype_from_c(const fusec_dtype& dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const fusec_dtype candidate = dtype_to_c(static_cast<DType>(i));
    if (candidate.code == dtype.code && candidate.bits == dtype.bits && candidate.lanes == dtype.lanes) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

Result<Device> device_from_c(const fusec_device& device, const std::string& what) {
  switch (device.type) {
    case FUSEC_DEVICE_CPU:
    case FUSEC_DEVICE_CUDA_HOST:
    case FUSEC_DEVICE_CUDA_MANAGED:
      return Device{};
    case FUSEC_DEVICE_CUDA:
      return Device{TargetKind::cuda, device.ordinal};
    default:
      return reject(what, fmt::format("lies on a device of type {}; fusec takes 1 (CPU), 2 (CUDA), 3 (CUDA host) and "
                                      "13 (CUDA managed)",
                                      device.type));
  }
}

Status check_extents(const fusec_tensor& tensor, const std::string& what) {
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    return reject(what, fmt::format("has ndim {}, which must be from 0 to {}", tensor.ndim, kMaxRank));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) return reject(what, "has a shape that is NULL");
  bool empty = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) return reject(what, fmt::format("has the extent {} on axis {}", tensor.shape[i], i));
    empty |= tensor.shape[i] == 0;
  }
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor.ndim && !empty; ++i) {
    if (__builtin_mul_overflow(elements, tensor.shape[i], &elements)) {
      return reject(what, "has more elements than 63 bits count");
    }
  }
  if (!empty && tensor.data == nullptr) return reject(what, "has data that is NULL");
  return {};
}

}  // namespace

fusec_dtype dtype_to_c(DType dtype) {
  const uint8_t code = dtype == DType::bool_  ? FUSEC_DTYPE_BOOL
                       : dtype == DType::bf16 ? FUSEC_DTYPE_BFLOAT
                       : is_float(dtype)      ? FUSEC_DTYPE_FLOAT
                       : is_signed_int(dtype) ? FUSEC_DTYPE_INT
                                              : FUSEC_DTYPE_UINT;
  return {code, static_cast<uint8_t>(8 * size_of(dtype)), 1};
}

Result<Tensor> borrow(const fusec_tensor& tensor, const std::string& what) {
  const std::optional<DType> dtype = dtype_from_c(tensor.dtype);
  if (!dtype) {
    return reject(what, fmt::format("has a dtype of code {}, {} bits and {} lanes, which fusec does not have",
                                    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes));
  }
  FUSEC_ASSIGN(const Device device, device_from_c(tensor.device, what));
  FUSEC_TRY(check_extents(tensor, what));
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim), strides;
  if (tensor.strides != nullptr) strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  void* data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return Tensor::borrow(*dtype, std::move(shape), data, std::move(strides), device);
}

Result<std::vector<Tensor>> borrow_all(const fusec_tensor* tensors, std::size_t count, const char* parameter) {
  if (count > 0) FUSEC_TRY(check_pointer(tensors, parameter));
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < count; ++i) {
    FUSEC_ASSIGN(Tensor tensor, borrow(tensors[i], fmt::format("{}[{}]", parameter, i)));
    out.push_back(std::move(tensor));
  }
  return out;
}

Result<Tensor> copy_to_host(const fusec_tensor& tensor, const std::string& what) {
  FUSEC_ASSIGN(const Tensor from, borrow(tensor, what));
  FUSEC_ASSIGN(Tensor to, Tensor::make(from.dtype(), from.shape()));
  if (from.num_elements() > 0) FUSEC_TRY(copy(from, to));
  return to;
}

Result<SharedTensor> share(const fusec_managed_tensor& managed, const std::string& what, const char* copying) {
  FUSEC_ASSIGN(const Tensor tensor, borrow(managed.tensor, what));
  const char* const why = managed.version.major != 1 ? "is of another DLPack than 1.x"
                          : !tensor.on_host()        ? "lies on a GPU"
                          : !tensor.is_contiguous()  ? "is not dense"
                          : reinterpret_cast<std::uintptr_t>(tensor.data()) % size_of(tensor.dtype()) != 0
                              ? "is not aligned to its elements"
                              : nullptr;
  if (why != nullptr) {
    return Status(StatusCode::invalid_argument,
                  what + " " + why + "; give its tensor to " + copying + ", which copies");
  }
  auto owner = std::make_shared<ManagedOwner>();
  return SharedTensor{Tensor::share(tensor.dtype(), tensor.shape(), const_cast<void*>(tensor.data()), owner), owner};
}

// A Tensor has no way to change its address. Its own vectors, which belong to no const object, go into the new one.
void set_data(Tensor& tensor, void* data) {
  auto& shape = const_cast<std::vector<int64_t>&>(tensor.shape());
  auto& strides = const_cast<std::vector<int64_t>&>(tensor.strides());
  tensor = Tensor::borrow(tensor.dtype(), std::move(shape), data, std::move(strides), tensor.device());
}

}  // namespace fusec::c
