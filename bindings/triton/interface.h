// SPDX-License-Identifier: Apache-2.0
// The interface of a model as fusec tells it: names, types, extents and bounds, and their words in Triton.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/triton/error.h"

namespace fusec::triton {

struct TensorInfo {
  std::string name;
  fusec_dtype dtype = {};
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  std::string type_name;             // "TYPE_FP32", as configurations say
  std::vector<std::string> extents;  // "8", "N", "2*N"
};

struct Interface {
  std::vector<TensorInfo> inputs, outputs;
  // The symbol that is the first extent of every tensor and stands in no other extent, and the largest value that the
  // model allows, if it has a bound. Empty: there is no such symbol, and requests cannot share a run.
  std::string batch;
  std::optional<int64_t> most;
};

// Of the document of fusec_engine_io_json or fusec_model_io_json.
Error read_interface(const char* document, Interface& out);

// The extent as a configuration has it: its number, or -1.
int64_t extent_or_any(const std::string& extent);

}  // namespace fusec::triton
