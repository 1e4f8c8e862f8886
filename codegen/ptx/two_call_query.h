// SPDX-License-Identifier: Apache-2.0
// Queries of NVRTC and nvJitLink that take two calls: one for the size, one for the bytes.
#pragma once

#include <cstddef>
#include <string>

namespace fusec::codegen {

// Empty if there is no answer. Both libraries return 0 for success.
template <class Bytes, class Handle, class Size, class Get>
Bytes two_call_query(Handle handle, Size size_of, Get get) {
  std::size_t size = 0;
  if (handle == nullptr || size_of(handle, &size) != 0 || size == 0) return {};
  Bytes out(size, {});
  if (get(handle, reinterpret_cast<char*>(out.data())) != 0) return {};
  return out;
}

// Removes the terminating zeros.
inline std::string c_text(std::string text) {
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace fusec::codegen
