// SPDX-License-Identifier: Apache-2.0
// No exception leaves the library: public entry points run their bodies in `guarded`, which answers out_of_memory
// without allocating.
#pragma once

#include <type_traits>
#include <utility>

#include "fusec/status.h"

namespace fusec::ir {

// What an exception becomes: `overflow` for extents that overflow, `other` for what no other row names; internal for
// broken invariants, out_of_memory for bad_alloc.
struct ExceptionCodes {
  StatusCode overflow = StatusCode::invalid_argument;
  StatusCode other = StatusCode::internal;
};

// Call only while an exception is handled.
Status status_of_exception(const ExceptionCodes& codes = {}) noexcept;

template <class F>
auto guarded(const F& f, const ExceptionCodes& codes = {}) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return status_of_exception(codes);
  }
}

// The Status with the note that make_note() answers, or without it where there is no memory for it.
template <class MakeNote>
Status noted(Status status, const MakeNote& make_note) noexcept {
  try {
    return std::move(status).with_note(make_note());
  } catch (...) {
    return status;
  }
}

// Runs `f` guarded and puts a note on its error.
template <class F, class MakeNote>
auto guarded_with_note(const F& f, const MakeNote& make_note, const ExceptionCodes& codes = {}) noexcept
    -> decltype(f()) {
  auto answer = guarded(f, codes);
  if (answer.ok()) return answer;
  if constexpr (std::is_same_v<decltype(f()), Status>) {
    return noted(std::move(answer), make_note);
  } else {
    return noted(answer.status(), make_note);
  }
}

}  // namespace fusec::ir
