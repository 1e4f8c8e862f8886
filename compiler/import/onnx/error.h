// SPDX-License-Identifier: Apache-2.0
// How the importer rejects a model, and how it names the parts of one. ImportError is thrown only inside this folder;
// import_onnx converts it to a Status. Names are checked, and strings of the model are made printable before they enter
// a message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/import/onnx/assumptions.h"
#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/shape.h"
#include "fusec/status.h"

namespace fusec::importer {

// The exception with which the code of this folder rejects a model. It is thrown only inside this folder; import_onnx
// converts it to a Status. The constructor makes the message, which may contain strings of the model, one line of
// UTF-8.
struct ImportError {
  explicit ImportError(const Status& any);
  Status status;
  bool ends_import = false;               // import stops at this node, even if the code is unsupported
  std::optional<UnequalExtents> unequal;  // if the code is unsupported because of these
};

// These truncate messages longer than 500 bytes.
[[noreturn]] void fail_invalid(const std::string& message);
[[noreturn]] void fail_unsupported(const std::string& message);
[[noreturn]] void fail_option(const std::string& message);  // invalid_argument
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

// Throws ImportError for names that are too long, hold NUL or are not UTF-8.
void check_name(const std::string& name, const ImportLimits& limits);
// Makes text printable in a message: one line of UTF-8 of at most `most` bytes, in which control characters and invalid
// bytes are written as \x0a.
std::string printable(std::string_view text, std::size_t most);
inline std::string short_name(std::string_view name) { return printable(name, 80); }
// "name (OpType)", with the first output in place of a name that is empty: the origin of what a node of the main graph
// becomes.
std::string node_label(const proto::NodeProto& node);

}  // namespace fusec::importer
