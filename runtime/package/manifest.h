// SPDX-License-Identifier: Apache-2.0
// The manifest of a package: what it holds and how to call it, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::runtime {

// A constant of a target's Program, in its order.
struct PackagedConstant {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // bytes from the start of the section of constants
};

struct PackagedTarget {
  Target target;  // its name, kind, features and sm; figures are those of the machine that runs it
  std::vector<PackagedConstant> constants;
};

struct Manifest {
  std::string producer;
  Numerics numerics = Numerics::precise;
  std::optional<DType> precision;
  bool tf32 = false, use_library = true;
  Model model;  // without a graph
  std::vector<PackagedTarget> targets;
};

std::string print_manifest(const Manifest& manifest);
// invalid_model: what is missing or of another type.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace fusec::runtime
