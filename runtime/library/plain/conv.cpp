// SPDX-License-Identifier: Apache-2.0
// Convolution of the plain library: packs input windows into panels and multiplies them with filter rows, for any
// dtype, stride, group and dilation. Sums go over channels and taps in a fixed order, independent of threads.

#include <algorithm>

#include "runtime/library/plain/finish.h"
#include "runtime/library/plain/loops.h"

namespace fusec::runtime::plain {
namespace {

struct ConvLoop {
  const Problem& problem;
  const CallOperand &in, &filter, &out;
  int64_t axes, taps, depth, group_inputs, group_outputs;

  explicit ConvLoop(const Problem& p)
      : problem(p),
        in(p[Role::input]),
        filter(p[Role::weight]),
        out(p[Role::output]),
        axes(static_cast<int64_t>(p.window.kernel.size())),
        taps(product(p.window.kernel)),
        depth(filter.dims[1] * taps),
        group_inputs(filter.dims[1]),
        group_outputs(out.dims[1] / p.groups) {}
};

// The input offset of the window's tap `position` for output coordinates `at` (N C spatial...), without the channel and
// the last axis, whose input coordinate is *last. False in the padding of an earlier axis.
bool tap_offset(const ConvLoop& loop, const int64_t* at, const int64_t* position, int64_t* offset, int64_t* last) {
  const Window& w = loop.problem.window;
  const CallOperand& image = loop.in;
  const std::size_t axes = w.kernel.size();
  *offset = at[0] * image.strides[0];
  for (std::size_t i = 0; i < axes; ++i) {
    const int64_t in = at[2 + i] * w.strides[i] + position[i] * w.dilations[i] - w.before[i];
    if (i + 1 == axes) {
      *last = in;
    } else {
      if (in < 0 || in >= image.dims[2 + i]) return false;
      *offset += in * image.strides[2 + i];
    }
  }
  return true;
}

// Fills panel[input channel, tap][column] for the output positions from `at` on along the last axis.
template <class T>
void fill_panel(const ConvLoop& loop, const void* base, const int64_t* at, int64_t group, int64_t width, T* panel) {
  const Window& window = loop.problem.window;
  const CallOperand& in = loop.in;
  const std::size_t axes = static_cast<std::size_t>(loop.axes), last_axis = axes + 1;
  const int64_t step = window.strides[axes - 1], extent = in.dims[last_axis], stride = in.strides[last_axis];
  for (int64_t tap = 0; tap < loop.taps; ++tap) {
    int64_t position[kMaxAxes], offset = 0, first = 0, begin = width, end = width;
    unravel(tap, window.kernel.data(), axes, position);
    if (tap_offset(loop, at, position, &offset, &first)) {
      // first + j * step lies in [0, extent) for j in [begin, end)
      begin = std::clamp<int64_t>(first >= 0 ? 0 : (-first + step - 1) / step, 0, width);
      end = std::clamp<int64_t>(first >= extent ? 0 : (extent - 1 - first) / step + 1, begin, width);
    }
    for (int64_t c = 0; c < loop.group_inputs; ++c) {
      T* row = panel + (c * loop.taps + tap) * kPanelColumns;
      std::fill(row, row + kPanelColumns, T(0));
      if (begin == end) continue;
      const int64_t channel = (group * loop.group_inputs + c) * in.strides[1];
      ir::load_elements(in.dtype, base, offset + channel + (first + begin * step) * stride, step * stride, end - begin,
                        row + begin);
    }
  }
}

// The weights of one output channel, in the order of the panel's rows.
template <class T>
const T* filter_row(const ConvLoop& loop, const void* base, int64_t channel, T* buffer) {
  const CallOperand& b = loop.filter;
  int64_t dense = 1;
  bool is_dense = is_float(b.dtype) && size_of(b.dtype) == sizeof(T);
  for (std::size_t i = b.dims.size(); i-- > 1;) {
    is_dense = is_dense && (b.dims[i] == 1 || b.strides[i] == dense);
    dense *= b.dims[i];
  }
  if (is_dense) return static_cast<const T*>(base) + channel * b.strides[0];
  const std::size_t axes = static_cast<std::size_t>(loop.axes);
  for (int64_t c = 0; c < loop.group_inputs; ++c) {
    for (int64_t tap = 0; tap < loop.taps; ++tap) {
      int64_t position[kMaxAxes], offset = channel * b.strides[0] + c * b.strides[1];
      unravel(tap, loop.problem.window.kernel.data(), axes, position);
      for (std::size_t i = 0; i < axes; ++i) offset += position[i] * b.strides[2 + i];
      ir::load_elements(b.dtype, base, offset, 1, 1, buffer + c * loop.taps + tap);
    }
  }
  return buffer;
}

template <class T>
void convolve(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, T* workspace,
              int threads) {
  const ConvLoop loop(problem);
  const CallOperand& out = loop.out;
  const std::size_t rank = out.dims.size(), last = rank - 1;
  const int64_t pieces = (out.dims[last] + kPanelColumns - 1) / kPanelColumns;
  // tasks: batch, group, outer spatial axes, pieces of the last axis
  int64_t counts[kMaxAxes], tasks = 1;
  std::copy(out.dims.begin(), out.dims.end(), counts);
  counts[1] = problem.groups;
  counts[last] = pieces;
  for (std::size_t i = 0; i < rank; ++i) tasks *= counts[i];
  parallel_for(threads, tasks, [&](int64_t begin, int64_t end, int thread) {
    T *panel = workspace + thread * loop.depth * kPack, *buffer = panel + loop.depth * kPanelColumns;
    for (int64_t task = begin; task < end; ++task) {
      int64_t at[kMaxAxes];
      unravel(task, counts, rank, at);
      const int64_t group = at[1], first = group * loop.group_outputs;
      at[last] *= kPanelColumns;
      const int64_t width = std::min(kPanelColumns, out.dims[last] - at[last]);
      fill_panel(loop, args[loop.in.arg], at, group, width, panel);
      for (int64_t row = 0; row < loop.group_outputs; row += kPanelRows) {
        const T* rows[kPanelRows];
        T values[kPanelRows][kPanelColumns];
        for (int64_t i = 0; i < kPanelRows; ++i) {
          const int64_t channel = first + std::min(row + i, loop.group_outputs - 1);
          rows[i] = filter_row(loop, args[loop.filter.arg], channel, buffer + i * loop.depth);
        }
        multiply_panel(rows, loop.depth, panel, values);
        for (int64_t i = 0; i < std::min(kPanelRows, loop.group_outputs - row); ++i) {
          at[1] = first + row + i;
          finish(epilogues, out, Run{at, last, width}, args, values[i]);
        }
      }
    }
  });
}

}  // namespace

std::size_t conv_workspace(const Problem& problem, int threads) {
  const std::size_t size = visit_running(problem[Role::output].dtype, []<class T>(T) { return sizeof(T); });
  return static_cast<std::size_t>(ConvLoop(problem).depth * kPack * std::max(threads, 1)) * size;
}

void conv(const Problem& problem, const std::vector<BoundEpilogue>& epilogues, void* const* args, void* workspace,
          int threads) {
  visit_running(problem[Role::output].dtype,
                [&]<class T>(T) { convolve(problem, epilogues, args, static_cast<T*>(workspace), threads); });
}

}  // namespace fusec::runtime::plain
