// SPDX-License-Identifier: Apache-2.0
// No exception leaves the library: public entry points run their bodies in `guarded`.
#pragma once

#include "fusec/status.h"

namespace fusec::ir {

// What an exception becomes: `overflow` for extents that overflow, `other` for what no other row names; internal for broken
// invariants, out_of_memory for bad_alloc.
struct ExceptionCodes {
  StatusCode overflow = StatusCode::invalid_argument;
  StatusCode other = StatusCode::internal;
};

// Call only while an exception is handled.
Status status_of_exception(const ExceptionCodes& codes = {});

template <class F>
auto guarded(const F& f, const ExceptionCodes& codes = {}) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return status_of_exception(codes);
  }
}

}  // namespace fusec::ir
