// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/settings.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "bindings/onnxruntime/json.h"

namespace fusec::ort {
namespace {

constexpr std::string_view kPrefix = "ep.fusec.";

OptionsHandle new_options() {
  fusec_options* options = nullptr;
  check(fusec_options_new(&options));
  return OptionsHandle(options);
}

bool read_flag(const std::string& key, const std::string& value) {
  if (value == "1" || value == "true") return true;
  if (value == "0" || value == "false") return false;
  throw Failure(ErrorCode::invalid_argument,
                "fusec: " + key + " '" + value + "' is not valid; it takes 1, 0, true, false");
}

// The entries of a value that is a list.
std::vector<std::string> split(const std::string& value) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(';', begin), value.size());
    entries.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

class SettingsReader {
 public:
  SettingsReader() {
    char* text = nullptr;
    check(fusec_options_keys_json(&text));
    const TextHandle owner(text);
    for (JsonObject& key : read_json_list(text)) keys_[key["key"]] = key["accepts"];
  }

  Settings read(const Api& api, const OrtSessionOptions* session, Gpu* gpu) {
    auto* const entries = api.get<api::GetSessionOptionsConfigEntries, OrtKeyValuePairs*>(session);
    const char* const* keys = nullptr;
    const char* const* values = nullptr;
    Size count = 0;
    api.plain<api::GetKeyValuePairs>(static_cast<const OrtKeyValuePairs*>(entries), &keys, &values, &count);
    std::map<std::string, std::string> all;
    for (Size i = 0; i < count; ++i) all[keys[i]] = values[i];
    api.plain<api::ReleaseKeyValuePairs>(entries);
    for (const auto& [key, value] : all) read_entry(key, value);
    if (gpu != nullptr) choose_gpu(*gpu);
    return std::move(settings_);
  }

 private:
  void read_entry(const std::string& key, const std::string& value) {
    if (key == "ep.context_enable") settings_.writes_context = value == "1";
    if (key == "ep.context_embed_mode") settings_.embeds_context = value == "1";
    if (key == "ep.context_file_path") settings_.context_path = value;
    if (key.rfind(kPrefix, 0) == 0) read_option(key.substr(kPrefix.size()), value);
  }

  void choose_gpu(Gpu& gpu) {
    const std::string name = gpu.name();
    if (!has_device_ || settings_.device == "cuda") read_option("device", name);
    if (settings_.device != name) {
      throw Failure(ErrorCode::invalid_argument, "fusec: device is '" + settings_.device +
                                                     "', and the session was given the device of " + name +
                                                     "; leave out device, or give the session another one");
    }
    settings_.gpu = &gpu;
  }

  void read_option(const std::string& key, const std::string& value) {
    if (key == "strict") {
      settings_.strict = read_flag(key, value);
      return;
    }
    if (key == "device") {
      settings_.device = value;
      has_device_ = true;
    }
    const auto known = keys_.find(key);
    const bool is_list = known != keys_.end() && known->second.find("added to a list") != std::string::npos;
    for (const std::string& entry : is_list ? split(value) : std::vector<std::string>{value}) {
      check(fusec_options_set(trial_.get(), key.c_str(), entry.c_str()));
      settings_.entries.emplace_back(key, entry);
    }
  }

  Settings settings_;
  bool has_device_ = false;
  OptionsHandle trial_ = new_options();  // tells whether keys and values are valid
  std::map<std::string, std::string> keys_;
};

}  // namespace

OptionsHandle Settings::options_for(const std::vector<std::string>& symbols) const {
  OptionsHandle made = new_options();
  for (const auto& [key, value] : entries) {
    const bool of_symbol = key == "fix" || key == "range";
    const std::string symbol = value.substr(0, value.find('='));
    if (of_symbol && std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) continue;
    check(fusec_options_set(made.get(), key.c_str(), value.c_str()));
  }
  return made;
}

Settings read_settings(const Api& api, const OrtSessionOptions* session, Gpu* gpu) {
  return SettingsReader().read(api, session, gpu);
}

}  // namespace fusec::ort
