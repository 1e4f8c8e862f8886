// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every fallible function of the library answers. What answers one of the two never throws,
// also when no memory is left. What answers a plain value (Tensor::borrow, Dim's operators, ...) may throw
// std::bad_alloc, as the containers in it do.
#pragma once

#include <memory>
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
  cancelled,       // Options::on_progress ended the call, which can be made again
};

FUSEC_API const char* to_string(StatusCode code) noexcept;

// A code, one message, and notes added on the way up, innermost first. Copies share the text, so that making, moving
// and copying one never throws: where there is no memory for the text, the Status is `exhausted`.
class [[nodiscard]] FUSEC_API Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message, std::vector<std::string> notes = {}) noexcept;
  // out_of_memory of the host. Allocates nothing.
  static Status exhausted() noexcept;

  bool ok() const noexcept { return code_ == StatusCode::ok; }
  StatusCode code() const noexcept { return code_; }
  const std::string& message() const noexcept;
  const std::vector<std::string>& notes() const noexcept;

  // Adds where it happened, e.g. "while importing node '/fc1/Add' (Add-14)". Without memory for it the note is left
  // out.
  Status with_note(std::string note) && noexcept;
  // "unsupported: no rule for op 'Foo'; while importing node 'x'": one line. Without memory for it "out of memory".
  std::string str() const noexcept;

 private:
  struct Text;
  StatusCode code_ = StatusCode::ok;
  std::shared_ptr<const Text> text_;  // null: no message, or that of `exhausted`
};

// Throws std::bad_alloc if `why` is out_of_memory, else std::bad_variant_access.
[[noreturn]] FUSEC_API void throw_no_value(const Status& why);

// A value or the Status that says why there is none. Taking the value where there is none is a mistake, and throws.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                  // NOLINT: implicit by design
  Result(Status status) noexcept : state_(std::move(status)) {}  // NOLINT
  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  T& value() & { return have_value(), *std::get_if<0>(&state_); }
  const T& value() const& { return have_value(), *std::get_if<0>(&state_); }
  T&& value() && { return have_value(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Status status() const noexcept { return ok() ? Status() : std::get<1>(state_); }

 private:
  void have_value() const {
    if (!ok()) throw_no_value(std::get<1>(state_));
  }
  std::variant<T, Status> state_;
};

}  // namespace fusec

// Returns the Status of `expr` from the enclosing function unless it is ok.
#define FUSEC_TRY(expr)                                                                    \
  do {                                                                                     \
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
