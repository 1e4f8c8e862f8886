// SPDX-License-Identifier: Apache-2.0
// The extents that a model declares for its inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/import/onnx/assumptions.h"
#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/shape.h"
#include "fusec/tensor.h"

namespace fusec::importer {

// Converts declared extents to Dims. A dim_param becomes a symbol of the same name, adapted where a symbol cannot have
// that name. One that is an expression is that, if each symbol in it is an axis of some input or fixed, and no op
// contradicts it. An extent without a name gets a symbol of its own. A symbol that is assumed to be equal to something
// is that.
class Symbols {
 public:
  Symbols(const ImportOptions& options, const Assumptions& assumptions)
      : options_(&options), assumptions_(&assumptions) {}
  // First for every input, with its contents where they are known: the names that stand alone as an axis.
  void declare(const proto::TensorShapeProto& declared, const Tensor* contents);
  Shape shape(const std::string& input, const proto::TensorShapeProto& declared);
  // After the shapes. Both throw ImportError (invalid_argument) when an option names no symbol.
  void check_overrides() const;
  void add_ranges(ir::Limits& limits) const;
  // A dim_param that was taken for the expression `extent`.
  std::optional<std::string> find_expression(const Dim& extent) const;

 private:
  Dim named(const std::string& param);
  Dim symbol(const std::string& wish);
  std::optional<Dim> expression(const std::string& param);
  std::optional<int64_t> fixed(const std::string& name) const;
  [[noreturn]] void fail_unknown(const std::string& name) const;

  const ImportOptions* options_;
  const Assumptions* assumptions_;
  std::map<std::string, Dim> params_, expressions_;
  std::map<std::string, Dim> symbols_;           // by their names, and by what they were called in the file
  std::map<std::string, int64_t> of_constants_;  // extents that the contents of inputs give
  std::map<std::string, int> numbers_;           // by name: the next suffix to try
  std::set<std::string> taken_, plain_;
};

}  // namespace fusec::importer
