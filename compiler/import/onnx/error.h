// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "fusec/shape.h"
#include "fusec/status.h"

namespace fusec::importer {

// How a handler, many calls deep, gives up on a model. Thrown only inside this folder; import_onnx turns it into its
// Status. The message, which may hold strings of the model, is made one line of UTF-8.
struct ImportError {
  explicit ImportError(const Status& any);
  Status status;
  bool ends_import = false;  // of a node: the nodes after it are not looked at, even if the code is unsupported
};

// Messages of more than 500 bytes are cut.
[[noreturn]] void fail_invalid(const std::string& message);
[[noreturn]] void fail_unsupported(const std::string& message);
// The model passes a limit of ImportLimits: unsupported, and import ends there, because going on costs what the limit
// is there to save.
[[noreturn]] void fail_limit(const std::string& message);
// Two extents, or two shapes, that ONNX wants to be equal are not: invalid_model where they differ in every run,
// unsupported where names in them may stand for equal numbers. Call only when they differ.
[[noreturn]] void fail_differ(const Shape& a, const Shape& b, const std::string& message);

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
