// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA driver that the provider calls. The driver is opened when the first GPU is asked for;
// nothing is linked.
#pragma once

#include <cstddef>
#include <string>

#include "bindings/onnxruntime/api.h"

namespace fusec::ort {

// The driver's types, as its binary interface has them.
using CudaAddress = unsigned long long;
using CudaResult = int;  // 0: success
using CudaContext = struct CudaContextRecord*;
using CudaStream = struct CudaStreamRecord*;
using CudaEvent = struct CudaEventRecord*;
constexpr CudaResult kCudaOutOfMemory = 2;
constexpr unsigned kCudaEventWithoutTime = 2;

struct Cuda {
  CudaResult (*init)(unsigned flags);
  CudaResult (*get_device)(int* device, int ordinal);
  CudaResult (*get_device_at)(int* device, const char* bus_address);
  CudaResult (*retain_context)(CudaContext* context, int device);
  CudaResult (*release_context)(int device);
  CudaResult (*push_context)(CudaContext context);
  CudaResult (*pop_context)(CudaContext* context);
  CudaResult (*allocate)(CudaAddress* memory, std::size_t bytes);
  CudaResult (*free)(CudaAddress memory);
  CudaResult (*allocate_host)(void** memory, std::size_t bytes, unsigned flags);
  CudaResult (*free_host)(void* memory);
  CudaResult (*copy)(CudaAddress to, CudaAddress from, std::size_t bytes, CudaStream stream);
  CudaResult (*create_stream)(CudaStream* stream, unsigned flags);
  CudaResult (*destroy_stream)(CudaStream stream);
  CudaResult (*wait_for_stream)(CudaStream stream);
  CudaResult (*create_event)(CudaEvent* event, unsigned flags);
  CudaResult (*destroy_event)(CudaEvent event);
  CudaResult (*record_event)(CudaEvent event, CudaStream stream);
  CudaResult (*make_stream_wait)(CudaStream stream, CudaEvent event, unsigned flags);
  CudaResult (*wait_for_event)(CudaEvent event);
  CudaResult (*get_error_name)(CudaResult result, const char** name);

  // Throws Failure where a call failed.
  void check(CudaResult result, const char* call) const;
};

// Throws Failure where there is no driver, where it lacks a function, and where it finds no GPU.
Cuda open_cuda();

}  // namespace fusec::ort
