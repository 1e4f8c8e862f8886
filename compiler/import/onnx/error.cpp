// SPDX-License-Identifier: Apache-2.0
// Constructs the errors of the import stage. Every message is made printable and bounded in length, because it may
// contain strings of an untrusted model.

#include "compiler/import/onnx/error.h"

#include "compiler/import/onnx/names.h"
#include "ir/graph/infer_rules.h"
#include "ir/support/guard.h"

namespace fusec::importer {

namespace {

constexpr std::size_t kMaxBytes = 500;

}  // namespace

ImportError::ImportError(const Status& any) : status(any.code(), printable(any.message(), std::string::npos)) {
  for (const std::string& note : any.notes()) status = std::move(status).with_note(note);
}

void fail_invalid(const std::string& message) {
  throw ImportError(Status(StatusCode::invalid_model, printable(message, kMaxBytes)));
}

void fail_unsupported(const std::string& message) {
  throw ImportError(Status(StatusCode::unsupported, printable(message, kMaxBytes)));
}

void fail_limit(const std::string& message) {
  ImportError error(Status(StatusCode::unsupported, printable(message, kMaxBytes)));
  error.ends_import = true;
  throw error;
}

void fail_differ(const Shape& a, const Shape& b, const std::string& message) {
  throw ImportError(ir::infer::differ(a, b, printable(message, kMaxBytes)));
}

Status status_of_import() {
  const Status status =
      ir::status_of_exception({.overflow = StatusCode::unsupported, .other = StatusCode::invalid_model});
  return Status(status.code(), printable(status.message(), kMaxBytes));
}

}  // namespace fusec::importer
