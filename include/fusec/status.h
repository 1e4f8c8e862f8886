// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every fallible function of the library answers. No exception leaves the library.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fusec/export.h"

namespace fusec {

// Whose turn it is to act.
enum class StatusCode {
  ok,
  invalid_model,     // the model breaks the ONNX rules
  unsupported,       // the model is fine, fusec lacks something; the message names what
  invalid_argument,  // the caller's mistake
  device,            // a device, driver or library failed or is missing
  out_of_memory,
  compile_failed,  // a kernel did not compile; the message holds the compiler's log
  cache,           // only ever a warning
  internal,        // a defect of fusec
};

FUSEC_API const char* to_string(StatusCode code);

// A code, one message, and notes added on the way up, innermost first.
class [[nodiscard]] FUSEC_API Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // Adds where it happened, e.g. "while importing node '/fc1/Add' (Add-14)".
  Status with_note(std::string note) &&;
  // "unsupported: no rule for op 'Foo'; while importing node 'x'": one line.
  std::string str() const;

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
  std::vector<std::string> notes_;
};

// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT: implicit by design
  Result(Status status) : state_(std::move(status)) {}     // NOLINT
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace fusec

// Returns the Status of `expr` from the enclosing function unless it is ok.
#define FUSEC_TRY(expr)                                        \
  do {                                                         \
    if (::fusec::Status fusec_status_ = (expr); !fusec_status_.ok()) return fusec_status_; \
  } while (false)

#define FUSEC_CONCAT_(a, b) a##b
#define FUSEC_CONCAT(a, b) FUSEC_CONCAT_(a, b)
// FUSEC_ASSIGN(auto x, f()): x is the value of f(), or the enclosing function returns f()'s Status.
#define FUSEC_ASSIGN(declaration, expr) FUSEC_ASSIGN_(declaration, expr, FUSEC_CONCAT(fusec_result_, __LINE__))
#define FUSEC_ASSIGN_(declaration, expr, tmp) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  declaration = std::move(tmp).value()
