// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/shape.h"

namespace fusec::importer {

// Throws ImportError for names that are too long, hold NUL or are not UTF-8.
void check_name(const std::string& name, const ImportLimits& limits);
// Makes text printable in a message: one line of UTF-8 of at most `most` bytes, in which control characters and invalid
// bytes are written as \x0a.
std::string printable(std::string_view text, std::size_t most);
inline std::string short_name(std::string_view name) { return printable(name, 80); }

// Converts declared extents to Dims. A dim_param becomes a symbol of the same name, adapted where a symbol cannot have
// that name. An extent without a name gets a symbol of its own.
class Symbols {
 public:
  explicit Symbols(const ImportOptions& options) : options_(&options) {}
  Shape shape(const std::string& input, const proto::TensorShapeProto& declared);
  // Throws ImportError (invalid_argument) when an override names no symbol.
  void check_overrides() const;

 private:
  Dim named(const std::string& param);
  Dim symbol(const std::string& wish);

  const ImportOptions* options_;
  std::map<std::string, Dim> params_;
  std::map<std::string, int> numbers_;  // by name: the next suffix to try
  std::set<std::string> taken_, overridden_;
};

}  // namespace fusec::importer
