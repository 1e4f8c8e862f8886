// SPDX-License-Identifier: Apache-2.0
// One request while it is answered: where its inputs lie, and where its outputs go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/triton/interface.h"

namespace fusec::triton {

// Contiguous bytes; of an input or of an output.
struct Part {
  void* data = nullptr;
  uint64_t bytes = 0;
  fusec_device device = {FUSEC_DEVICE_CPU, 0};
  bool on_gpu() const { return device.type == FUSEC_DEVICE_CUDA; }
};

struct Operand {
  std::vector<int64_t> extents;
  std::vector<Part> parts;  // in order; of an output one, or none where the request does not ask for it
  uint64_t bytes = 0;
};

struct Job {
  TRITONBACKEND_Request* request = nullptr;
  TRITONBACKEND_Response* response = nullptr;  // null: none was made, or it has been sent
  std::vector<Operand> inputs, outputs;        // in the order of the model
  Error error;                                 // to be answered in place of outputs
};

// The inputs of the request. Refuses a type or rank that is not the model's.
Error read_inputs(const Interface& interface, Job& job);
// Makes the response, and asks for memory for the outputs that the request names. Their extents are set.
Error open_outputs(const Interface& interface, Job& job);
// Sends the response, with the error if there is one, and releases the request.
void finish(Job& job);

bool on_gpu(const Job& job);
uint64_t count_bytes(const TensorInfo& info, const std::vector<int64_t>& extents);
fusec_tensor to_tensor(const TensorInfo& info, std::vector<int64_t>& extents, const Part& part);

}  // namespace fusec::triton
