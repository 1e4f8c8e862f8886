// SPDX-License-Identifier: Apache-2.0
// Short names for the nodes that handlers put together. What changes nothing adds no node.
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
Val mul(Builder& b, Val x, double y);  // y in the type of x
Val add(Builder& b, Val x, double y);
Val unary(Builder& b, ScalarOp op, Val x);
Val binary(Builder& b, ScalarOp op, Val x, Val y);

Val cast(Builder& b, Val x, DType to);
Val reshape(Builder& b, Val x, const Shape& shape);
Val broadcast(Builder& b, Val x, const Shape& shape);
Val transpose(Builder& b, Val x, const std::vector<int64_t>& perm);
Val concat(Builder& b, const std::vector<Val>& parts, int64_t axis);
Val iota(Builder& b, const Shape& shape, int64_t axis, DType dtype);
// One slice of one axis: size elements from start.
Val slice(Builder& b, Val x, int64_t axis, const Dim& start, const Dim& size, int64_t step = 1);

// Over these axes; keep leaves them with extent 1.
Val reduce(Builder& b, TensorOp op, Val x, const std::vector<int64_t>& axes, bool keep);
Val drop_axes(Builder& b, Val x, const std::vector<int64_t>& axes);  // of extent 1

// A vector along `axis` of a tensor of this rank: [C] -> [C, 1, 1].
Val along_axis(Builder& b, Val vector, int64_t axis, int64_t rank);

// Channels that do not split into so many groups: unsupported where a name in them leaves it open.
[[noreturn]] void fail_groups(const Dim& channels, int64_t groups);

// Throws ImportError when an index that is known lies outside an axis of this extent.
void check_indices(const Builder& b, Val index, const Dim& extent);

// Composite float ops compute in f32 where the model's type is narrower, and round once at their end.
Val widen(Builder& b, Val x);
std::vector<int64_t> range_axes(int64_t begin, int64_t end);

}  // namespace fusec::importer
