// SPDX-License-Identifier: Apache-2.0
// What GPUs did and when, also inside captured graphs, as CUPTI tells: NVIDIA's library for profilers, which is found
// at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::runtime::cuda {

struct DeviceWork {
  enum class Kind : uint8_t { kernel, copy, fill };
  Kind kind = Kind::kernel;
  std::string name;            // of a kernel
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  uint32_t device = 0, stream = 0;
  int registers = 0;        // of a kernel, per thread
  int64_t local_bytes = 0;  // of a kernel, per thread
  int64_t bytes = 0;        // of a copy or fill
};

// While alive, the work of all GPUs of the process is recorded. One at a time.
class WorkRecorder {
 public:
  // unsupported: there is no CUPTI, it is of another version, or another recorder lives. device: it refuses, for
  // example because another profiler uses it.
  static Result<std::unique_ptr<WorkRecorder>> start();
  virtual ~WorkRecorder() = default;
  // What ended since the last call, in the order of begins. Whoever calls has waited for it.
  virtual Result<std::vector<DeviceWork>> take() = 0;
};

}  // namespace fusec::runtime::cuda
