// SPDX-License-Identifier: Apache-2.0
// The type rules behind infer_type. A rule may assume that the operand count and the attributes are those of its row.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::ir::infer {

using Args = std::vector<Type>;

#define TENSOR_OP(name, ...) Result<Type> infer_##name(const Args& in, const Attrs& attrs);
#include "ir/ops/tensor_ops.def"

inline std::string str(int64_t v) { return std::to_string(v); }

Status bad(std::string message);  // invalid_model
// Of two extents or shapes that must be equal and are not: invalid_model where they differ in every run, unsupported
// where names in them may stand for equal numbers.
Status differ(const Shape& a, const Shape& b, std::string message);
inline Status differ(const Dim& a, const Dim& b, std::string message) {
  return differ(Shape{a}, Shape{b}, std::move(message));
}
Status check_axis(int64_t axis, int rank, const char* what);
Status check_extents(const Shape& shape, const char* what);  // no negative constant
Status check_rank(const Type& type, std::size_t rank, const char* what);

}  // namespace fusec::ir::infer
