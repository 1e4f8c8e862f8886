// SPDX-License-Identifier: Apache-2.0
// Attributes of a node of ONNX Runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/onnxruntime/api.h"

namespace fusec::ort {

// All attributes, as fields of an ONNX NodeProto.
struct WrittenAttributes {
  std::string fields;
  std::string refused;  // why one cannot be read; "" where all were
};
WrittenAttributes write_attributes(const Api& api, const OrtNode* node);

// One attribute by name; `otherwise` where the node has none of this name and kind.
std::string string_attribute(const Api& api, const OrtNode* node, std::string_view name);
int64_t integer_attribute(const Api& api, const OrtNode* node, std::string_view name, int64_t otherwise);

}  // namespace fusec::ort
