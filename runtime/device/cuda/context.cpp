// SPDX-License-Identifier: Apache-2.0
// Retains the primary context of each GPU once per process and classifies driver errors: errors that break the context
// are remembered, and `alive` reports them from then on. In a child made by fork it must not call the driver.

#include "runtime/device/cuda/context.h"

#include <map>
#include <utility>

namespace fusec::runtime::cuda {
namespace {

// Errors after which every later call in the context fails, by cuda.h.
bool loses_the_gpu(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_DEINITIALIZED:
      return true;
    default:
      return false;
  }
}

// The Contexts of the process, by driver and ordinal.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<const Driver*, int>, std::weak_ptr<Context>> contexts;
};
Registry& registry() {
  static Registry all;
  return all;
}

// CUDA cannot be used in a child of a process that has initialized it, and the child cannot initialize it again.
Status of_the_parent(int ordinal) {
  return Status(StatusCode::device,
                "cuda:" + std::to_string(ordinal) +
                    " was opened before this process was forked, and CUDA does not work in such a child: open it "
                    "after fork, or start the process with exec");
}

Status no_such_device(int ordinal, int count) {
  return Status(StatusCode::device, "there is no cuda:" + std::to_string(ordinal) + ": the driver lists " +
                                        std::to_string(count) + (count == 1 ? " GPU" : " GPUs"));
}

}  // namespace

Result<std::shared_ptr<Context>> Context::retain(const Driver& driver, int ordinal) {
  const auto failed = [&](CUresult result, const char* call) {
    return Status(StatusCode::device,
                  std::string(call) + ": " + error_text(driver, result) + " for cuda:" + std::to_string(ordinal));
  };
  int count = 0;
  if (CUresult r = driver.cuDeviceGetCount(&count); r != CUDA_SUCCESS) return failed(r, "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) return no_such_device(ordinal, count);
  CUdevice device = 0;
  if (CUresult r = driver.cuDeviceGet(&device, ordinal); r != CUDA_SUCCESS) return failed(r, "cuDeviceGet");
  CUcontext handle = nullptr;
  if (CUresult r = driver.cuDevicePrimaryCtxRetain(&handle, device); r != CUDA_SUCCESS) {
    return failed(r, "cuDevicePrimaryCtxRetain");
  }
  return std::shared_ptr<Context>(new Context(driver, device, handle, ordinal));
}

Result<std::shared_ptr<Context>> Context::open(int ordinal) {
  FUSEC_ASSIGN(const Driver* const table, cuda::driver());
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<Context>& known = registry().contexts[{table, ordinal}];
  if (std::shared_ptr<Context> context = known.lock()) {
    FUSEC_TRY(context->alive());
    return context;
  }
  FUSEC_ASSIGN(std::shared_ptr<Context> context, retain(*table, ordinal));
  known = context;
  return context;
}

Context::~Context() {
  if (forks() == forks_) (void)driver_->cuDevicePrimaryCtxRelease(device_);
}

Status Context::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return {};
  const std::string text = std::string(call) + ": " + error_text(*driver_, result) + " on " + name();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return Status(StatusCode::out_of_memory, text);
  if (!loses_the_gpu(result)) return Status(StatusCode::device, text);
  const std::lock_guard lock(mutex_);
  if (first_error_.empty()) first_error_ = text;
  lost_ = true;
  return Status(StatusCode::device, text);
}

Status Context::alive() const {
  if (forks() != forks_) return of_the_parent(ordinal_);
  if (!lost_) return {};
  const std::lock_guard lock(mutex_);
  return Status(StatusCode::device, name() + " is lost to this process since " + first_error_);
}

Current::Current(const Context& context) : context_(context) {
  CUcontext now = nullptr;
  status_ = context.check(context.driver().cuCtxGetCurrent(&now), "cuCtxGetCurrent");
  if (!status_.ok() || now == context.handle()) return;
  status_ = context.check(context.driver().cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

Current::~Current() {
  CUcontext ours = nullptr;
  if (pushed_) (void)context_.driver().cuCtxPopCurrent(&ours);
}

}  // namespace fusec::runtime::cuda
