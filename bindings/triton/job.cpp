// SPDX-License-Identifier: Apache-2.0
// Reads requests and writes responses.

#include "bindings/triton/job.h"

#include <algorithm>
#include <cinttypes>

namespace fusec::triton {
namespace {

fusec_device device_of(TRITONSERVER_MemoryType memory, int64_t id) {
  if (memory == TRITONSERVER_MEMORY_GPU) return {FUSEC_DEVICE_CUDA, static_cast<int32_t>(id)};
  return {FUSEC_DEVICE_CPU, 0};
}

Error read_input(const TensorInfo& info, TRITONBACKEND_Request* request, Operand& out) {
  TRITONBACKEND_Input* input = nullptr;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t* extents = nullptr;
  uint32_t rank = 0, buffers = 0;
  FUSEC_TRITON_TRY(TRITONBACKEND_RequestInput(request, info.name.c_str(), &input));
  FUSEC_TRITON_TRY(TRITONBACKEND_InputProperties(input, nullptr, &type, &extents, &rank, &out.bytes, &buffers));
  if (type != info.type || rank != info.extents.size())
    return refuse("input '" + info.name + "' has another type or rank than the model's");
  out.extents.assign(extents, extents + rank);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < buffers; ++i) {
    const void* data = nullptr;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    Part part;
    FUSEC_TRITON_TRY(TRITONBACKEND_InputBuffer(input, i, &data, &part.bytes, &memory, &id));
    part.data = const_cast<void*>(data);  // inputs of a run are not written
    part.device = device_of(memory, id);
    sum += part.bytes;
    out.parts.push_back(part);
  }
  if (sum != count_bytes(info, out.extents))
    return refuse("input '" + info.name + "' has " + std::to_string(sum) + " bytes, and its shape says " +
                  std::to_string(count_bytes(info, out.extents)));
  return nullptr;
}

}  // namespace

uint64_t count_bytes(const TensorInfo& info, const std::vector<int64_t>& extents) {
  uint64_t bytes = info.dtype.bits / 8;
  for (const int64_t extent : extents) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

fusec_tensor to_tensor(const TensorInfo& info, std::vector<int64_t>& extents, const Part& part) {
  fusec_tensor tensor = {};
  tensor.data = part.data;
  tensor.device = part.device;
  tensor.ndim = static_cast<int32_t>(extents.size());
  tensor.dtype = info.dtype;
  tensor.shape = extents.data();
  return tensor;
}

bool on_gpu(const Job& job) {
  const auto any = [](const std::vector<Operand>& operands) {
    return std::any_of(operands.begin(), operands.end(), [](const Operand& operand) {
      return std::any_of(operand.parts.begin(), operand.parts.end(), [](const Part& part) { return part.on_gpu(); });
    });
  };
  return any(job.inputs) || any(job.outputs);
}

Error read_inputs(const Interface& interface, Job& job) {
  job.inputs.resize(interface.inputs.size());
  for (std::size_t i = 0; i < interface.inputs.size(); ++i)
    FUSEC_TRITON_TRY(read_input(interface.inputs[i], job.request, job.inputs[i]));
  return nullptr;
}

Error open_outputs(const Interface& interface, Job& job) {
  FUSEC_TRITON_TRY(TRITONBACKEND_ResponseNew(&job.response, job.request));
  uint32_t count = 0;
  FUSEC_TRITON_TRY(TRITONBACKEND_RequestOutputCount(job.request, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    FUSEC_TRITON_TRY(TRITONBACKEND_RequestOutputName(job.request, i, &name));
    const auto info = std::find_if(interface.outputs.begin(), interface.outputs.end(),
                                   [&](const TensorInfo& o) { return o.name == name; });
    if (info == interface.outputs.end()) return refuse("the model has no output '" + std::string(name) + "'");
    Operand& output = job.outputs[static_cast<std::size_t>(info - interface.outputs.begin())];
    TRITONBACKEND_Output* opened = nullptr;
    FUSEC_TRITON_TRY(TRITONBACKEND_ResponseOutput(job.response, &opened, name, info->type, output.extents.data(),
                                                  static_cast<uint32_t>(output.extents.size())));
    Part part;
    part.bytes = output.bytes;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    FUSEC_TRITON_TRY(TRITONBACKEND_OutputBuffer(opened, &part.data, part.bytes, &memory, &id));
    part.device = device_of(memory, id);
    output.parts = {part};
  }
  return nullptr;
}

void finish(Job& job) {
  if (job.response == nullptr) log_error(take(TRITONBACKEND_ResponseNew(&job.response, job.request)));
  if (job.response != nullptr) {
    log_error(take(TRITONBACKEND_ResponseSend(job.response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, job.error.get())));
    job.response = nullptr;
  }
  log_error(take(TRITONBACKEND_RequestRelease(job.request, TRITONSERVER_REQUEST_RELEASE_ALL)));
}

}  // namespace fusec::triton
