// SPDX-License-Identifier: Apache-2.0
// Evaluates the ops that only move elements (broadcast, reshape, slice, gather, pad, ...) and the sources constant,
// iota and dim. Moves copy bytes and never look at the values, so they serve every dtype and wide storage.

#include <fmt/format.h>

#include <cstring>

#include "ir/eval/op_call.h"
#include "ir/ops/cast.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// out[i] = operand[offset + i . strides]
Result<Tensor> read_through(const OpCall& call, Extents strides, int64_t offset) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  copy_strided({call.shape, std::move(strides), out.strides(), offset, 0}, size_of(call.storage),
               call.operand(0).data(), out.data(), call.options.threads);
  return out;
}

// Copies runs of elements to out. source(i) is the position in `in` for run i of out; -1 leaves it unchanged.
template <class Source>
void pick(const OpCall& call, const Tensor& in, Tensor& out, int64_t run, const Source& source) {
  const auto bytes = static_cast<int64_t>(size_of(call.storage)) * run;
  parallel_for(call.options.threads, out.num_elements() / std::max<int64_t>(run, 1), 4096,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t from = source(i);
                   if (from >= 0) std::memcpy(out.as<char>() + i * bytes, in.as<char>() + from * bytes, bytes);
                 }
               });
}

// The position in an axis of extent n that padding mode `mode` repeats at position i.
int64_t repeated(std::string_view mode, int64_t i, int64_t n) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, n - 1);
  const auto wrap = [](int64_t a, int64_t period) { return (a % period + period) % period; };
  if (mode == "wrap") return wrap(i, n);
  const int64_t period = std::max<int64_t>(2 * (n - 1), 1);
  const int64_t at = wrap(i, period);
  return at < n ? at : period - at;
}

}  // namespace

Result<Extents> read_indices(const OpCall& call, const std::function<int64_t(int64_t)>& extent_of) {
  const Tensor& tensor = call.operand(1);
  Extents indices(static_cast<std::size_t>(tensor.num_elements()));
  load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.num_elements(), indices.data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const int64_t extent = extent_of(static_cast<int64_t>(i)), index = indices[i];
    if (index < -extent || index >= extent) {
      return node_error(call.node, fmt::format("index {} is out of range for an axis of extent {}", index, extent));
    }
    if (index < 0) indices[i] += extent;
  }
  return indices;
}

Result<Tensor> eval_constant(const OpCall& call) { return round_to(*call.constant, call.storage); }

Result<Tensor> eval_iota(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  const int64_t inner = product(call.shape, axis + 1, call.shape.size()), extent = call.shape[axis];
  const auto size = static_cast<int64_t>(size_of(call.storage));
  for (int64_t i = 0; i < out.num_elements(); ++i)
    store_int(call.storage, out.as<char>() + i * size, i / inner % extent);
  return out;
}

Result<Tensor> eval_dim(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  store_int(call.storage, out.data(), call.extents("value")[0]);
  return out;
}

Result<Tensor> eval_broadcast(const OpCall& call) {
  const Tensor& in = call.operand(0);
  Extents strides(call.shape.size(), 0);
  const std::size_t skip = call.shape.size() - in.shape().size();
  for (std::size_t i = 0; i < in.shape().size(); ++i) strides[skip + i] = in.shape()[i] == 1 ? 0 : in.strides()[i];
  return read_through(call, std::move(strides), 0);
}

Result<Tensor> eval_reshape(const OpCall& call) { return read_through(call, row_major_strides(call.shape), 0); }

Result<Tensor> eval_transpose(const OpCall& call) {
  Extents strides;
  for (const int64_t axis : call.attrs.ints("perm"))
    strides.push_back(call.operand(0).strides()[static_cast<std::size_t>(axis)]);
  return read_through(call, std::move(strides), 0);
}

