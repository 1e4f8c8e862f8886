// SPDX-License-Identifier: Apache-2.0
// An open package, and its manifest: what it holds and how to call it, as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/package.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "runtime/link/link.h"
#include "runtime/package/file.h"
#include "runtime/package/format.h"

namespace fusec::runtime {

// A constant of a target's Program, in its order.
struct PackagedConstant {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // bytes from the start of the section of constants
};

struct PackagedTarget {
  // Its name, kind, features and sm, and whether its code has products of tiles; figures are those of the machine that
  // runs it.
  Target target;
  std::vector<PackagedConstant> constants;
};

struct Manifest {
  std::string producer;
  Numerics numerics = Numerics::precise;
  std::optional<DType> precision;
  bool tf32 = false, batch_invariant = false, use_library = true;
  Model model;  // without a graph
  std::vector<PackagedTarget> targets;
};

std::string print_manifest(const Manifest& manifest);
// invalid_model: what is missing or of another type.
Result<Manifest> parse_manifest(std::string_view text);

struct PackageState {
  std::string path;
  OwnedBytes memory;  // the whole file; its constants are used where they lie
  std::vector<Section> sections;
  Manifest manifest;
  PackageInfo info;

  // The section of that kind for the manifest's target number `target`; FUSEC_CHECK that there is one.
  Bytes section(SectionKind kind, uint32_t target) const;
};

// The package that these bytes are, as Package::open makes it of a file.
Result<Package> package_of_bytes(Bytes file, const PackageOptions& options);

// What the package holds for its target number `target`. Constants keep the package's memory.
Result<ir::Program> packaged_program(const PackageState& package, uint32_t target);
Result<Artifacts> packaged_artifacts(const PackageState& package, uint32_t target, const ir::Program& program);

// The number of the target that fits `machine` best: on a CPU the one with most features, none of which the machine
// lacks; on a GPU code for its architecture alone (sm_90a), else other code for it, else PTX of an older one, which the
// driver compiles. `wanted`, if not empty, names it. invalid_argument: there is none, and what there is.
Result<uint32_t> pick_target(const Manifest& manifest, const Target& machine, const std::string& wanted);

}  // namespace fusec::runtime
