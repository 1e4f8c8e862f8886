// SPDX-License-Identifier: Apache-2.0
// What NVRTC and nvJitLink answer in two calls: its size, then its bytes.
#pragma once

#include <cstddef>
#include <string>

namespace fusec::codegen {

// Empty where there is none. Both libraries' results are 0 for success.
template <class Bytes, class Handle, class Size, class Get>
Bytes sized_answer(Handle handle, Size size_of, Get get) {
  std::size_t size = 0;
  if (handle == nullptr || size_of(handle, &size) != 0 || size == 0) return {};
  Bytes out(size, {});
  if (get(handle, reinterpret_cast<char*>(out.data())) != 0) return {};
  return out;
}

// Without the zeros that end it.
inline std::string c_text(std::string text) {
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace fusec::codegen
