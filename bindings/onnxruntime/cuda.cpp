// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/cuda.h"

#include <dlfcn.h>

namespace fusec::ort {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

Failure no_driver(const std::string& why) {
  return Failure(ErrorCode::ep_fail, "fusec: the driver of NVIDIA's GPUs cannot be used: " + why);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw no_driver(std::string(kLibrary) + " lacks " + name);
}

}  // namespace

void Cuda::check(CudaResult result, const char* call) const {
  if (result == 0) return;
  const char* name = nullptr;
  if (get_error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  throw Failure(ErrorCode::ep_fail, std::string("fusec: ") + call + ": " + name);
}

Cuda open_cuda() {
  void* const library = dlopen(kLibrary, RTLD_NOW);  // stays open: other parts of the process use the driver, too
  if (library == nullptr) throw no_driver(dlerror());
  Cuda cuda;
  find(library, "cuInit", cuda.init);
  find(library, "cuDeviceGet", cuda.get_device);
  find(library, "cuDeviceGetByPCIBusId", cuda.get_device_at);
  find(library, "cuDevicePrimaryCtxRetain", cuda.retain_context);
  find(library, "cuDevicePrimaryCtxRelease_v2", cuda.release_context);
  find(library, "cuCtxPushCurrent_v2", cuda.push_context);
  find(library, "cuCtxPopCurrent_v2", cuda.pop_context);
  find(library, "cuMemAlloc_v2", cuda.allocate);
  find(library, "cuMemFree_v2", cuda.free);
  find(library, "cuMemHostAlloc", cuda.allocate_host);
  find(library, "cuMemFreeHost", cuda.free_host);
  find(library, "cuMemcpyAsync", cuda.copy);
  find(library, "cuStreamCreate", cuda.create_stream);
  find(library, "cuStreamDestroy_v2", cuda.destroy_stream);
  find(library, "cuStreamSynchronize", cuda.wait_for_stream);
  find(library, "cuEventCreate", cuda.create_event);
  find(library, "cuEventDestroy_v2", cuda.destroy_event);
  find(library, "cuEventRecord", cuda.record_event);
  find(library, "cuStreamWaitEvent", cuda.make_stream_wait);
  find(library, "cuEventSynchronize", cuda.wait_for_event);
  find(library, "cuGetErrorName", cuda.get_error_name);
  cuda.check(cuda.init(0), "cuInit");
  return cuda;
}

}  // namespace fusec::ort
