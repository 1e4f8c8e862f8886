// SPDX-License-Identifier: Apache-2.0
// JSON that functions of the C interface answer.
#pragma once

#include <nlohmann/json.hpp>

#include "bindings/c/error.h"
#include "fusec/shape.h"

namespace fusec::c {

using Json = nlohmann::ordered_json;

// On one line; bytes that are not UTF-8 are replaced.
Status give_json(const Json& json, char** out);

Json json_of(const Shape& shape);
// {"inputs": [...], "outputs": [...], "symbols": [...]}
Json io_json(const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs,
             const std::vector<std::string>& symbols);

}  // namespace fusec::c
