// SPDX-License-Identifier: Apache-2.0
// Helpers with which op handlers emit nodes. A cast, reshape, broadcast, transpose, slice, concat or reduction that
// would not change its operand emits no node.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/onnx/builder.h"

namespace fusec::importer {

using ir::ScalarOp;
using ir::TensorOp;

Val add(Builder& b, Val x, Val y);
Val sub(Builder& b, Val x, Val y);
Val mul(Builder& b, Val x, Val y);
Val div(Builder& b, Val x, Val y);
Val mul(Builder& b, Val x, double y);  // y gets the type of x
Val add(Builder& b, Val x, double y);
Val unary(Builder& b, ScalarOp op, Val x);
Val binary(Builder& b, ScalarOp op, Val x, Val y);

Val cast(Builder& b, Val x, DType to);
Val reshape(Builder& b, Val x, const Shape& shape);
Val broadcast(Builder& b, Val x, const Shape& shape);
Val transpose(Builder& b, Val x, const std::vector<int64_t>& perm);
Val concat(Builder& b, const std::vector<Val>& parts, int64_t axis);
Val iota(Builder& b, const Shape& shape, int64_t axis, DType dtype);
// Slices `size` elements of one axis from `start`.
Val slice(Builder& b, Val x, int64_t axis, const Dim& start, const Dim& size, int64_t step = 1);

// Reduces x over these axes. With `keep` they stay, with extent 1.
Val reduce(Builder& b, TensorOp op, Val x, const std::vector<int64_t>& axes, bool keep);
Val drop_axes(Builder& b, Val x, const std::vector<int64_t>& axes);  // the axes must have extent 1

// Reshapes a vector to broadcast along `axis` of a tensor of this rank: [C] -> [C, 1, 1].
Val along_axis(Builder& b, Val vector, int64_t axis, int64_t rank);

// Reports channels that do not split into this number of groups: unsupported if a symbol in their number leaves it
// open, else invalid_model.
[[noreturn]] void fail_groups(const Dim& channels, int64_t groups);

// Throws ImportError when an index that is known lies outside an axis of this extent.
void check_indices(const Builder& b, Val index, const Dim& extent);

// Casts x to the type in which composite float ops compute: f32 for narrower types. Such ops round once at their end.
Val widen(Builder& b, Val x);
std::vector<int64_t> range_axes(int64_t begin, int64_t end);

}  // namespace fusec::importer
