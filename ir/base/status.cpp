// SPDX-License-Identifier: Apache-2.0
#include "fusec/status.h"

namespace fusec {

const char* to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_model:
      return "invalid_model";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::invalid_argument:
      return "invalid_argument";
    case StatusCode::device:
      return "device";
    case StatusCode::out_of_memory:
      return "out_of_memory";
    case StatusCode::compile_failed:
      return "compile_failed";
    case StatusCode::cache:
      return "cache";
    case StatusCode::internal:
      return "internal";
  }
  return "unknown";
}

Status Status::with_note(std::string note) && {
  notes_.push_back(std::move(note));
  return std::move(*this);
}

std::string Status::str() const {
  std::string text = to_string(code_);
  if (!message_.empty()) text += ": " + message_;
  for (const std::string& note : notes_) text += "; " + note;
  return text;
}

}  // namespace fusec
