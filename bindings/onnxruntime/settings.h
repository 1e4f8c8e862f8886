// SPDX-License-Identifier: Apache-2.0
// What a session asks of the provider: entries `ep.fusec.<key>` and `ep.context_...` of its configuration.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/onnxruntime/fusec_api.h"
#include "bindings/onnxruntime/gpu.h"

namespace fusec::ort {

constexpr const char* kProviderName = "fusec";

// Copies of weights for a session on a GPU, one of each for all attempts to compile a graph. They are found by address,
// so they are cleared before ONNX Runtime may free what they were made from.
class WeightCopies {
 public:
  using Bytes = std::vector<std::byte>;
  std::shared_ptr<const Bytes> copy_of(std::span<const std::byte> data) {
    std::shared_ptr<const Bytes>& copy = copies_[data.data()];
    if (copy == nullptr) copy = std::make_shared<const Bytes>(data.begin(), data.end());
    return copy;
  }
  void clear() { copies_.clear(); }

 private:
  std::map<const std::byte*, std::shared_ptr<const Bytes>> copies_;
};

struct Settings {
  std::vector<std::pair<std::string, std::string>> entries;  // keys of fusec and their values, in order
  std::string device = "cpu";
  Gpu* gpu = nullptr;           // in whose memory ONNX Runtime keeps tensors; null: they lie on the host
  bool strict = false;          // a node that is left to others fails the session
  bool writes_context = false;  // ep.context_enable
  bool embeds_context = false;  // ep.context_embed_mode: packages lie inside the model, not beside it
  std::string context_path;     // ep.context_file_path
  std::shared_ptr<WeightCopies> weights = std::make_shared<WeightCopies>();

  // Whether fusec computes where ONNX Runtime's tensors lie.
  bool runs_in_place() const { return gpu != nullptr || device == "cpu"; }
  // The options for a model with these symbols: what is set for other ones is left out.
  OptionsHandle options_for(const std::vector<std::string>& symbols) const;
};

// `gpu`: the one that the session chose, or null; it must outlive the settings. Throws Failure for an unknown key, for
// a value that a key does not take, and where "device" is another one than the GPU.
Settings read_settings(const Api& api, const OrtSessionOptions* session, Gpu* gpu);

}  // namespace fusec::ort
