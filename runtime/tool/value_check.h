// SPDX-License-Identifier: Apache-2.0
// Where NaN, infinities and subnormal numbers come into a run: given with inputs or weights, or made by a step.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/tool/io/output.h"
#include "runtime/tool/value_run.h"

namespace fusec::tool {

enum class Special : uint8_t { nan, inf, denormal };

// The position of the first such element of a float tensor, row-major on the host.
std::optional<std::vector<int64_t>> find_special(const Tensor& tensor, Special kind);
std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& shape);
std::string index_text(const std::vector<int64_t>& index);

// Looks at what a run is given, then at its values in order.
class SpecialsCheck {
 public:
  SpecialsCheck(const Model& model, const ValueRun& run, const std::vector<Tensor>& inputs, bool denormals);
  void add(const ValueInfo& info, const Tensor& value);
  // No step has made NaN or Inf. Subnormal numbers are no fault.
  bool ok() const;
  Json json() const;
  std::string text() const;

 private:
  struct Given {
    Special kind;
    std::string where, name;  // "input", "weight"
    std::vector<int64_t> index;
  };
  struct First {
    ValueInfo info;
    std::vector<int64_t> index;
    std::vector<std::string> carriers;  // inputs of its region that have such elements; empty: the region makes it
  };
  bool carries(ir::ValueId v, Special kind) const;
  std::vector<std::string> carriers_of(std::size_t region, Special kind) const;

  const ValueRun& run_;
  std::vector<Special> kinds_;
  std::vector<Given> given_;
  std::map<Special, std::set<ir::ValueId>> with_;
  std::map<Special, First> first_;
};

}  // namespace fusec::tool
