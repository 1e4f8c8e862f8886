// SPDX-License-Identifier: Apache-2.0
// One instance of a model: a session on the instance's device, for one thread of Triton at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/triton/job.h"
#include "bindings/triton/model.h"

namespace fusec::triton {

// Memory that grows and is used again.
class Staging {
 public:
  std::byte* take(std::size_t bytes);  // at a multiple of 64, also for 0 bytes; contents are lost

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

class Instance {
 public:
  static Error open(TRITONBACKEND_ModelInstance* instance, Model& model, std::unique_ptr<Instance>& out);

  // Answers and releases all requests. Those of equal extents beside the batch share a run; those with memory of a GPU
  // run alone, where it lies.
  void execute(TRITONBACKEND_Request** requests, uint32_t count);

 private:
  struct Times {
    uint64_t begin = 0, compute = 0, computed = 0;
  };
  Error prepare(Job& job);
  Error run_all(std::vector<Job>& jobs);
  Error find_outputs(Job& job);
  Error run_group(const std::vector<Job*>& group);
  Error run_alone(Job& job);
  Error run_together(const std::vector<Job*>& group);
  Error run(const std::vector<fusec_tensor>& inputs, const std::vector<fusec_tensor>& outputs);
  void report(const std::vector<Job*>& group);

  TRITONBACKEND_ModelInstance* instance_ = nullptr;
  const Model* model_ = nullptr;
  EnginePtr engine_;
  Handle<fusec_session> session_;
  std::vector<Staging> inputs_, outputs_;  // by number of the tensor
  Times times_;                            // of the requests and the run at hand
};

}  // namespace fusec::triton
