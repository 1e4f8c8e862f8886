// SPDX-License-Identifier: Apache-2.0
// What tests do less of under sanitizers. These slow our code down 3 to 10 times and see nothing of what generated code
// does; they look for mistakes of memory in our own code, which a few cases of each kind walk. All cases are left to
// the builds without.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <vector>

namespace fusec::testing_support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The number of cases, points or elements; `some` under sanitizers.
template <class T>
constexpr T many_or(T many, std::type_identity_t<T> some) {
  return kSanitized ? some : many;
}

// All cases; under sanitizers every `stride`-th, the first included.
template <class Cases>
auto sampled(const Cases& all, std::size_t stride = 4) {
  std::vector<std::decay_t<decltype(*std::begin(all))>> some;
  std::size_t number = 0;
  for (const auto& one : all)
    if (!kSanitized || number++ % stride == 0) some.push_back(one);
  return some;
}

}  // namespace fusec::testing_support
