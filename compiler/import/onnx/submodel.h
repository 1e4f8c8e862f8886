// SPDX-License-Identifier: Apache-2.0
// Cuts a model down to some of its nodes, to find the few nodes that reproduce a failure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fusec/onnx.h"
#include "fusec/status.h"

namespace fusec::importer {

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
