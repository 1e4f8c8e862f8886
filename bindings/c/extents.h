// SPDX-License-Identifier: Apache-2.0
// Extents of all inputs as one flat array.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fusec/engine.h"

namespace fusec::c {

std::size_t total_rank(const std::vector<TensorInfo>& infos);
// Those of all inputs; a NULL is refused where there are any.
Result<std::span<const int64_t>> check_extents(const Engine& engine, const int64_t* extents);
std::vector<TensorShape> split_extents(const std::vector<TensorInfo>& infos, std::span<const int64_t> extents);
Result<std::vector<TensorShape>> read_shapes(const Engine& engine, const int64_t* extents);

}  // namespace fusec::c
