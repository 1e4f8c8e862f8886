// SPDX-License-Identifier: Apache-2.0
// The end of every plain loop: a run of computed values goes through bias and epilogues and is stored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/ops/element.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::plain {

inline constexpr int64_t kRun = 256;  // most values of a run
inline constexpr std::size_t kMaxAxes = 12;

// Values along one axis of the output, from `at` on.
struct Run {
  const int64_t* at = nullptr;  // coordinates of the first value
  std::size_t axis = 0;
  int64_t count = 0;
};

// Calls f(T()) with the type that values are computed in.
template <class F>
auto visit_running(DType dtype, const F& f) {
  if (dtype == DType::f64) return f(double());
  if (is_float(dtype)) return f(float());
  if (is_signed_int(dtype)) return f(int64_t());
  return f(uint64_t());
}

inline int64_t offset_of(const Operand& operand, const int64_t* at) {
  int64_t offset = 0;
  for (std::size_t i = 0; i < operand.strides.size(); ++i) offset += at[i] * operand.strides[i];
  return offset;
}

// `count` elements from `offset` in steps of `stride`, as T; the memory itself where it already is that.
template <class T>
const T* load_run(const Operand& operand, const void* base, int64_t offset, int64_t stride, int64_t count, T* buffer) {
  if (is_float(operand.dtype) && size_of(operand.dtype) == sizeof(T) && stride == 1) {
    return static_cast<const T*>(base) + offset;
  }
  ir::load_elements(operand.dtype, base, offset, stride, count, buffer);
  return buffer;
}

// Applies the post-ops in order to the values of the run. `args` as in LibraryOp::run.
void apply(const std::vector<PostOp>& posts, DType dtype, const Run& run, void* const* args, float* values);
void apply(const std::vector<PostOp>& posts, DType dtype, const Run& run, void* const* args, double* values);
void apply(const std::vector<PostOp>& posts, DType dtype, const Run& run, void* const* args, int64_t* values);
void apply(const std::vector<PostOp>& posts, DType dtype, const Run& run, void* const* args, uint64_t* values);

// bias, then epilogues
std::vector<PostOp> all_posts(const Problem& problem);

template <class T>
void finish(const std::vector<PostOp>& posts, const Operand& out, const Run& run, void* const* args, T* values) {
  apply(posts, out.dtype, run, args, values);
  const int64_t offset = offset_of(out, run.at), stride = out.strides[run.axis];
  if (stride == 1 && is_float(out.dtype) && size_of(out.dtype) == sizeof(T)) {
    std::copy_n(values, run.count, static_cast<T*>(args[out.arg]) + offset);
  } else {
    ir::store_elements(out.dtype, args[out.arg], offset, stride, run.count, values);
  }
}

// out = posts(from), both with the axes of `out`; from.arg and out.arg index args.
void transform(const Operand& from, const Operand& out, const std::vector<PostOp>& posts, void* const* args,
               int threads);

// Coordinates of row-major position `index`.
inline void unravel(int64_t index, const int64_t* extents, std::size_t rank, int64_t* at) {
  for (std::size_t i = rank; i-- > 0;) {
    at[i] = index % extents[i];
    index /= extents[i];
  }
}

}  // namespace fusec::runtime::plain
