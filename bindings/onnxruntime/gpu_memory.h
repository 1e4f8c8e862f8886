// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime calls to allocate memory of a GPU, to copy it and to put work in order. Each object ends itself, or
// is ended by the factory, when ONNX Runtime says so.
#pragma once

#include <functional>

#include "bindings/onnxruntime/gpu.h"

namespace fusec::ort {

constexpr uint32_t kNvidia = 0x10DE;  // the vendor's number on the PCI bus

// Where memory lies: on a GPU of NVIDIA, or where the host reads it.
struct Place {
  bool on_gpu = false;
  bool is_pinned = false;  // memory of the host that a GPU reads, too
  bool known = false;      // neither, if not
  int ordinal = 0;         // of the GPU
};
Place place_of(const Api& api, const OrtMemoryDevice* device);
Place place_of(const Api& api, const OrtValue* value);

// An allocator of a GPU's memory or, where `is_host`, of pinned memory of the host. `info` describes it. The GPU and
// `info` must outlive it.
OrtAllocator* make_allocator(const Api& api, Gpu& gpu, const OrtMemoryInfo* info, bool is_host);
void end_allocator(OrtAllocator* allocator);

// Copies between the host, pinned memory and a GPU, and inside of a GPU. `find` answers the GPU of an ordinal, or null;
// it must stay valid as long as the object.
OrtDataTransferImpl* make_data_transfer(const Api& api, std::function<Gpu*(int ordinal)> find);

// A stream of the GPU, whose handle is a CUstream. The GPU must outlive it.
OrtSyncStreamImpl* make_stream(const Api& api, Gpu& gpu);

}  // namespace fusec::ort
