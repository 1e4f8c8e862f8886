// SPDX-License-Identifier: Apache-2.0
// Which fusion boundaries could go: partition gives each one's reason, and this says whether a better compiler could
// fuse there, or whether the work itself forbids it.
#pragma once

#include <string>
#include <vector>

namespace fusec::tool {

struct BoundaryKind {
  const char* reason;  // as compiler/partition writes it
  bool could_fuse;     // in principle
  const char* why;
};
const std::vector<BoundaryKind>& boundary_kinds();
// False for reasons that have no row.
bool could_fuse(const std::string& reason);

}  // namespace fusec::tool
