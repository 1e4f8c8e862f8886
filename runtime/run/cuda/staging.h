// SPDX-License-Identifier: Apache-2.0
// Where the caller's tensors are for the launches of one run: where they lie, or in memory of the session on the GPU
// that copies go to and come from.
#pragma once

#include <span>
#include <vector>

#include "runtime/device/cuda/handles.h"
#include "runtime/run/runner.h"

namespace fusec::runtime::cuda {

// How a tensor gets to the address that the launches use.
enum class TransferPath : uint8_t {
  direct,       // the launches use it where it lies
  from_host,    // through pinned memory
  from_device,  // by a copy on the GPU
};

// One input or output.
class Staged {
 public:
  // Decides by the tensor; memory grows as needed. `copy`: a tensor of the GPU is copied too.
  Status place(const ContextPtr& context, const Tensor& tensor, bool copy);
  // Whether place() would give memory back.
  bool grows_for(const Tensor& tensor, bool copy) const;
  TransferPath path() const { return path_; }
  void* address() const { return address_; }

  // Put on the stream before and after the launches. The host's part of an input is done at once.
  Status bring(const Context& context, const Tensor& input, RowMajor& row_major, CUstream stream) const;
  Status take_back(const Context& context, const Tensor& output, CUstream stream) const;
  // The host's part of an output, when the stream is done.
  void finish(Tensor& output, RowMajor& row_major) const;

 private:
  TransferPath path_ = TransferPath::direct;
  void* address_ = nullptr;
  DeviceBuffer device_;
  PinnedBuffer host_;
};

}  // namespace fusec::runtime::cuda
