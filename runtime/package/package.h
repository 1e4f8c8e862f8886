// SPDX-License-Identifier: Apache-2.0
// An open package.
#pragma once

#include <memory>
#include <vector>

#include "fusec/package.h"
#include "runtime/link.h"
#include "runtime/package/format.h"
#include "runtime/package/manifest.h"

namespace fusec::runtime {

struct PackageState {
  std::string path;
  std::shared_ptr<const void> mapping;  // keeps the bytes
  std::vector<Section> sections;
  Manifest manifest;
  PackageInfo info;

  // The section of that kind for the manifest's target number `target`; FUSEC_CHECK that there is one.
  Bytes section(SectionKind kind, uint32_t target) const;
};

// What the package holds for its target number `target`. Constants stay in the mapping.
Result<ir::Program> packaged_program(const PackageState& package, uint32_t target);
Result<Artifacts> packaged_artifacts(const PackageState& package, uint32_t target, const ir::Program& program);

// The number of the target that fits `machine` best: on a CPU the one with most features, none of which the machine lacks;
// on a GPU code for its architecture, else PTX of an older one, which the driver compiles. `wanted`, if not empty, names
// it. invalid_argument: there is none, and what there is.
Result<uint32_t> pick_target(const Manifest& manifest, const Target& machine, const std::string& wanted);

}  // namespace fusec::runtime
