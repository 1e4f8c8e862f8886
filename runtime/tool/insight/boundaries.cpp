// SPDX-License-Identifier: Apache-2.0
// The table of fusion boundaries. A test holds its first column against the texts of compiler/partition.

#include "runtime/tool/insight/boundaries.h"

#include <algorithm>

namespace fusec::tool {

const std::vector<BoundaryKind>& boundary_kinds() {
  static const std::vector<BoundaryKind> kKinds = {
      {"fusion is switched off", true, "an option"},
      {"an attention is a kernel of its own", true, "a limit of the compiler"},
      {"exact: what else a kernel does may change the order of its sum", false, "the option --numerics exact"},
      {"a matrix product is the only reduction of its kernel", true, "a limit of the compiler"},
      {"its user does not read a matrix product element by element", false, "tiles would be computed again"},
      {"a GPU keeps no row between a scan and another reduction", true, "a limit of the compiler"},
      {"the region would be too large", true, "a limit of the compiler"},
      {"the region would take too long to compile", true, "a limit of the compiler"},
      {"a window of many places is stored before it is reduced", false, "each place would be computed again"},
      {"a window of many places reads it where it is stored", false, "each place would be computed again"},
      {"would make a cycle", false, "each would wait for the other"},
      {"the region would have too many outputs", true, "a limit of the compiler"},
      {"it is costly to make for each tile of a matrix product", false, "each tile would compute it again"},
      {"what a matrix product reads is stored", false, "another user reads it"},
      {"it is no result of a matrix product", false, "the kernel has no such value"},
      {"each element would choose from too many operands", true, "a limit of the compiler"},
      {"its user loads the concat that it is stored into", false, "the user waits for all of it"},
      {"its user uses other coordinates, and it is stored anyway", true, "one read less"},
      {"its user repeats elements, and they are costly to make again", false, "it would be computed again"},
      {"a model input or constant", false, "it is in memory"},
      {"operand of a library step", false, "a library reads memory"},
      {"result of a library step", true, "as an epilogue of the call"},
      {"no shared loops", false, "nothing to share"},
  };
  return kKinds;
}

bool could_fuse(const std::string& reason) {
  const auto& kinds = boundary_kinds();
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const BoundaryKind& k) { return reason == k.reason; });
  return it != kinds.end() && it->could_fuse;
}

}  // namespace fusec::tool
