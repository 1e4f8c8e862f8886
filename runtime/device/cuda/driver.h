// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions, found in libcuda.so.1 at run time: the binary runs where there is none. A
// test puts a table of its own in its place.
#pragma once

#include <cuda.h>

#include <string>

#include "fusec/status.h"

namespace fusec::runtime::cuda {

// As in ir/support/shared_library.h, but for the members, which have the names that the library exports. Needed ones
// are in drivers of CUDA 12.0 and later; cuFuncGetName is since 12.3, cuFuncLoad since 12.4.
// clang-format off
#define FUSEC_CUDA_DRIVER(X, WANT)                                                                                    \
  X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceTotalMem_v2)  \
  X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuCtxGetCurrent)        \
  X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemFree_v2)              \
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2)              \
  X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpy2DAsync_v2) X(cuMemsetD8_v2) X(cuMemsetD32Async)    \
  X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamWaitEvent)                           \
  X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuGraphInstantiateWithFlags)        \
  X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuGraphUpload) X(cuGraphLaunch) X(cuEventCreate) X(cuEventDestroy_v2) \
  X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime) X(cuLibraryLoadData) X(cuLibraryUnload)          \
  X(cuLibraryGetKernel) X(cuKernelGetFunction) X(cuFuncSetAttribute) X(cuFuncGetAttribute) X(cuLaunchKernelEx)  \
  X(cuGetErrorName) X(cuGetErrorString) WANT(cuFuncLoad)          \
  WANT(cuFuncGetName)
// clang-format on

// Called as table.cuMemAlloc(...): cuda.h maps that word to the member's name.
struct Driver {
#define FUSEC_MEMBER(name) decltype(&::name) name = nullptr;
#define FUSEC_NEED(name) visit(#name, name, true);
#define FUSEC_WANT(name) visit(#name, name, false);
  FUSEC_CUDA_DRIVER(FUSEC_MEMBER, FUSEC_MEMBER)
  template <class Visit>
  void for_each_function(const Visit& visit) {
    FUSEC_CUDA_DRIVER(FUSEC_NEED, FUSEC_WANT)
  }
#undef FUSEC_MEMBER
#undef FUSEC_NEED
#undef FUSEC_WANT
};

// The process's driver, opened and initialized at the first call. device, saying what was looked for, when there is
// none.
Result<const Driver*> driver();

// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
std::string error_text(const Driver& driver, CUresult result);

// While alive, `driver()` answers this table, already initialized. For tests; not while Contexts of another table live.
class DriverForTest {
 public:
  explicit DriverForTest(const Driver& table);
  ~DriverForTest();
  DriverForTest(const DriverForTest&) = delete;
  DriverForTest& operator=(const DriverForTest&) = delete;
};

}  // namespace fusec::runtime::cuda
