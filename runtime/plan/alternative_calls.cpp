// SPDX-License-Identifier: Apache-2.0
// Only strides and types of arguments change; the step, which has the axes, stays.

#include "runtime/plan/alternative_calls.h"

#include <algorithm>
#include <utility>

#include "ir/ops/op.h"

namespace fusec::runtime {
namespace {

bool is_broadcast(const BoundArg& arg) {
  for (std::size_t i = 0; i < arg.shape.size(); ++i)
    if (arg.shape[i] != 1 && arg.strides[i] == 0) return true;
  return false;
}

// channel: the axis of the channels; all others keep their order.
void make_dense(BoundArg& arg, std::size_t channel) {
  int64_t stride = 1;
  const auto place = [&](std::size_t axis) { arg.strides[axis] = std::exchange(stride, stride * arg.shape[axis]); };
  for (std::size_t axis = arg.shape.size(); axis-- > 1;)
    if (axis != channel) place(axis);
  place(channel);
  place(0);
}

}  // namespace

std::optional<LibraryCall> with_channels_first(const LibraryCall& call) {
  const std::size_t rank = call.args.back().shape.size();
  if (call.step->op != ir::TensorOp::conv || rank < 3 || call.step->attrs.s("layout") != "last") return std::nullopt;
  const std::vector<ir::Role> roles = ir::roles_of(call.step->op);
  LibraryCall other = call;
  for (std::size_t i = 0; i < other.args.size(); ++i) {
    const bool is_filter = i < roles.size() && roles[i] == ir::Role::weight;  // its axes are O I spatial...
    BoundArg& arg = other.args[i];
    if (arg.shape.size() == rank && !is_broadcast(arg)) make_dense(arg, is_filter ? 1 : rank - 1);
  }
  if (other.args == call.args) return std::nullopt;
  return other;
}

std::optional<LibraryCall> in_half(const LibraryCall& call) {
  if (call.args.back().dtype != DType::f32) return std::nullopt;
  LibraryCall other = call;
  for (BoundArg& arg : other.args)
    if (arg.dtype == DType::f32) arg.dtype = DType::f16;
  return other;
}

}  // namespace fusec::runtime
