// SPDX-License-Identifier: Apache-2.0
// Cutting a model down to some of its nodes, for finding the few that a failure needs.
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

struct Cut {
  std::vector<char> keep;                  // per node of the main graph
  std::map<std::string, int64_t> symbols;  // extents that become numbers
  std::set<std::string> freed;             // initializers that become inputs
};

class Cutter {
 public:
  // Reads the model and imports it as far as that goes, for the types of its values. Errors: of a file that is no
  // model.
  static Result<Cutter> read(const std::string& path, const ImportOptions& options);

  std::size_t num_nodes() const;
  const std::vector<std::string>& symbols() const;              // of the values' types
  std::vector<std::string> initializers(const Cut& cut) const;  // those that its nodes read

  // The bytes of the model cut down. What kept nodes read and none of them makes becomes an input, or an initializer
  // where its contents are known; what they make and none of them reads, and what was an output, becomes an output.
  // External data that is there comes inside. Errors: unsupported where a value's type is not known; invalid_argument
  // for a cut without nodes.
  Result<std::string> cut(const Cut& cut) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace fusec::importer
