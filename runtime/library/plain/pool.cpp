// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/library/plain/finish.h"
#include "runtime/library/plain/loops.h"

namespace fusec::runtime::plain {
namespace {

// The elements that one tap of the window gives to a run of outputs: those of [begin, end), from `offset` on in steps
// of `step`. `padded_end`: outputs from there on have the tap past the padding's end, where only ceil_mode reaches.
struct Tap {
  int64_t begin = 0, end = 0, offset = 0, step = 0, padded_end = 0;
};

// Input coordinate along spatial axis i for output coordinate `out`.
int64_t input_at(const Window& w, std::size_t i, int64_t out, int64_t position) {
  return out * w.strides[i] + position * w.dilations[i] - w.before[i];
}

// j in [begin, end) are those of 0 .. count-1 with 0 <= first + j * step < extent.
void inside(int64_t first, int64_t step, int64_t extent, int64_t count, int64_t* begin, int64_t* end) {
  *begin = std::clamp<int64_t>(first >= 0 ? 0 : (-first + step - 1) / step, 0, count);
  *end = std::clamp<int64_t>(first >= extent ? 0 : (extent - 1 - first) / step + 1, *begin, count);
}

Tap tap_of(const Problem& p, const Run& run, const int64_t* position) {
  const Window& w = p.window;
  Tap tap{0, run.count, run.at[0] * p.a.strides[0] + run.at[1] * p.a.strides[1], p.a.strides[run.axis], run.count};
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t at = input_at(w, i, run.at[2 + i], position[i]), extent = p.a.dims[2 + i];
    int64_t begin = 0, end = 0;
    const bool along = run.axis == 2 + i;
    inside(at, w.strides[i], extent, along ? run.count : 1, &begin, &end);
    if (along) {
      tap.step *= w.strides[i];
      const int64_t room = extent + w.after[i] - 1 - at;  // j * stride <= room
      tap.padded_end = std::min(tap.padded_end, room < 0 ? 0 : room / w.strides[i] + 1);
      tap.begin = std::max(tap.begin, begin);
      tap.end = std::min(tap.end, end);
    } else {
      if (begin == end) tap.end = 0;
      if (at >= extent + w.after[i]) tap.padded_end = 0;
    }
    tap.offset += at * p.a.strides[2 + i];
  }
  return tap;
}

// NaN wins.
template <class T>
void take_max(const T* x, int64_t count, T* best) {
  for (int64_t i = 0; i < count; ++i) best[i] = x[i] > best[i] || x[i] != x[i] ? x[i] : best[i];
}

template <class T>
void take_sum(const T* x, int64_t count, T* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += x[i];
}

template <class T>
T lowest(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  if (!is_signed_int(dtype)) return 0;
  return static_cast<T>(std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype)));
}

template <class T>
void pool_run(const Problem& p, const Run& run, const void* base, T* values) {
  T buffer[kRun], counts[kRun];
  const bool is_max = p.op == ir::TensorOp::max_pool;
  std::fill(values, values + run.count, is_max ? lowest<T>(p.a.dtype) : T(0));
  std::fill(counts, counts + run.count, T(0));
  const std::size_t axes = p.window.kernel.size();
  const int64_t taps = product(p.window.kernel);
  for (int64_t t = 0; t < taps; ++t) {
    int64_t position[kMostAxes];
    unravel(t, p.window.kernel.data(), axes, position);
    const Tap tap = tap_of(p, run, position);
    const int64_t count = tap.end - tap.begin;
    if (count > 0) {
      const T* x = load_run(p.a, base, tap.offset + tap.begin * tap.step, tap.step, count, buffer);
      is_max ? take_max(x, count, values + tap.begin) : take_sum(x, count, values + tap.begin);
    }
    if (is_max) continue;
    const int64_t from = p.count_include_pad ? 0 : tap.begin, to = p.count_include_pad ? tap.padded_end : tap.end;
    for (int64_t j = from; j < to; ++j) counts[j] += T(1);
  }
  if (is_max) return;
  for (int64_t j = 0; j < run.count; ++j) values[j] = counts[j] == T(0) ? T(0) : values[j] / counts[j];
}

}  // namespace

void pool(const Problem& problem, const std::vector<PostOp>& posts, void* const* args, int threads) {
  const Operand& out = problem.out;
  const std::size_t rank = out.dims.size();
  const bool by_channels = out.strides[1] == 1 || out.dims[rank - 1] == 1;
  const std::size_t axis = by_channels ? 1 : rank - 1;
  int64_t counts[kMostAxes], tasks = 1;
  std::copy(out.dims.begin(), out.dims.end(), counts);
  counts[axis] = (out.dims[axis] + kRun - 1) / kRun;
  for (std::size_t i = 0; i < rank; ++i) tasks *= counts[i];
  visit_running(out.dtype, [&]<class T>(T) {
    parallel_for(threads, tasks, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t at[kMostAxes];
        T values[kRun];
        unravel(task, counts, rank, at);
        at[axis] *= kRun;
        const Run run{at, axis, std::min(kRun, out.dims[axis] - at[axis])};
        pool_run(problem, run, args[problem.a.arg], values);
        finish(posts, out, run, args, values);
      }
    });
  });
}

}  // namespace fusec::runtime::plain
