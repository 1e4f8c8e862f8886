// SPDX-License-Identifier: Apache-2.0
// Implements Status: code, message and notes. It must not throw; if memory for the text runs out, the status becomes
// out_of_memory, which needs none.

#include "fusec/status.h"

#include <new>

namespace fusec {

struct Status::Text {
  std::string message;
  std::vector<std::string> notes;
};

namespace {

// Created when the library is loaded, while there is memory.
const std::string kNothing;
const std::string kExhausted = "host memory is exhausted";
const std::vector<std::string> kNoNotes;

}  // namespace

const char* to_string(StatusCode code) noexcept {
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
    case StatusCode::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message, std::vector<std::string> notes) noexcept : code_(code) {
  if (message.empty() && notes.empty()) return;
  try {
    text_ = std::make_shared<const Text>(Text{std::move(message), std::move(notes)});
  } catch (...) {
    code_ = StatusCode::out_of_memory;
  }
}

Status Status::exhausted() noexcept { return Status(StatusCode::out_of_memory, {}); }

const std::string& Status::message() const noexcept {
  if (text_) return text_->message;
  return code_ == StatusCode::out_of_memory ? kExhausted : kNothing;
}

const std::vector<std::string>& Status::notes() const noexcept { return text_ ? text_->notes : kNoNotes; }

Status Status::with_note(std::string note) && noexcept {
  try {
    std::vector<std::string> more = notes();
    more.push_back(std::move(note));
    text_ = std::make_shared<const Text>(Text{message(), std::move(more)});
  } catch (...) {
    // The status without the note is still useful.
  }
  return std::move(*this);
}

void throw_no_value(const Status& why) {
  if (why.code() == StatusCode::out_of_memory) throw std::bad_alloc();
  throw std::bad_variant_access();
}

std::string Status::str() const noexcept {
  try {
    std::string text = to_string(code_);
    if (!message().empty()) text += ": " + message();
    for (const std::string& note : notes()) text += "; " + note;
    return text;
  } catch (...) {
    return "out of memory";  // short enough to be stored in the string object itself
  }
}

}  // namespace fusec
