// SPDX-License-Identifier: Apache-2.0
// Writes interfaces of models as JSON.

#include "bindings/c/json.h"

namespace fusec::c {
namespace {

void write_all(JsonWriter& json, std::string_view key, const std::vector<TensorInfo>& infos) {
  json.key(key);
  write_infos(json, infos);
}

}  // namespace

void write_infos(JsonWriter& json, const std::vector<TensorInfo>& infos) {
  json.open('[');
  for (const TensorInfo& info : infos) {
    json.open('{').member("name", info.name).member("dtype", to_string(info.dtype)).member("shape", info.shape);
    json.close('}');
  }
  json.close(']');
}

void write_io(JsonWriter& json, const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs,
              const std::vector<std::string>& symbols, const ir::Limits& limits) {
  write_all(json, "inputs", inputs);
  write_all(json, "outputs", outputs);
  json.member("symbols", symbols).key("ranges").open('[');
  for (const auto& [extent, range] : limits) {
    json.open('{').member("extent", extent.str()).member("least", range.least).key("most");
    range.most == INT64_MAX ? json.null() : json.value(range.most);
    json.close('}');
  }
  json.close(']');
}

}  // namespace fusec::c
