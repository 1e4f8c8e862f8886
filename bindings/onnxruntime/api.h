// SPDX-License-Identifier: Apache-2.0
// Calls of ONNX Runtime, and what carries an error from where it happens to the function that ONNX Runtime called.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "bindings/onnxruntime/ort_abi.h"

namespace fusec::ort {

// An error on its way to ONNX Runtime. It never leaves a function that ONNX Runtime calls: `guarded` ends it.
struct Failure : std::exception {
  Failure(ErrorCode code, std::string message) : code(code), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  ErrorCode code;
  std::string message;
};

class Api {
 public:
  // Throws Failure where the loaded ONNX Runtime is older than kOldestApi.
  explicit Api(const ApiBase& base);

  // A function that answers no OrtStatus.
  template <class Function, class... Args>
  auto plain(Args... args) const {
    return pointer<Function>(table_)(args...);
  }
  // A function that answers one. Throws Failure with its message.
  template <class Function, class... Args>
  void call(Args... args) const {
    check(pointer<Function>(table_)(args...));
  }
  // A function whose last parameter is where the answer goes.
  template <class Function, class Answer, class... Args>
  Answer get(Args... args) const {
    Answer answer{};
    call<Function>(args..., &answer);
    return answer;
  }
  template <class Function, class... Args>
  void call_ep(Args... args) const {
    check(pointer<Function>(ep_table_)(args...));
  }
  template <class Function, class... Args>
  auto plain_ep(Args... args) const {
    return pointer<Function>(ep_table_)(args...);
  }
  // Throws Failure where ONNX Runtime was built without its model editor.
  template <class Function, class... Args>
  void call_editor(Args... args) const {
    check(pointer<Function>(editor_table())(args...));
  }

  bool tells_unknown_ranks() const { return version_ >= kApiWithHasShape; }
  bool takes_new_hardware() const { return version_ >= kApiWithNewHardware; }
  bool names_nodes_inside() const { return version_ >= kApiWithNamesInside; }
  // Null if there is no memory.
  OrtStatus* make_status(ErrorCode code, const char* message) const noexcept {
    return plain<api::CreateStatus>(static_cast<int>(code), message);
  }
  void log(const OrtLogger* logger, LogLevel level, const std::string& message) const noexcept;

 private:
  template <class Function>
  static typename Function::Pointer pointer(const void* const* table) {
    return reinterpret_cast<typename Function::Pointer>(const_cast<void*>(table[Function::place]));
  }
  void check(OrtStatus* status) const;
  const void* const* editor_table() const;

  const void* const* table_ = nullptr;
  const void* const* ep_table_ = nullptr;
  uint32_t version_ = 0;  // 23 of release 1.23
};

// The value of `body`, a function that answers an OrtStatus*, or its exception as an OrtStatus.
template <class Body>
OrtStatus* guarded(const Api& api, const Body& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    return api.make_status(failure.code, failure.message.c_str());
  } catch (const std::bad_alloc&) {
    return api.make_status(ErrorCode::ep_fail, "fusec: out of memory");
  } catch (const std::exception& other) {
    return api.make_status(ErrorCode::ep_fail, other.what());
  }
}

}  // namespace fusec::ort
