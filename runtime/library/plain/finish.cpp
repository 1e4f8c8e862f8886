// SPDX-License-Identifier: Apache-2.0
// Applies bias and epilogues to runs of values and stores them, at run, for the plain library and for epilogues that
// oneDNN does not fuse. Results follow the op table, including NaN.

#include "runtime/library/plain/finish.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ir/ops/reference.h"

namespace fusec::runtime::plain {
namespace {

using ir::ScalarOp;

template <class T, class F>
void each(T* values, int64_t count, const F& f) {
  for (int64_t i = 0; i < count; ++i) values[i] = f(values[i]);
}

template <class T, class F>
void each(T* values, const T* other, int64_t step, int64_t count, const F& f) {
  if (step == 0) {
    const T same = *other;
    for (int64_t i = 0; i < count; ++i) values[i] = f(values[i], same);
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = f(values[i], other[i]);
  }
}

// The op table's reference, for ops without a faster loop below.
template <class T>
T scalar(ScalarOp op, DType dtype, T a, double b, double c) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(ir::eval_scalar(op, static_cast<double>(a), b, c));
  } else {
    return static_cast<T>(
        ir::eval_scalar(op, dtype, static_cast<int64_t>(a), static_cast<int64_t>(b), static_cast<int64_t>(c)));
  }
}

template <class T>
T scalar(ScalarOp op, DType dtype, T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(ir::eval_scalar(op, static_cast<double>(a), static_cast<double>(b)));
  else
    return static_cast<T>(ir::eval_scalar(op, dtype, static_cast<int64_t>(a), static_cast<int64_t>(b)));
}

// NaN in the operand is kept.
template <class T>
void unary(const BoundEpilogue& epilogue, DType dtype, T* v, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const T alpha = static_cast<T>(epilogue.alpha), beta = static_cast<T>(epilogue.beta);
    switch (epilogue.op) {
      case ScalarOp::relu:
        return each(v, n, [](T x) { return x <= 0 ? T(0) : x; });
      case ScalarOp::clamp:
        return each(v, n, [=](T x) {
          const T raised = x < alpha ? alpha : x;
          return raised > beta ? beta : raised;
        });
      case ScalarOp::leaky_relu:
        return each(v, n, [=](T x) { return x < 0 ? x * alpha : x; });
      case ScalarOp::square:
        return each(v, n, [](T x) { return x * x; });
      case ScalarOp::abs:
        return each(v, n, [](T x) { return std::fabs(x); });
      default:
        break;
    }
  }
  each(v, n, [&](T x) { return scalar(epilogue.op, dtype, x, epilogue.alpha, epilogue.beta); });
}

template <class T>
void binary(ScalarOp op, DType dtype, const T* other, int64_t step, T* v, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case ScalarOp::add:
        return each(v, other, step, n, [](T a, T b) { return a + b; });
      case ScalarOp::sub:
        return each(v, other, step, n, [](T a, T b) { return a - b; });
      case ScalarOp::mul:
        return each(v, other, step, n, [](T a, T b) { return a * b; });
      case ScalarOp::div:
        return each(v, other, step, n, [](T a, T b) { return a / b; });
      default:
        break;
    }
  }
  each(v, other, step, n, [&](T a, T b) { return scalar(op, dtype, a, b); });
}

template <class T>
void apply_all(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args, T* values) {
  T buffer[kRun];
  for (const BoundEpilogue& epilogue : epilogues) {
    if (!epilogue.operand) {
      unary(epilogue, dtype, values, run.count);
      continue;
    }
    const CallOperand& operand = *epilogue.operand;
    const int64_t stride = operand.strides[run.axis];
    const T* other = load_run(operand, args[operand.arg], compute_offset(operand, run.at), stride,
                              stride == 0 ? 1 : run.count, buffer);
    binary(epilogue.op, dtype, other, stride == 0 ? 0 : 1, values, run.count);
  }
}

// The best axis for runs: the innermost of those with the smallest output stride.
std::size_t run_axis(const CallOperand& out) {
  std::size_t best = out.dims.size() - 1;
  for (std::size_t i = out.dims.size(); i-- > 0;) {
    if (out.dims[i] > 1 && (out.dims[best] == 1 || std::abs(out.strides[i]) < std::abs(out.strides[best]))) best = i;
  }
  return best;
}

}  // namespace

void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args, float* values) {
  apply_all(epilogues, dtype, run, args, values);
}
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args,
           double* values) {
  apply_all(epilogues, dtype, run, args, values);
}
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args,
           int64_t* values) {
  apply_all(epilogues, dtype, run, args, values);
}
void apply(const std::vector<BoundEpilogue>& epilogues, DType dtype, const Run& run, void* const* args,
           uint64_t* values) {
  apply_all(epilogues, dtype, run, args, values);
}

std::vector<BoundEpilogue> all_posts(const Problem& problem) {
  std::vector<BoundEpilogue> epilogues = problem.epilogues;
  if (const CallOperand* bias = problem.find(Role::bias)) epilogues.insert(epilogues.begin(), add_of(*bias));
  return epilogues;
}

void transform(const CallOperand& from, const CallOperand& out, const std::vector<BoundEpilogue>& epilogues,
               void* const* args, int threads) {
  const std::size_t rank = out.dims.size(), axis = run_axis(out);
  const int64_t length = out.dims[axis], pieces = (length + kRun - 1) / kRun;
  int64_t counts[kMaxAxes];
  std::copy(out.dims.begin(), out.dims.end(), counts);
  counts[axis] = pieces;
  int64_t tasks = 1;
  for (std::size_t i = 0; i < rank; ++i) tasks *= counts[i];
  visit_running(out.dtype, [&]<class T>(T) {
    parallel_for(threads, tasks, [&](int64_t begin, int64_t end, int) {
      T values[kRun];
      for (int64_t task = begin; task < end; ++task) {
        int64_t at[kMaxAxes];
        unravel(task, counts, rank, at);
        at[axis] *= kRun;
        const Run run{at, axis, std::min(kRun, length - at[axis])};
        ir::load_elements(from.dtype, args[from.arg], compute_offset(from, at), from.strides[axis], run.count, values);
        finish(epilogues, out, run, args, values);
      }
    });
  });
}

}  // namespace fusec::runtime::plain
