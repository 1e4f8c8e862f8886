// SPDX-License-Identifier: Apache-2.0
// No exception leaves the library: public entry points run their bodies in `guarded`.
#pragma once

#include "fusec/status.h"

namespace fusec::runtime {

// internal for broken invariants and unknown exceptions, out_of_memory for bad_alloc, invalid_argument for extents that
// overflow. Call only while an exception is handled.
Status status_of_exception();

template <class F>
auto guarded(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace fusec::runtime
