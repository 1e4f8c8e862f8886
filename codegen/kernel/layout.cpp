// SPDX-License-Identifier: Apache-2.0
// Computes strides and linear element offsets of kernel buffers during emit, including the "pitch P" layout.

#include "codegen/kernel/layout.h"

#include <charconv>

#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

int64_t parse_pitch(const std::string& layout) {
  constexpr std::string_view kPrefix = "pitch ";
  int64_t pitch = 0;
  if (layout.starts_with(kPrefix)) {
    std::from_chars(layout.data() + kPrefix.size(), layout.data() + layout.size(), pitch);
  }
  return pitch;
}

}  // namespace

ir::IndexShape compute_strides(const ir::Buffer& buffer) {
  if (!buffer.strides.empty()) return buffer.strides;
  const int64_t pitch = parse_pitch(buffer.layout);
  if (pitch == 0 || buffer.shape.size() < 2) return contiguous_strides(buffer.shape);
  ir::IndexShape padded = buffer.shape;
  padded.back() = pitch;
  return contiguous_strides(padded);
}

IndexExpr linear_index(const ir::Buffer& buffer, const std::vector<IndexExpr>& index) {
  const ir::IndexShape strides = compute_strides(buffer);
  FUSEC_CHECK(index.size() == strides.size())
      << "buffer '" << buffer.name << "' indexed by " << index.size() << " dims";
  IndexExpr out;
  for (std::size_t i = 0; i < index.size(); ++i) out += index[i] * strides[i];
  return out;
}

}  // namespace fusec::codegen
