// SPDX-License-Identifier: Apache-2.0
// Broken invariants and what becomes of exceptions. FUSEC_CHECK throws InternalError when an invariant does not hold.
// No exception leaves the library: public entry points run their bodies in `guarded`, which turns InternalError into
// StatusCode::internal and returns out_of_memory without allocating.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "fusec/status.h"

namespace fusec::ir {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line) {
    stream_ << file << ':' << line << ": check failed: " << condition << ' ';
  }
  [[noreturn]] ~CheckFailure() noexcept(false) { throw InternalError(stream_.str()); }
  template <class T>
  CheckFailure& operator<<(const T& value) {
    stream_ << value;
    return *this;
  }

 private:
  std::ostringstream stream_;
};

}  // namespace fusec::ir

// FUSEC_CHECK(cond) << "what was expected";
#define FUSEC_CHECK(condition) \
  if (condition) [[likely]] {  \
  } else                       \
    ::fusec::ir::CheckFailure(#condition, __FILE__, __LINE__)

namespace fusec::ir {

// The status codes for exceptions: `overflow` for extents that overflow, `other` for exceptions not listed here. Broken
// invariants give internal, bad_alloc gives out_of_memory.
struct ExceptionCodes {
  StatusCode overflow = StatusCode::invalid_argument;
  StatusCode other = StatusCode::internal;
};

// Call only while an exception is being handled.
Status status_of_exception(const ExceptionCodes& codes = {}) noexcept;

template <class F>
auto guarded(const F& f, const ExceptionCodes& codes = {}) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return status_of_exception(codes);
  }
}

// The Status with the note that make_note() returns, or without it if there is no memory for the note.
template <class MakeNote>
Status noted(Status status, const MakeNote& make_note) noexcept {
  try {
    return std::move(status).with_note(make_note());
  } catch (...) {
    return status;
  }
}

// Runs `f` guarded and adds a note to its error.
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
