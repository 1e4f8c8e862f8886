// SPDX-License-Identifier: Apache-2.0
// Reads the flat arrays of extents.

#include "bindings/c/extents.h"

#include "bindings/c/error.h"

namespace fusec::c {

std::size_t total_rank(const std::vector<TensorInfo>& infos) {
  std::size_t rank = 0;
  for (const TensorInfo& info : infos) rank += info.shape.size();
  return rank;
}

Result<std::span<const int64_t>> check_extents(const Engine& engine, const int64_t* extents) {
  const std::size_t count = total_rank(engine.inputs());
  if (count > 0) FUSEC_TRY(check_pointer(extents, "input_extents"));
  return std::span(extents, count);
}

std::vector<TensorShape> split_extents(const std::vector<TensorInfo>& infos, std::span<const int64_t> extents) {
  std::vector<TensorShape> shapes;
  for (const TensorInfo& info : infos) {
    shapes.emplace_back(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(info.shape.size()));
    extents = extents.subspan(info.shape.size());
  }
  return shapes;
}

Result<std::vector<TensorShape>> read_shapes(const Engine& engine, const int64_t* extents) {
  FUSEC_ASSIGN(const std::span<const int64_t> flat, check_extents(engine, extents));
  return split_extents(engine.inputs(), flat);
}

}  // namespace fusec::c
