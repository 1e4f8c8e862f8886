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

// Sources of tensor contents other than the model itself.
struct TensorSource {
  const ImportOptions* options = nullptr;
  std::map<std::string, WeightDistribution> recipes;
};

// Reads the contents of a TensorProto. All code that needs them must call this function: it checks extents, counts and
// sizes before it allocates memory. Throws ImportError.
Tensor read_tensor(const proto::TensorProto& tensor, const TensorSource& source);

// Returns the extents after checking that none is negative and that rank and bytes are within the limits.
std::vector<int64_t> checked_extents(const proto::TensorProto& tensor, const ImportLimits& limits);

}  // namespace fusec::importer
