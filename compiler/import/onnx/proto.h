// SPDX-License-Identifier: Apache-2.0
// ONNX's protobuf messages: how a file is parsed, and how the contents of its tensors are read. Both check sizes before
// they allocate memory. Only files that need the messages include this header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "compiler/import/onnx/tensor.h"
#include "fusec/onnx.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "onnx/onnx_pb.h"

namespace fusec::importer {

namespace proto = ::fusec_onnx;

// Walks the protobuf wire format without building messages, so that truncated files, deep nesting and too many messages
// are rejected before parsing spends memory on them.
Status scan_wire(std::span<const uint8_t> bytes, const ImportLimits& limits);

// Scans the bytes, then parses them.
Result<proto::ModelProto> parse_model(std::span<const uint8_t> bytes, const ImportLimits& limits);

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
