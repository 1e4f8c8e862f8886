// SPDX-License-Identifier: Apache-2.0
// The table of element types: names, sizes and parsing. The rows are in enum order.

#include "fusec/dtype.h"

#include <array>

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

}  // namespace fusec
