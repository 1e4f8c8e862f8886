// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of the plain library, at run. Runs go along channels or along the last spatial axis; NaN wins
// a max, and a window of padding only gives 0 (average) or the lowest value (max).

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "runtime/library/plain/finish.h"
#include "runtime/library/plain/loops.h"

namespace fusec::runtime::plain {
namespace {

constexpr std::size_t kSpatial = 3;

// One spatial axis of the window and of the input. Axes that the image lacks have extent 1.
struct WindowAxis {
  int64_t kernel = 1, step = 1, dilation = 1, before = 0, after = 0;
  int64_t extent = 1, stride = 0;

  int64_t input(int64_t out, int64_t tap) const { return out * step + tap * dilation - before; }
  bool has(int64_t in) const { return in >= 0 && in < extent; }
  bool has_padded(int64_t in) const { return in < extent + after; }
};

struct PoolLoop {
  const Problem& problem;
  const CallOperand& in = problem[Role::input];
  std::array<WindowAxis, kSpatial> axes;
  bool by_channels;  // otherwise runs go along the last spatial axis
  bool is_max = problem.op == ir::TensorOp::max_pool;

  PoolLoop(const Problem& p, bool channels) : problem(p), by_channels(channels) {
    const Window& w = p.window;
    const std::size_t lacking = kSpatial - w.kernel.size();
    for (std::size_t i = 0; i < w.kernel.size(); ++i) {
      axes[lacking + i] = {w.kernel[i], w.strides[i],   w.dilations[i],   w.before[i],
                           w.after[i],  in.dims[2 + i], in.strides[2 + i]};
    }
  }
};

// The part [begin, end) of a run for which one tap lies inside the input, and the part [0, padded) for which it lies
// inside the padded input.
struct Reach {
  int64_t begin = 0, end = 0, padded = 0;
};

Reach reach_along(const WindowAxis& axis, int64_t in, int64_t count) {
  const int64_t room = axis.extent - 1 - in, padded_room = room + axis.after;
  Reach reach;
  reach.begin = std::min(in >= 0 ? 0 : (axis.step - 1 - in) / axis.step, count);
  reach.end = std::clamp(room < 0 ? 0 : room / axis.step + 1, reach.begin, count);
  reach.padded = std::min(padded_room < 0 ? 0 : padded_room / axis.step + 1, count);
  return reach;
}

template <class T>
struct Running {
  T values[kRun], counts[kRun], buffer[kRun];
};

// Accumulates the values that one tap reads. `in`: input coordinates of the run's first value.
template <class T>
void take_tap(const PoolLoop& loop, const void* base, int64_t offset, const std::array<int64_t, kSpatial>& in,
              int64_t count, Running<T>& run) {
  const auto& [z, y, x] = loop.axes;
  const bool outer = z.has(in[0]) && y.has(in[1]), outer_padded = z.has_padded(in[0]) && y.has_padded(in[1]);
  Reach reach{0, x.has(in[2]) ? count : 0, x.has_padded(in[2]) ? count : 0};
  int64_t step = loop.in.strides[1];
  if (!loop.by_channels) {
    reach = reach_along(x, in[2], count);
    step = x.stride * x.step;
  }
  if (outer && reach.begin < reach.end) {
    offset += in[0] * z.stride + in[1] * y.stride + in[2] * x.stride + reach.begin * step;
    const T* from = load_run(loop.in, base, offset, step, reach.end - reach.begin, run.buffer);
    if (loop.is_max) {
      take_max(from, reach.end - reach.begin, run.values + reach.begin);
    } else {
      take_sum(from, reach.end - reach.begin, run.values + reach.begin);
    }
  }
  if (loop.is_max) return;
  const bool padding = loop.problem.count_include_pad;
  if (padding ? !outer_padded : !outer) return;
  for (int64_t j = padding ? 0 : reach.begin; j < (padding ? reach.padded : reach.end); ++j) run.counts[j] += T(1);
}

template <class T>
T lowest(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  if (!is_signed_int(dtype)) return 0;
  return static_cast<T>(std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype)));
}

// `at`: output coordinates N C spatial... of the run's first value.
template <class T>
void pool_run(const PoolLoop& loop, const void* base, const int64_t* at, int64_t count, Running<T>& run) {
  const CallOperand& image = loop.in;
  std::fill_n(run.values, count, loop.is_max ? lowest<T>(image.dtype) : T(0));
  if (!loop.is_max) std::fill_n(run.counts, count, T(0));
  const std::size_t lacking = kSpatial - loop.problem.window.kernel.size();
  std::array<int64_t, kSpatial> out{}, in{};
  for (std::size_t i = lacking; i < kSpatial; ++i) out[i] = at[2 + i - lacking];
  const int64_t offset = at[0] * image.strides[0] + at[1] * image.strides[1];
  const auto& [z, y, x] = loop.axes;
  for (int64_t kz = 0; kz < z.kernel; ++kz) {
    in[0] = z.input(out[0], kz);
    for (int64_t ky = 0; ky < y.kernel; ++ky) {
      in[1] = y.input(out[1], ky);
      for (int64_t kx = 0; kx < x.kernel; ++kx) {
        in[2] = x.input(out[2], kx);
        take_tap(loop, base, offset, in, count, run);
      }
    }
  }
  if (loop.is_max) return;
  // A window that consists only of padding gives 0.
  for (int64_t j = 0; j < count; ++j) run.values[j] = run.counts[j] == T(0) ? T(0) : run.values[j] / run.counts[j];
}

}  // namespace

void pool(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, int threads) {
  const CallOperand& out = problem[Role::output];
  const std::size_t rank = out.dims.size();
  const bool by_channels = out.strides[1] == 1 || out.dims[rank - 1] == 1;
  const PoolLoop loop(problem, by_channels);
  const std::size_t axis = by_channels ? 1 : rank - 1;
  int64_t counts[kMaxAxes], tasks = 1;
  std::copy(out.dims.begin(), out.dims.end(), counts);
  counts[axis] = (out.dims[axis] + kRun - 1) / kRun;
  for (std::size_t i = 0; i < rank; ++i) tasks *= counts[i];
  visit_running(out.dtype, [&]<class T>(T) {
    parallel_for(threads, tasks, [&](int64_t begin, int64_t end, int) {
      Running<T> run;
      for (int64_t task = begin; task < end; ++task) {
        int64_t at[kMaxAxes];
        unravel(task, counts, rank, at);
        at[axis] *= kRun;
        const int64_t count = std::min(kRun, out.dims[axis] - at[axis]);
        pool_run(loop, args[loop.in.arg], at, count, run);
        finish(epilogues, out, Run{at, axis, count}, args, run.values);
      }
    });
  });
}

}  // namespace fusec::runtime::plain
