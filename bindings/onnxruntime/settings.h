// SPDX-License-Identifier: Apache-2.0
// What a session asks of the provider: entries `ep.fusec.<key>` and `ep.context_...` of its configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings/onnxruntime/fusec_api.h"

namespace fusec::ort {

constexpr const char* kProviderName = "fusec";

struct Settings {
  std::vector<std::pair<std::string, std::string>> entries;  // keys of fusec and their values, in order
  std::string device = "cpu";
  bool strict = false;          // a node that is left to others fails the session
  bool writes_context = false;  // ep.context_enable
  bool embeds_context = false;  // ep.context_embed_mode: packages lie inside the model, not beside it
  std::string context_path;     // ep.context_file_path

  // The options for a model with these symbols: what is set for other ones is left out.
  OptionsHandle options_for(const std::vector<std::string>& symbols) const;
};

// Throws Failure for an unknown key and for a value that a key does not take.
Settings read_settings(const Api& api, const OrtSessionOptions* session);

}  // namespace fusec::ort
