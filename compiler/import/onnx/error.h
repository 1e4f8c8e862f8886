// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "fusec/shape.h"
#include "fusec/status.h"

namespace fusec::importer {

// The exception with which the code of this folder rejects a model. It is thrown only inside this folder; import_onnx
// converts it to a Status. The constructor makes the message, which may contain strings of the model, one line of
// UTF-8.
struct ImportError {
  explicit ImportError(const Status& any);
  Status status;
  bool ends_import = false;  // import stops at this node, even if the code is unsupported
};

// These truncate messages longer than 500 bytes.
[[noreturn]] void fail_invalid(const std::string& message);
[[noreturn]] void fail_unsupported(const std::string& message);
// Reports as unsupported that the model exceeds a limit of ImportLimits. Import stops at once, because continuing would
// cost what the limit is meant to save.
[[noreturn]] void fail_limit(const std::string& message);
// Reports two extents or shapes that ONNX requires to be equal: invalid_model if they differ for all values of the
// symbols, unsupported if symbols in them may stand for equal numbers. Call only when they differ.
[[noreturn]] void fail_differ(const Shape& a, const Shape& b, const std::string& message);

// Converts any other exception thrown while a model is read: from protobuf or the onnx library, from extents that
// overflow, or when memory is exhausted. Call only while an exception is handled.
Status status_of_import();

inline void add_note(ImportError& error, std::string note) {
  Status noted = std::move(error.status).with_note(std::move(note));
  error.status = std::move(noted);
}

// Returns the value of a Result or throws its Status as an ImportError.
template <class T>
T take(Result<T> result) {
  if (!result.ok()) throw ImportError{result.status()};
  return std::move(result).value();
}
inline void check(Status status) {
  if (!status.ok()) throw ImportError{std::move(status)};
}

}  // namespace fusec::importer
