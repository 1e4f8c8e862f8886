// SPDX-License-Identifier: Apache-2.0
// Handles of the C interface of fusec that end themselves, and its errors as Failure.
#pragma once

#include <memory>
#include <string>

#include "bindings/onnxruntime/api.h"
#include "fusec/c.h"

namespace fusec::ort {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using OptionsHandle = std::unique_ptr<fusec_options, Freed<fusec_options_free>>;
using ModelHandle = std::unique_ptr<fusec_model, Freed<fusec_model_free>>;
using EngineHandle = std::unique_ptr<fusec_engine, Freed<fusec_engine_free>>;
using SessionHandle = std::unique_ptr<fusec_session, Freed<fusec_session_free>>;
using TextHandle = std::unique_ptr<char, Freed<fusec_free>>;
using BytesHandle = std::unique_ptr<void, Freed<fusec_free>>;

// Throws Failure with the message of an error of fusec.
inline void check(fusec_error* error) {
  if (error == nullptr) return;
  const bool is_mistake = fusec_error_code(error) == FUSEC_INVALID_ARGUMENT;
  Failure failure(is_mistake ? ErrorCode::invalid_argument : ErrorCode::ep_fail,
                  std::string("fusec: ") + fusec_error_message(error));
  fusec_error_free(error);
  throw failure;
}

}  // namespace fusec::ort
