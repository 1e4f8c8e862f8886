// SPDX-License-Identifier: Apache-2.0
// Writes shapes and interfaces of models as JSON.

#include "bindings/c/json.h"

namespace fusec::c {
namespace {

Json json_of_all(const std::vector<TensorInfo>& infos) {
  Json list = Json::array();
  for (const TensorInfo& info : infos) {
    list.push_back({{"name", info.name}, {"dtype", to_string(info.dtype)}, {"shape", json_of(info.shape)}});
  }
  return list;
}

}  // namespace

Status give_json(const Json& json, char** out) {
  return give_text(json.dump(-1, ' ', false, Json::error_handler_t::replace), out);
}

Json json_of(const Shape& shape) {
  Json extents = Json::array();
  for (const Dim& extent : shape) {
    if (extent.is_const()) {
      extents.push_back(extent.value());
    } else {
      extents.push_back(extent.str());
    }
  }
  return extents;
}

Json io_json(const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs,
             const std::vector<std::string>& symbols) {
  return {{"inputs", json_of_all(inputs)}, {"outputs", json_of_all(outputs)}, {"symbols", symbols}};
}

}  // namespace fusec::c
