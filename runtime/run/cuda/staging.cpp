// SPDX-License-Identifier: Apache-2.0
// Moves one input or output of the caller between its memory and the address that the launches use, during a run on a
// GPU. Host tensors go through pinned memory; device tensors that are strided, misaligned or at changing addresses are
// copied on the GPU.

#include <cstring>

#include "runtime/device/cuda/tensors.h"
#include "runtime/device/host/memory.h"
#include "runtime/run/cuda/frame.h"

namespace fusec::runtime::cuda {
namespace {

int64_t element_of(const Tensor& t) { return static_cast<int64_t>(size_of(t.dtype())); }

// A row-major tensor in memory of the session.
Tensor staged_like(const Tensor& t, void* data) { return Tensor::borrow(t.dtype(), t.shape(), data, {}, t.device()); }

}  // namespace

Status Staged::place(const ContextPtr& context, const Tensor& tensor, bool copy, const MemorySource& source) {
  path_ = TransferPath::direct;
  address_ = const_cast<void*>(tensor.data());
  if (tensor.num_elements() == 0) return {};
  const auto bytes = static_cast<int64_t>(tensor.bytes());
  if (tensor.on_host()) {
    path_ = TransferPath::from_host;
    FUSEC_TRY(grow(host_, context, bytes).status());
  } else if (copy) {
    path_ = TransferPath::from_device;
  } else {
    return {};
  }
  FUSEC_TRY(grow(device_, context, bytes, source).status());
  address_ = device_.data();
  return {};
}

bool Staged::grows_for(const Tensor& tensor, bool copy) const {
  return (copy || tensor.on_host()) && static_cast<int64_t>(tensor.bytes()) > device_.bytes();
}

Status Staged::bring(const Context& context, const Tensor& input, RowMajor& row_major, CUstream stream,
                     bool again) const {
  if (path_ == TransferPath::direct) return {};
  if (path_ == TransferPath::from_device)
    return copy_on_stream(context, input, address_, row_major.strides(input.shape()), stream);
  if (again) {
    // What lies in host_ may be read at this time.
  } else if (input.is_contiguous()) {
    std::memcpy(host_.data(), input.data(), input.bytes());
  } else {
    strided_copy(host_.data(), row_major.strides(input.shape()), input.data(), input.strides(), input.shape(),
                 element_of(input));
  }
  const CUresult result = context.driver().cuMemcpyHtoDAsync(address_of(address_), host_.data(), input.bytes(), stream);
  return context.check(result, "cuMemcpyHtoDAsync");
}

Status Staged::take_back(const Context& context, const Tensor& output, CUstream stream) const {
  if (path_ == TransferPath::direct) return {};
  if (path_ == TransferPath::from_device) {
    return copy_on_stream(context, staged_like(output, address_), const_cast<void*>(output.data()), output.strides(),
                          stream);
  }
  const CUresult result =
      context.driver().cuMemcpyDtoHAsync(host_.data(), address_of(address_), output.bytes(), stream);
  return context.check(result, "cuMemcpyDtoHAsync");
}

void Staged::finish(Tensor& output, RowMajor& row_major) const {
  if (path_ != TransferPath::from_host) return;
  if (output.is_contiguous()) {
    std::memcpy(output.data(), host_.data(), output.bytes());
  } else {
    strided_copy(output.data(), output.strides(), host_.data(), row_major.strides(output.shape()), output.shape(),
                 element_of(output));
  }
}

}  // namespace fusec::runtime::cuda
