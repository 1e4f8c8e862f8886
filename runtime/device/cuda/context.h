// SPDX-License-Identifier: Apache-2.0
// Context: the primary context of one GPU, as the whole process shares it, and whether it still works.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "fusec/status.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/host/process.h"

namespace fusec::runtime::cuda {

// Thread-safe. The context is retained while a Context lives, once per device and process; it is never made nor reset
// here.
class Context {
 public:
  // device when there is no driver, no such GPU, or the GPU is lost.
  static Result<std::shared_ptr<Context>> open(int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }
  int ordinal() const { return ordinal_; }
  std::string name() const { return "cuda:" + std::to_string(ordinal_); }

  // The answer of a driver call as a Status that names the call: out_of_memory or device. An error that leaves the
  // context unusable (an illegal address, a failed launch, ...) is kept as the one that lost the GPU.
  Status check(CUresult result, const char* call) const;
  // Ok until the GPU is lost; then device, with the error that lost it. In a child made by fork: device, without asking
  // the driver, whose contexts do not pass into children.
  Status alive() const;

 private:
  Context(const Driver& driver, CUdevice device, CUcontext handle, int ordinal)
      : driver_(&driver), device_(device), handle_(handle), ordinal_(ordinal), forks_(forks()) {}
  static Result<std::shared_ptr<Context>> retain(const Driver& driver, int ordinal);

  const Driver* driver_;
  CUdevice device_;
  CUcontext handle_;
  int ordinal_;
  uint64_t forks_;  // when it was opened
  mutable std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  mutable std::string first_error_;  // that lost it
};

using ContextPtr = std::shared_ptr<const Context>;

// While alive, this thread's driver calls go to the context; the caller's own is current again afterwards.
class Current {
 public:
  explicit Current(const Context& context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  // Whether it could be made current.
  const Status& status() const { return status_; }

 private:
  const Context& context_;
  bool pushed_ = false;
  Status status_;
};

}  // namespace fusec::runtime::cuda
