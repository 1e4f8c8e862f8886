// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as the evaluator computes with them: floats as double, signed integers as int64_t, unsigned ones
// and bools as uint64_t. Storing rounds floats to nearest even and wraps integers.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "fusec/dtype.h"
#include "ir/ops/cast.h"

namespace fusec::ir {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <class S>
inline constexpr bool kIsHalf = std::is_same_v<S, F16> || std::is_same_v<S, BF16>;

// Calls f(S()) where S is the C++ type of one stored element.
template <class F>
auto visit_storage(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64:
      return f(double());
    case DType::f32:
      return f(float());
    case DType::f16:
      return f(F16());
    case DType::bf16:
      return f(BF16());
    case DType::i8:
      return f(int8_t());
    case DType::i16:
      return f(int16_t());
    case DType::i32:
      return f(int32_t());
    case DType::i64:
      return f(int64_t());
    case DType::u16:
      return f(uint16_t());
    case DType::u32:
      return f(uint32_t());
    case DType::u64:
      return f(uint64_t());
    case DType::u8:
    case DType::bool_:
      break;
  }
  return f(uint8_t());
}

// Calls f(T()) where T is the type the evaluator computes in.
template <class F>
auto visit_compute(DType dtype, const F& f) {
  if (is_float(dtype)) return f(double());
  if (is_signed_int(dtype)) return f(int64_t());
  return f(uint64_t());
}

template <class T, class S>
T widen(S s) {
  if constexpr (std::is_same_v<S, F16>) {
    return static_cast<T>(f32_from_f16(s.bits));
  } else if constexpr (std::is_same_v<S, BF16>) {
    return static_cast<T>(f32_from_bf16(s.bits));
  } else {
    return static_cast<T>(s);
  }
}

template <class S, class T>
S narrow(T value) {
  if constexpr (std::is_same_v<S, F16>) {
    return F16{f16_from_f64(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<S, BF16>) {
    return BF16{bf16_from_f64(static_cast<double>(value))};
  } else {
    return static_cast<S>(value);
  }
}

// A float must not be read as an integer or stored into one: that is what ir/ops/cast.h is for.
template <class S, class T>
inline constexpr bool kMayHold = std::is_floating_point_v<T> == (kIsHalf<S> || std::is_floating_point_v<S>);

template <class T>
T load_element(DType dtype, const void* element) {
  return visit_storage(dtype, [&]<class S>(S) -> T {
    if constexpr (kMayHold<S, T>) return widen<T>(*static_cast<const S*>(element));
    return T();
  });
}

template <class T>
void store_element(DType dtype, void* element, T value) {
  visit_storage(dtype, [&]<class S>(S) {
    if constexpr (kMayHold<S, T>) *static_cast<S*>(element) = narrow<S>(value);
  });
}

// out[i] = base[offset + i * stride] and base[offset + i * stride] = in[i]; offset and stride count elements.
template <class T>
void load_elements(DType dtype, const void* base, int64_t offset, int64_t stride, int64_t count, T* out) {
  visit_storage(dtype, [&]<class S>(S) {
    if constexpr (kMayHold<S, T>) {
      const S* p = static_cast<const S*>(base) + offset;
      for (int64_t i = 0; i < count; ++i) out[i] = widen<T>(p[i * stride]);
    }
  });
}

template <class T>
void store_elements(DType dtype, void* base, int64_t offset, int64_t stride, int64_t count, const T* in) {
  visit_storage(dtype, [&]<class S>(S) {
    if constexpr (kMayHold<S, T>) {
      S* p = static_cast<S*>(base) + offset;
      for (int64_t i = 0; i < count; ++i) p[i * stride] = narrow<S>(in[i]);
    }
  });
}

}  // namespace fusec::ir