Result<Tensor> eval_slice(const OpCall& call) {
  Extents strides = call.operand(0).strides();
  const int64_t offset = dot(call.extents("starts"), strides);
  for (std::size_t i = 0; i < strides.size(); ++i) strides[i] *= call.attrs.ints("steps")[i];
  return read_through(call, std::move(strides), offset);
}

Result<Tensor> eval_unfold(const OpCall& call) {
  Extents strides = call.operand(0).strides();
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  const int64_t stride = strides[axis];
  strides[axis] = stride * call.attrs.ints("steps")[0];
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, stride * call.attrs.ints("steps")[1]);
  return read_through(call, std::move(strides), 0);
}

Result<Tensor> eval_concat(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  int64_t start = 0;
  for (const Tensor& in : call.operands) {
    copy_strided({in.shape(), in.strides(), out.strides(), 0, start * out.strides()[axis]}, size_of(call.storage),
                 in.data(), out.data(), call.options.threads);
    start += in.shape()[axis];
  }
  return out;
}

Result<Tensor> eval_pad(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Tensor& in = call.operand(0);
  const Extents before = call.extents("before");
  const std::string& mode = call.attrs.s("mode");
  const bool constant = mode == "constant";
  if (constant && call.operands.size() == 2) pick(call, call.operand(1), out, 1, [](int64_t) { return 0; });
  pick(call, in, out, 1, [&](int64_t i) -> int64_t {
    Extents at = unravel(i, call.shape);
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const int64_t inside = at[axis] - before[axis], extent = in.shape()[axis];
      const bool outside = inside < 0 || inside >= extent;
      if (outside && constant) return -1;
      at[axis] = outside ? repeated(mode, inside, extent) : inside;
    }
    return dot(at, in.strides());
  });
  return out;
}

Result<Tensor> eval_gather(const OpCall& call) {
  const Tensor& in = call.operand(0);
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  const int64_t extent = in.shape()[axis], inner = product(in.shape(), axis + 1, in.shape().size());
  FUSEC_ASSIGN(const Extents indices, read_indices(call, [&](int64_t) { return extent; }));
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const auto count = static_cast<int64_t>(indices.size());
  pick(call, in, out, inner,
       [&](int64_t i) { return i / count * extent + indices[static_cast<std::size_t>(i % count)]; });
  return out;
}

Result<Tensor> eval_gather_elements(const OpCall& call) {
  const Tensor& in = call.operand(0);
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  FUSEC_ASSIGN(const Extents indices, read_indices(call, [&](int64_t) { return in.shape()[axis]; }));
  FUSEC_ASSIGN(Tensor out, call.make_result());
  pick(call, in, out, 1, [&](int64_t i) {
    Extents at = unravel(i, call.shape);
    at[axis] = indices[static_cast<std::size_t>(i)];
    return dot(at, in.strides());
  });
  return out;
}

Result<Tensor> eval_gather_nd(const OpCall& call) {
  const Tensor& in = call.operand(0);
  const auto batch_dims = static_cast<std::size_t>(call.attrs.i("batch_dims"));
  const Extents& index_shape = call.operand(1).shape();
  const int64_t depth = index_shape.back();
  const auto axis_of = [&](int64_t i) { return batch_dims + static_cast<std::size_t>(i % depth); };
  FUSEC_ASSIGN(const Extents indices, read_indices(call, [&](int64_t i) { return in.shape()[axis_of(i)]; }));
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const std::size_t first = batch_dims + static_cast<std::size_t>(depth);
  const int64_t inner = product(in.shape(), first, in.shape().size());
  const int64_t per_batch = product(index_shape, batch_dims, index_shape.size() - 1);
  const int64_t batch_rows = product(in.shape(), batch_dims, first);  // rows of `inner` elements
  pick(call, in, out, inner, [&](int64_t row) {
    int64_t at = 0;
    for (int64_t i = row * depth; i < (row + 1) * depth; ++i)
      at = at * in.shape()[axis_of(i)] + indices[static_cast<std::size_t>(i)];
    return row / per_batch * batch_rows + at;
  });
  return out;
}

}  // namespace fusec::ir
