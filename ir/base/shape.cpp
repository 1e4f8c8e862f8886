// SPDX-License-Identifier: Apache-2.0
// Helpers on shapes with symbolic extents: text, element count and row-major strides.

#include "fusec/shape.h"

#include <algorithm>

namespace fusec {

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].str();
  return text + "]";
}

bool is_const(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_const(); });
}

Dim num_elements(const Shape& shape) {
  // A zero extent takes precedence over an overflow of the others.
  for (const Dim& d : shape) {
    if (d.is(0)) return 0;
  }
  Dim product = 1;
  for (const Dim& d : shape) product *= d;
  return product;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  Dim stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    if (i > 0) stride *= shape[i];
  }
  return strides;
}

}  // namespace fusec
