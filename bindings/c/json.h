// SPDX-License-Identifier: Apache-2.0
// JSON that functions of the C interface answer.
#pragma once

#include <string>
#include <vector>

#include "bindings/c/error.h"
#include "fusec/model.h"
#include "ir/graph/graph.h"
#include "ir/support/json.h"

namespace fusec::c {

using ir::JsonWriter;

// For fusec_free.
inline Status give_json(const JsonWriter& json, char** out) { return give_text(json.text(), out); }

// [{"name": "x", "dtype": "f32", "shape": ["n", 64]}, ...]
void write_infos(JsonWriter& json, const std::vector<TensorInfo>& infos);
// The members "inputs", "outputs", "symbols" and "ranges".
void write_io(JsonWriter& json, const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs,
              const std::vector<std::string>& symbols, const ir::Limits& limits);

}  // namespace fusec::c
