// SPDX-License-Identifier: Apache-2.0
// Lists the ops and types that a model uses, without importing it.
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
    std::optional<DType> dtype;  // nullopt for a foreign type
  };
  // The ops of all nodes, including those in subgraphs and in the model's functions: "Conv", "com.acme::Foo". Sorted,
  // without duplicates. Calls of the model's functions are not included.
  std::vector<std::string> ops;
  int64_t nodes = 0;
  std::vector<std::string> foreign_types;  // not dense tensors of fusec's dtypes: "FLOAT8E4M3FN", "sequence"
  std::vector<Input> inputs;               // without inputs that have an initializer
};

// Errors: invalid_model or unsupported, as import returns them for a file that it cannot parse.
Result<ModelSummary> summarize(std::span<const uint8_t> model, const ImportLimits& limits = {});

}  // namespace fusec::importer
