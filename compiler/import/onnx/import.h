// SPDX-License-Identifier: Apache-2.0
// What the importer offers to the tool and to tests beside fusec/onnx.h: the import of a model that is held in memory,
// a summary of the ops and types that a model uses, without importing it, and cutting a model down to some of its
// nodes, to find the few that reproduce a failure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/onnx/proto.h"
#include "fusec/dtype.h"
#include "fusec/onnx.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

// Imports a model. Ops become nodes of the graph, functions are inlined, and shape arithmetic and small exact constants
// are computed, so that the remaining nodes work on data. Errors: invalid_model where the model breaks a rule of ONNX;
// unsupported, with one message that names every unsupported op or the limit that the model exceeds; invalid_argument
// for options that do not fit the model; out_of_memory.
Result<ir::Graph> import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options = {});
Result<ir::Graph> import_onnx(const proto::ModelProto& model, const ImportOptions& options = {});

// As fusec::check_onnx_bytes.
Result<std::vector<NodeSupport>> check_nodes(std::span<const uint8_t> bytes, const ImportOptions& options);

// What import knows about a value of the main graph.
struct KnownValue {
  ir::Type type;
  std::optional<Tensor> data;                // contents of a constant
  std::optional<std::vector<Dim>> integers;  // contents of shape arithmetic
};
using KnownValues = std::map<std::string, KnownValue>;
// The known values of the main graph by name, as far as the model can be imported. Values that depend on an unsupported
// op and values after an error are left out.
KnownValues known_values(const proto::ModelProto& model, const ImportOptions& options = {});

// Imports a model in ONNX's text syntax, for tests. Text that does not parse is invalid_argument.
Result<ir::Graph> import_onnx_text(const std::string& text, const ImportOptions& options = {});

struct ModelSummary {
  struct Input {
    std::string name;
    std::optional<DType> dtype;  // nullopt for a foreign type
    std::optional<int> rank;     // nullopt where no shape is declared
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

// A value that a node of the main graph makes.
struct NodeValue {
  std::string origin;  // of the graph's nodes that import makes of that node
  std::string name;    // in the model
};
// As materialize_onnx, and the values of the nodes with these origins are outputs of the written model too, behind its
// own ones and without declared types, as ONNX Runtime allows. The answer names them.
Result<std::vector<NodeValue>> materialize_with_values(const std::string& in, const std::string& out, uint64_t seed,
                                                       const std::set<std::string>& origins,
                                                       const ImportOptions& options = {});

struct Submodel {
  std::vector<char> keep;                  // per node of the main graph
  std::map<std::string, int64_t> symbols;  // symbols to be replaced by numbers
  std::set<std::string> freed;             // initializers to be replaced by inputs
};

class SubmodelExtractor {
 public:
  // Reads the model and imports as much of it as possible, to learn the types of its values. Fails if the file cannot
  // be read or is no model.
  static Result<SubmodelExtractor> read(const std::string& path, const ImportOptions& options);

  std::size_t num_nodes() const;
  const std::vector<std::string>& symbols() const;                   // that are extents in the types of values
  std::vector<std::string> initializers(const Submodel& cut) const;  // that the kept nodes read

  // Serializes the model with only the kept nodes. A value that kept nodes read and none of them makes becomes an
  // initializer if its contents are known, else an input. A value that they make becomes an output if none of them
  // reads it or if it was an output of the model. External data that can be read is stored inline. Errors: unsupported
  // where a value's type is not known or the result exceeds 2 GiB; invalid_argument for a cut without nodes.
  Result<std::string> cut(const Submodel& cut) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace fusec::importer
