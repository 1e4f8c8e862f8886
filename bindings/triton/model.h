// SPDX-License-Identifier: Apache-2.0
// A model that Triton serves: its file, its options, and one engine for each device that its instances run on.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/triton/config.h"

namespace fusec::triton {

struct EndHandle {
  void operator()(fusec_options* handle) const { fusec_options_free(handle); }
  void operator()(fusec_model* handle) const { fusec_model_free(handle); }
  void operator()(fusec_engine* handle) const { fusec_engine_free(handle); }
  void operator()(fusec_session* handle) const { fusec_session_free(handle); }
};
template <class T>
using Handle = std::unique_ptr<T, EndHandle>;
using EnginePtr = std::shared_ptr<fusec_engine>;

class Model {
 public:
  // Reads the configuration and the model, and completes or checks the configuration.
  static Error open(TRITONBACKEND_Model* model, std::unique_ptr<Model>& out);

  // Thread-safe. The engine of a device ("cpu", "cuda:1"), made when it is first asked for.
  Error engine(const std::string& device, EnginePtr& out);
  const Interface& interface() const { return interface_; }
  bool batches() const { return config_.max_batch > 0; }

 private:
  Error find_file(TRITONBACKEND_Model* model);
  Error make_options(const std::string& device, Handle<fusec_options>& out) const;
  Error make_engine(const std::string& device, EnginePtr& out) const;
  Error read_interface_of_file();

  Config config_;
  std::string path_;  // model.fsc or model.onnx
  Interface interface_;
  std::mutex mutex_;
  std::map<std::string, EnginePtr> engines_;  // by device
};

}  // namespace fusec::triton
