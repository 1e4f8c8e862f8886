// SPDX-License-Identifier: Apache-2.0
// An open package.
#pragma once

#include <memory>
#include <vector>

#include "fusec/package.h"
#include "runtime/link/link.h"
#include "runtime/package/file.h"
#include "runtime/package/format.h"
#include "runtime/package/manifest.h"

namespace fusec::runtime {

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
// lacks; on a GPU code for its architecture, else PTX of an older one, which the driver compiles. `wanted`, if not
// empty, names it. invalid_argument: there is none, and what there is.
Result<uint32_t> pick_target(const Manifest& manifest, const Target& machine, const std::string& wanted);

}  // namespace fusec::runtime
