// SPDX-License-Identifier: Apache-2.0
// The end of every plain loop: applies bias and epilogues to a run of computed values and stores it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/ops/element.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::plain {

inline constexpr int64_t kRun = 256;  // maximum number of values in a run
inline constexpr std::size_t kMaxAxes = 12;

// Values along one axis of the output, beginning at `at`.
struct Run {
  const int64_t* at = nullptr;  // coordinates of the first value
  std::size_t axis = 0;
  int64_t count = 0;
};

// Calls f(T()) with the type in which values are computed.
template <class F>
auto visit_running(DType dtype, const F& f) {
  if (dtype == DType::f64) return f(double());
  if (is_float(dtype)) return f(float());
  if (is_signed_int(dtype)) return f(int64_t());
  return f(uint64_t());
}

inline int64_t compute_offset(const CallOperand& operand, const int64_t* at) {
  int64_t offset = 0;
  for (std::size_t i = 0; i < operand.strides.size(); ++i) offset += at[i] * operand.strides[i];
  return offset;
}

// `count` elements from `offset` in steps of `stride`, as T. Returns the memory itself if it already has that form.
template <class T>
const T* load_run(const CallOperand& operand, const void* base, int64_t offset, int64_t stride, int64_t count,
                  T* buffer) {
  if (is_float(operand.dtype) && size_of(operand.dtype) == sizeof(T) && stride == 1) {
    return static_cast<const T*>(base) + offset;
  }
  ir::load_elements(operand.dtype, base, offset, stride, count, buffer);
  return buffer;
}

// Applies the post-ops in order to the values of the run. `args` are those of LibraryOp::run.
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args, float* values);
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args, double* values);
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args,
           int64_t* values);
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args,
           uint64_t* values);

// bias, then epilogues
std::vector<BoundEpilogue> all_posts(const Problem& problem);

template <class T>
void finish(const std::vector<BoundEpilogue>& epilogues, const CallOperand& out, const Run& run, void* const* args,
            T* values) {
  apply(epilogues, out.dtype, run, args, values);
  const int64_t offset = compute_offset(out, run.at), stride = out.strides[run.axis];
  if (stride == 1 && is_float(out.dtype) && size_of(out.dtype) == sizeof(T)) {
    std::copy_n(values, run.count, static_cast<T*>(args[out.arg]) + offset);
  } else {
    ir::store_elements(out.dtype, args[out.arg], offset, stride, run.count, values);
  }
}

// out = epilogues(from), both with the axes of `out`; from.arg and out.arg index args.
void transform(const CallOperand& from, const CallOperand& out, const std::vector<BoundEpilogue>& epilogues,
               void* const* args, int threads);

// The coordinates of row-major position `index`.
inline void unravel(int64_t index, const int64_t* extents, std::size_t rank, int64_t* at) {
  for (std::size_t i = rank; i-- > 0;) {
    at[i] = index % extents[i];
    index /= extents[i];
  }
}

}  // namespace fusec::runtime::plain
