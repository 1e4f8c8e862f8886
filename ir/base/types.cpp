// SPDX-License-Identifier: Apache-2.0
// Implements fusec/dtype.h and fusec/shape.h: names and sizes of dtypes, and helpers on shapes.

#include <algorithm>
#include <array>

#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "ir/base/index_expr.h"

namespace fusec {
namespace {

struct DTypeInfo {
  const char* name;
  std::size_t size;
};
// In enum order.
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{{"f64", 8},
                                                       {"f32", 4},
                                                       {"f16", 2},
                                                       {"bf16", 2},
                                                       {"i8", 1},
                                                       {"i16", 2},
                                                       {"i32", 4},
                                                       {"i64", 8},
                                                       {"u8", 1},
                                                       {"u16", 2},
                                                       {"u32", 4},
                                                       {"u64", 8},
                                                       {"bool", 1}}};

}  // namespace

const char* to_string(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    if (text == kInfo[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::size_t size_of(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)].size; }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].str();
  return text + "]";
}

namespace {

template <class S>
bool all_const(const S& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const auto& d) { return d.is_const(); });
}

// A zero extent takes precedence over an overflow of the others.
template <class E>
E product(const std::vector<E>& shape) {
  for (const E& d : shape) {
    if (d.is(0)) return 0;
  }
  E product = 1;
  for (const E& d : shape) product *= d;
  return product;
}

template <class E>
std::vector<E> row_major(const std::vector<E>& shape) {
  std::vector<E> strides(shape.size());
  E stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    if (i > 0) stride *= shape[i];
  }
  return strides;
}

}  // namespace

bool is_const(const Shape& shape) { return all_const(shape); }
Dim num_elements(const Shape& shape) { return product(shape); }
Shape contiguous_strides(const Shape& shape) { return row_major(shape); }

bool ir::is_const(const IndexShape& shape) { return all_const(shape); }
ir::IndexExpr ir::num_elements(const IndexShape& shape) { return product(shape); }
ir::IndexShape ir::contiguous_strides(const IndexShape& shape) { return row_major(shape); }

}  // namespace fusec
