// SPDX-License-Identifier: Apache-2.0
// A model's configuration (config.pbtxt), which Triton gives and takes as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings/triton/interface.h"

namespace fusec::triton {

struct Config {
  std::string file;  // of the model, in the folder of its version; empty: model.fsc, else model.onnx
  // Where instances may run, in the order to be tried: what the first group of instances says, "cpu" or "cuda:1", or
  // the CPU and then a GPU.
  std::vector<std::string> devices;
  int64_t max_batch = 0;
  std::vector<std::pair<std::string, std::string>> options;  // the parameters: fusec's option keys
};

Error read_config(TRITONBACKEND_Model* model, Config& out);

// Adds what the configuration leaves out: the inputs and outputs, and where it has neither of these nor a
// max_batch_size and the model can be batched, max_batch_size and dynamic batching. Reports it to Triton.
Error complete_config(TRITONBACKEND_Model* model, const Interface& interface);

// Refuses names, types, extents and a batch size that are not the model's.
Error check_config(TRITONBACKEND_Model* model, const Interface& interface);

}  // namespace fusec::triton
