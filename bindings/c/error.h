// SPDX-License-Identifier: Apache-2.0
// How functions of the C interface check their handles, answer errors and log.
#pragma once

#include <cstring>
#include <string>

#include "bindings/c/handles.h"
#include "ir/support/check.h"

namespace fusec::c {

// Null for an ok Status. Where there is no memory for the error it is one that is always there.
fusec_error* make_error(const Status& status) noexcept;

// The body of a function of the C interface: f answers a Status, and its exceptions become errors.
template <class F>
fusec_error* guarded(const F& f) noexcept {
  return make_error(ir::guarded(f));
}

Status reject_null(const char* parameter);
Status reject_type(const char* parameter, Magic found, Magic expected);

template <class T>
Status check_pointer(const T* pointer, const char* parameter) {
  return pointer == nullptr ? reject_null(parameter) : Status();
}

inline Magic read_magic(const void* handle) {
  Magic magic = 0;
  std::memcpy(&magic, handle, sizeof magic);
  return magic;
}

template <class Handle>
Status check_handle(const Handle* handle, const char* parameter) {
  if (handle == nullptr) return reject_null(parameter);
  const Magic magic = read_magic(handle);
  return magic == Handle::kMagic ? Status() : reject_type(parameter, magic, Handle::kMagic);
}

// Says what the caller did wrong to the log; for functions that answer no error.
void log_mistake(const Status& status) noexcept;

// Ends a handle; one of another type stays, and the log tells of it.
template <class Handle>
void free_handle(Handle* handle, const char* parameter) noexcept {
  if (handle == nullptr) return;
  if (const Status wrong = ir::guarded([&] { return check_handle(handle, parameter); }); !wrong.ok()) {
    return log_mistake(wrong);
  }
  *const_cast<volatile Magic*>(&handle->magic) = 0;
  delete handle;
}

// To the function of fusec_set_log, else to stderr.
void log_message(int severity, const std::string& message);

// Copies the text to memory for fusec_free.
Status give_text(const std::string& text, char** out);

}  // namespace fusec::c
