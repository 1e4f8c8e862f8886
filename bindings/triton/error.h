// SPDX-License-Identifier: Apache-2.0
// Errors of Triton that own themselves, made of fusec's and of our own messages.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "bindings/triton/api.h"
#include "fusec/c.h"

namespace fusec::triton {

struct EndError {
  void operator()(TRITONSERVER_Error* error) const { TRITONSERVER_ErrorDelete(error); }
};
using Error = std::unique_ptr<TRITONSERVER_Error, EndError>;  // null: it went well

Error make_error(TRITONSERVER_Error_Code code, const std::string& message);
inline Error refuse(const std::string& message) { return make_error(TRITONSERVER_ERROR_INVALID_ARG, message); }

// What a function answered, owned.
inline Error take(TRITONSERVER_Error* error) { return Error(error); }
inline Error take(Error error) { return error; }
Error take(fusec_error* error);  // with its message

// For what has no caller that could be told.
void log_error(const std::string& message);
// An error, if it is one, becomes a line of the server's log.
void log_error(const Error& error);

// Answers the error of an expression, if it has one.
#define FUSEC_TRITON_TRY(...) \
  if (::fusec::triton::Error error_ = ::fusec::triton::take(__VA_ARGS__)) return error_

// What f answers; no exception leaves it.
template <class F>
TRITONSERVER_Error* guarded(const F& f) noexcept {
  try {
    return f().release();
  } catch (const std::bad_alloc&) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "fusec: out of memory");
  } catch (const std::exception& e) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, e.what());
  }
}

template <class F>
Error attempt(const F& f) noexcept {
  return Error(guarded(f));
}

}  // namespace fusec::triton
