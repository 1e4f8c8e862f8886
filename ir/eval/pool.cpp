// SPDX-License-Identifier: Apache-2.0
// Evaluates max and average pooling for the graph evaluator, one output position at a time. Fixes the results for
// windows that consist only of padding.

#include <algorithm>
#include <limits>

#include "ir/eval/op_call.h"
#include "ir/ops/reference.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// Calls combine(image plane, taps) once per output position and image plane, and stores its result. The taps are those
// of the window, in row-major order of the kernel.
template <class T, class Combine>
Result<Tensor> pool(const OpCall& call, const Combine& combine) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const std::string& layout = call.attrs.s("layout");
  const ImageLayout in(call.operand(0), layout), image(out, layout);
  const Window window(call.attrs.ints("kernel"), call.attrs);
  const ElementsAs<T> x(call.operand(0));
  parallel_for(call.options.threads, product(image.spatial), 1, [&](int64_t begin, int64_t end) {
    std::vector<Window::Tap> taps(static_cast<std::size_t>(product(window.kernel)));
    for (int64_t p = begin; p < end; ++p) {
      const Extents output = unravel(p, image.spatial);
      for (std::size_t t = 0; t < taps.size(); ++t) {
        taps[t] = window.tap(output, unravel(static_cast<int64_t>(t), window.kernel), in);
      }
      for (int64_t plane = 0; plane < in.batch * in.channels; ++plane) {
        const int64_t n = plane / in.channels, c = plane % in.channels;
        const T value = combine(x.data() + n * in.batch_stride + c * in.channel_stride, taps);
        const int64_t at = n * image.batch_stride + c * image.channel_stride + dot(output, image.spatial_strides);
        store_elements(call.storage, out.data(), at, 1, 1, &value);
      }
    }
  });
  return out;
}

// The lowest value of a stored type, -inf for floats: the max over a window that consists only of padding.
template <class T>
T lowest(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return -std::numeric_limits<double>::infinity();
  return visit_storage(dtype, []<class S>(S) -> T {
    if constexpr (std::is_integral_v<S>) return static_cast<T>(std::numeric_limits<S>::min());
    return T();
  });
}

template <class T>
T greater(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return ref::max(a, b);
  return std::max(a, b);
}

}  // namespace

Result<Tensor> eval_max_pool(const OpCall& call) {
  return visit_compute(call.dtype, [&]<class T>(T) {
    return pool<T>(call, [&](const T* plane, const std::vector<Window::Tap>& taps) {
      T best = lowest<T>(call.dtype);
      for (const Window::Tap& tap : taps) {
        if (tap.offset < 0) continue;
        best = greater(best, plane[tap.offset]);
      }
      return best;
    });
  });
}

// The sum over the elements inside, divided by their number or, with count_include_pad, by the number of window
// positions inside the padded input. A window that consists only of padding gives 0.
Result<Tensor> eval_avg_pool(const OpCall& call) {
  const bool with_padding = call.attrs.i("count_include_pad") == 1;
  return pool<double>(call, [&](const double* plane, const std::vector<Window::Tap>& taps) {
    double sum = 0, count = 0;
    for (const Window::Tap& tap : taps) {
      if (tap.offset >= 0) sum += plane[tap.offset];
      if (tap.offset >= 0 || (with_padding && tap.inside_padded)) count += 1;
    }
    return count == 0 ? 0 : sum / count;
  });
}

}  // namespace fusec::ir
