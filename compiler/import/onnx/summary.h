// SPDX-License-Identifier: Apache-2.0
// What a model uses, without importing it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/onnx.h"
#include "fusec/status.h"

namespace fusec::importer {

struct ModelSummary {
  struct Input {
    std::string name;
    std::optional<DType> dtype;  // nullopt: of a foreign type
  };
  // Of all nodes, those of subgraphs and of the model's functions too: "Conv", "com.acme::Foo". Sorted, each once.
  // Calls of the model's functions are not among them.
  std::vector<std::string> ops;
  int64_t nodes = 0;
  std::vector<std::string> foreign_types;  // that are no dense tensors of fusec's dtypes: "FLOAT8E4M3FN", "sequence"
  std::vector<Input> inputs;               // without those that are initializers
};

// Errors: invalid_model, unsupported, as of import where the file itself is refused.
Result<ModelSummary> summarize(std::span<const uint8_t> model, const ImportLimits& limits = {});

}  // namespace fusec::importer
