// SPDX-License-Identifier: Apache-2.0
// Built against the installed tree: the public headers stand alone and what they declare is exported.
#include <cstdio>

#include "fusec/dim.h"

int main() {
  auto dim = fusec::Dim::parse("2*N + 1");
  if (!dim.ok() || dim->eval({{"N", 3}}) != 7) return std::puts("2*N + 1 at N = 3 is not 7"), 1;
  return 0;
}
