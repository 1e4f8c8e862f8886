// SPDX-License-Identifier: Apache-2.0
// Reading ONNX models. Part of libfusec-onnx.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusec/export.h"
#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {

// A model past one of these is refused as unsupported; the message names the limit and its value. They bound what a
// hostile file can cost in time and memory.
struct FUSEC_API ImportLimits {
  int64_t model_bytes = int64_t{1} << 31;   // protobuf's own limit
  int64_t messages = 8'000'000;             // protobuf messages and unknown fields in the file
  int64_t nodes = 2'000'000;                // after functions are inlined
  int64_t function_calls = 100'000;         // inlined calls
  int64_t inlined_bytes = 64 << 20;         // of the nodes of functions, counted for each call
  int64_t nesting = 32;                     // subgraphs and function calls inside each other
  int64_t symbols = 4096;                   // extents of inputs that are not known
  int64_t rank = 64;                        // axes of a tensor
  int64_t name_bytes = 64 << 10;            // of a node, value, op or symbol
  int64_t tensor_bytes = int64_t{1} << 40;  // of any tensor whose extents are known
  int64_t folded_bytes = 64 << 20;          // of one constant computed at import
  int64_t folded_total_bytes = 1 << 30;     // of all of them
};

struct FUSEC_API ImportOptions {
  // External tensor data is looked for under model_dir (load_onnx: the folder of the file unless set), then under each
  // of external_roots. Symbolic links and hard links are refused everywhere.
  std::string model_dir;
  std::vector<std::string> external_roots;
  std::optional<uint64_t> random_weights;  // fills initializers whose external file is absent; see docs/import.md
  // By dim_param: what it is fixed to, and what values it may have (a run with others is refused). invalid_argument:
  // the model has no such symbol, or needs another value.
  std::map<std::string, int64_t> symbols;
  std::map<std::string, ExtentRange> ranges;
  // Inputs whose contents are known: they are constants, and no inputs of the Model. For shapes, axes and counts that a
  // model leaves to its inputs. Symbols that are axes of them are fixed to their extents. invalid_argument: the model
  // has no such input, or one of another dtype or shape.
  std::map<std::string, Tensor> constants;
  // Nodes of these domains become custom calls (fusec/custom_call.h) named "domain.op_type", with the node's attributes
  // as text (`name=value` with spaces between them). Each has one output, whose type and shape the model declares
  // (value_info).
  std::vector<std::string> call_domains;
  ImportLimits limits;
  double* weights_ms = nullptr;  // if set: the time of reading and making initializers is added to it
};

// Errors: invalid_argument (no such file), invalid_model, unsupported (names every op that is lacking), out_of_memory.
FUSEC_API Result<Model> load_onnx(const std::string& path, const ImportOptions& options = {}) noexcept;
FUSEC_API Result<Model> load_onnx_bytes(std::span<const uint8_t> bytes, const ImportOptions& options = {}) noexcept;

// Whether fusec takes one node of a model.
struct FUSEC_API NodeSupport {
  std::string node;        // its name; where it has none, that of its first output
  std::string op, domain;  // "Conv", "ai.onnx"
  bool supported = true;
  std::string reason;  // why not; empty where it is supported
};
// Of each node of the main graph, in the order of the file. What an unsupported node makes is taken to have the type
// that the model declares for it (value_info), so that the nodes behind it are asked for as well; where it declares
// none, they are not supported either. Errors: as of load_onnx, but for nodes that are not supported.
FUSEC_API Result<std::vector<NodeSupport>> check_onnx(const std::string& path,
                                                      const ImportOptions& options = {}) noexcept;
FUSEC_API Result<std::vector<NodeSupport>> check_onnx_bytes(std::span<const uint8_t> bytes,
                                                            const ImportOptions& options = {}) noexcept;

// Writes the model at `in` with all its tensor data inside, stripped tensors filled from `seed`. Past 1.9 GB the data
// goes to "<out>.data" beside it.
FUSEC_API Status materialize_onnx(const std::string& in, const std::string& out, uint64_t seed,
                                  const ImportOptions& options = {}) noexcept;

}  // namespace fusec
