// SPDX-License-Identifier: Apache-2.0
// Broken invariants. FUSEC_CHECK throws InternalError, which every public entry point turns into StatusCode::internal.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

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
