// SPDX-License-Identifier: Apache-2.0
// The GPUs of the process, and what ONNX Runtime knows of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bindings/onnxruntime/gpu.h"

namespace fusec::ort {

class GpuList {
 public:
  struct Entry {
    std::unique_ptr<Gpu> gpu;
    std::string name;
    OrtMemoryInfo* memory = nullptr;
    OrtMemoryInfo* pinned = nullptr;              // memory of the host
    const OrtHardwareDevice* hardware = nullptr;  // with which ONNX Runtime lists it
    OrtHardwareDevice* made = nullptr;            // the same, if ONNX Runtime did not find it
  };

  // The GPUs that fusec can use, each with the hardware that ONNX Runtime found for it. Where it found none, as in
  // containers, the provider makes one; releases before 1.24 do not take that, and the GPU goes with the CPU. `api`
  // must outlive the list. Throws Failure where the driver cannot be used.
  GpuList(const Api& api, const std::vector<const OrtHardwareDevice*>& hardware);
  GpuList(const GpuList&) = delete;
  GpuList& operator=(const GpuList&) = delete;
  ~GpuList();

  const std::vector<Entry>& entries() const { return entries_; }
  // Null where there is none.
  const Entry* find(int ordinal) const;

 private:
  void add(int ordinal, std::string name);
  void pair_by_address(const OrtHardwareDevice* hardware);
  void pair_rest(const std::vector<const OrtHardwareDevice*>& hardware);

  const Api& api_;
  Cuda cuda_ = {};
  std::vector<Entry> entries_;
  std::vector<const OrtHardwareDevice*> unplaced_;  // GPUs of which ONNX Runtime does not say where they are
};

bool is_nvidia_gpu(const Api& api, const OrtHardwareDevice* hardware);

}  // namespace fusec::ort
