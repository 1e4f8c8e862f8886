// SPDX-License-Identifier: Apache-2.0
// Evaluates reductions, arg reductions and cumsum, one output element at a time. Over no elements, the sum is 0, the
// product 1, the mean NaN (0 for integers), and max and min are -inf and +inf (the ends of the range for integers).

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/eval/op_call.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// The elements of a row-major operand that belong to output element i: start(i) + j . strides for j in extents.
struct Reduction {
  Extents kept, kept_strides, extents, strides;

  Reduction(const Tensor& in, const std::vector<int64_t>& axes) {
    for (std::size_t i = 0; i < in.shape().size(); ++i) {
      const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
      (reduced ? extents : kept).push_back(in.shape()[i]);
      (reduced ? strides : kept_strides).push_back(in.strides()[i]);
    }
  }
  int64_t start(int64_t output) const { return dot(unravel(output, kept), kept_strides); }
  int64_t count() const { return product(extents); }
};

// Calls visit(pointer, n) on runs of the elements at `start`, in rising order of the reduced axes.
template <class T, class Visit>
void for_each_run(const Tensor& in, const Reduction& reduction, int64_t start, const Visit& visit) {
  constexpr int64_t kRun = 256;
  T buffer[kRun];
  const bool whole = reduction.extents.empty();
  const int64_t inner = whole ? 1 : reduction.extents.back(), stride = whole ? 1 : reduction.strides.back();
  if (reduction.count() == 0) return;
  const Extents outer(reduction.extents.begin(), reduction.extents.end() - (whole ? 0 : 1));
  const int64_t rows = product(outer);
  for (int64_t row = 0; row < rows; ++row) {
    const Extents at = unravel(row, outer);
    int64_t base = start;
    for (std::size_t i = 0; i < at.size(); ++i) base += at[i] * reduction.strides[i];
    for (int64_t i = 0; i < inner; i += kRun) {
      const int64_t n = std::min(kRun, inner - i);
      load_elements(in.dtype(), in.data(), base + i * stride, stride, n, buffer);
      visit(buffer, n);
    }
  }
}

template <class T, class Combine, class Finish>
Result<Tensor> reduce(const OpCall& call, T identity, const Combine& combine, const Finish& finish) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Reduction reduction(call.operand(0), call.attrs.ints("axes"));
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, reduction.count()));
  parallel_for(call.options.threads, out.num_elements(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T value = identity;
      for_each_run<T>(call.operand(0), reduction, reduction.start(i), [&](const T* run, int64_t n) {
        for (int64_t j = 0; j < n; ++j) value = combine(value, run[j]);
      });
      const T result = finish(value, reduction.count());
      store_elements(call.storage, out.data(), i, 1, 1, &result);
    }
  });
  return out;
}

// Integer sums and products are computed in uint64_t, which wraps; signed ones have the same bits.
template <class Run>
auto visit_wrapping(DType dtype, const Run& run) {
  return is_float(dtype) ? run(double()) : run(uint64_t());
}

constexpr auto kKeep = [](auto value, int64_t) { return value; };

// The ends of the range of a stored type; infinities for floats.
template <class T>
std::pair<T, T> range_of(DType dtype) {
  if constexpr (std::is_same_v<T, double>) {
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  } else {
    return visit_storage(dtype, []<class S>(S) -> std::pair<T, T> {
      if constexpr (std::is_integral_v<S>) {
        return {static_cast<T>(std::numeric_limits<S>::min()), static_cast<T>(std::numeric_limits<S>::max())};
      }
      return {};
    });
  }
}

// Whether b wins over a: the larger value if `largest`, else the smaller one. NaN wins over all numbers.
template <class T>
bool beats(T b, T a, bool largest) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
    if (a == 0 && b == 0) return largest ? std::signbit(a) && !std::signbit(b) : !std::signbit(a) && std::signbit(b);
  }
  return largest ? b > a : b < a;
}

Result<Tensor> min_max(const OpCall& call, bool largest) {
  return visit_compute(call.dtype, [&]<class T>(T) {
    const auto [low, high] = range_of<T>(call.dtype);
    return reduce<T>(
        call, largest ? low : high, [&](T a, T b) { return beats(b, a, largest) ? b : a; }, kKeep);
  });
}

// NaN counts as the max (or min), as in numpy; -0 equals +0 here.
template <class T>
bool takes_place(T b, T a, bool largest, bool last) {
  const bool tie = a == b || (a != a && b != b);
  return tie ? last : beats(b, a, largest);
}

Result<Tensor> arg_extreme(const OpCall& call, bool largest) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Tensor& in = call.operand(0);
  const Reduction reduction(in, {call.attrs.i("axis")});
  const bool last = call.attrs.i("last") == 1;
  visit_compute(in.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      T best{};
      int64_t index = 0, position = 0;
      for_each_run<T>(in, reduction, reduction.start(i), [&](const T* run, int64_t n) {
        for (int64_t j = 0; j < n; ++j, ++position) {
          if (position > 0 && !takes_place(run[j], best, largest, last)) continue;
          best = run[j];
          index = position;
        }
      });
      out.as<int64_t>()[i] = index;
    }
  });
  return out;
}

}  // namespace

Result<Tensor> eval_reduce_sum(const OpCall& call) {
  return visit_wrapping(call.dtype, [&]<class T>(T) {
    return reduce<T>(
        call, T(0), [](T a, T b) { return a + b; }, kKeep);
  });
}

Result<Tensor> eval_reduce_prod(const OpCall& call) {
  return visit_wrapping(call.dtype, [&]<class T>(T) {
    return reduce<T>(
        call, T(1), [](T a, T b) { return a * b; }, kKeep);
  });
}

// Integer means truncate.
Result<Tensor> eval_reduce_mean(const OpCall& call) {
  return visit_wrapping(call.dtype, [&]<class T>(T) {
    return reduce<T>(
        call, T(0), [](T a, T b) { return a + b; },
        [&](T sum, int64_t count) -> T {
          if constexpr (std::is_same_v<T, double>) return sum / static_cast<double>(count);
          if (count == 0) return 0;
          if (is_signed_int(call.dtype)) return static_cast<T>(static_cast<int64_t>(sum) / count);
          return sum / static_cast<T>(count);
        });
  });
}

Result<Tensor> eval_reduce_max(const OpCall& call) { return min_max(call, true); }
Result<Tensor> eval_reduce_min(const OpCall& call) { return min_max(call, false); }
Result<Tensor> eval_argmax(const OpCall& call) { return arg_extreme(call, true); }
Result<Tensor> eval_argmin(const OpCall& call) { return arg_extreme(call, false); }

Result<Tensor> eval_cumsum(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Tensor& in = call.operand(0);
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  const bool exclusive = call.attrs.i("exclusive") == 1, reverse = call.attrs.i("reverse") == 1;
  const Reduction lines(in, {call.attrs.i("axis")});
  const int64_t extent = in.shape()[axis], step = in.strides()[axis];
  visit_wrapping(call.dtype, [&]<class T>(T) {
    for (int64_t line = 0; line < product(lines.kept); ++line) {
      T sum = 0;
      for (int64_t k = 0; k < extent; ++k) {
        const int64_t at = lines.start(line) + (reverse ? extent - 1 - k : k) * step;
        T value = 0;
        load_elements(in.dtype(), in.data(), at, 1, 1, &value);
        const T before = sum;
        sum += value;
        store_elements(call.storage, out.data(), at, 1, 1, exclusive ? &before : &sum);
      }
    }
    return 0;
  });
  return out;
}

}  // namespace fusec::ir
