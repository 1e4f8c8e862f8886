// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/import/onnx/proto.h"
#include "compiler/import/onnx/random.h"
#include "fusec/onnx.h"
#include "fusec/tensor.h"

namespace fusec::importer {

// Throws ImportError (unsupported) for element types that fusec lacks.
DType to_dtype(int64_t onnx_type);
int from_dtype(DType dtype);

// Where the contents of tensors come from beside the model itself.
struct TensorSource {
  const ImportOptions* options = nullptr;
  std::map<std::string, Recipe> recipes;
};

// Every reader of a TensorProto goes through here: extents, counts and sizes are checked before memory is taken.
// Throws ImportError.
Tensor read_tensor(const proto::TensorProto& tensor, const TensorSource& source);

// The extents, checked: not negative, rank and bytes within the limits.
std::vector<int64_t> checked_extents(const proto::TensorProto& tensor, const ImportLimits& limits);

}  // namespace fusec::importer
