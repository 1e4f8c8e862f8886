// SPDX-License-Identifier: Apache-2.0
// Allocates device memory for the weights that libraries pack at bind, and uploads them. Each call makes the context
// current by itself, because libraries are bound from several threads.

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/device/cuda/handles.h"
#include "runtime/run/cuda/link.h"

namespace fusec::runtime::cuda {
namespace {

class LibraryMemory final : public DeviceMemory {
 public:
  explicit LibraryMemory(ContextPtr context) : context_(std::move(context)) {}

  Result<void*> allocate(std::size_t bytes) override {
    const Current current(*context_);
    FUSEC_TRY(current.status());
    FUSEC_ASSIGN(DeviceBuffer buffer, DeviceBuffer::make(context_, std::max<int64_t>(static_cast<int64_t>(bytes), 1)));
    void* const data = buffer.data();
    const std::lock_guard lock(mutex_);
    buffers_.emplace(data, std::move(buffer));
    return data;
  }

  Status upload(void* device, const void* host, std::size_t bytes) override {
    if (bytes == 0) return {};
    const Current current(*context_);
    FUSEC_TRY(current.status());
    const Driver& driver = context_->driver();
    FUSEC_TRY(context_->check(driver.cuMemcpyHtoD(address_of(device), host, bytes), "cuMemcpyHtoD"));
    return context_->check(driver.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }

  const void* place() const override { return context_.get(); }

  std::string device_name() const override {
    char name[256] = "";
    int multiprocessors = 0;
    const Driver& driver = context_->driver();
    if (driver.cuDeviceGetName(name, sizeof(name) - 1, context_->device()) != CUDA_SUCCESS ||
        driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context_->device()) !=
            CUDA_SUCCESS) {
      return {};
    }
    return std::string(name) + ", " + std::to_string(multiprocessors) + " SMs";
  }

  void free(void* device) override {
    DeviceBuffer last;
    const std::lock_guard lock(mutex_);
    if (auto it = buffers_.find(device); it != buffers_.end()) {
      last = std::move(it->second);
      buffers_.erase(it);
    }
  }

 private:
  ContextPtr context_;
  std::mutex mutex_;
  std::map<void*, DeviceBuffer> buffers_;
};

}  // namespace

std::shared_ptr<DeviceMemory> make_library_memory(ContextPtr context) {
  return std::make_shared<LibraryMemory>(std::move(context));
}

}  // namespace fusec::runtime::cuda
