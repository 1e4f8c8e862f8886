// SPDX-License-Identifier: Apache-2.0
// The type rules behind infer_type. A rule may assume that the operand count and the attributes are those of its row.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace fusec::ir::infer {

using Args = std::vector<Type>;

#define TENSOR_OP(name, ...) Result<Type> infer_##name(const Args& in, const Attrs& attrs);
#include "ir/ops/tensor_ops.def"

inline std::string str(int64_t v) { return std::to_string(v); }

Status bad(std::string message);  // invalid_model
// Two extents that must be one: invalid_model for numbers, unsupported for names, which a run may give one value.
Status differ(const Dim& a, const Dim& b, std::string message);
Status check_axis(int64_t axis, int rank, const char* what);
Status check_extents(const Shape& shape, const char* what);  // no negative constant
Status check_rank(const Type& type, std::size_t rank, const char* what);

}  // namespace fusec::ir::infer
