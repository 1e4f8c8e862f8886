// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "fusec/status.h"

namespace fusec::importer {

// How a handler, many calls deep, gives up on a model. Thrown only inside this folder; import_onnx turns it into its
// Status.
struct ImportError {
  Status status;
};

[[noreturn]] inline void fail_invalid(std::string message) {
  throw ImportError{Status(StatusCode::invalid_model, std::move(message))};
}
[[noreturn]] inline void fail_unsupported(std::string message) {
  throw ImportError{Status(StatusCode::unsupported, std::move(message))};
}

// Of what else is thrown while a model is read: protobuf, the onnx library, extents that overflow, memory that is
// exhausted. Call only while an exception is handled.
Status status_of_import();

inline void add_note(ImportError& error, std::string note) {
  Status noted = std::move(error.status).with_note(std::move(note));
  error.status = std::move(noted);
}

// The value of a Result, or its Status thrown.
template <class T>
T take(Result<T> result) {
  if (!result.ok()) throw ImportError{result.status()};
  return std::move(result).value();
}
inline void check(Status status) {
  if (!status.ok()) throw ImportError{std::move(status)};
}

}  // namespace fusec::importer
