// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

// cuDNN pads both ends of an axis alike and rounds its number of windows down.
const char* unsupported_reason(const Problem& p) {
  const Window& w = p.window;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t in = p.a.dims[2 + i], out = p.out.dims[2 + i], room = in + 2 * w.before[i] - w.kernel[i];
    if (w.dilations[i] != 1) return "cuDNN's pooling has no dilations";
    if (w.before[i] >= w.kernel[i]) return "cuDNN's pooling has no windows of padding alone";
    if (room < 0 || room / w.strides[i] + 1 != out) return "cuDNN's pooling pads both ends alike";
    const int64_t reach = (out - 1) * w.strides[i] + w.kernel[i] - w.before[i];
    if (reach - w.kernel[i] >= in) return "cuDNN's pooling has no windows of padding alone";
    if (p.count_include_pad && reach > in + w.after[i]) return "cuDNN's average counts places past the padding";
  }
  return nullptr;
}

// Every window has padding alone: the largest of no numbers, or an average of 0.
Result<Recipe> build_pool_of_nothing(const Context& context, const Problem& problem) {
  const Order order = order_of(problem.out, Order::last);
  const double value = problem.op == ir::TensorOp::max_pool ? -std::numeric_limits<double>::infinity() : 0;
  Recipe recipe;
  FUSEC_ASSIGN(auto plan, context.backend.fill(describe(problem.out, order), value));
  recipe.add(std::move(plan), {{Place::arg, problem.out.arg, 0, nullptr}});
  FUSEC_TRY(add_posts(context, problem, order, recipe));
  return recipe;
}

}  // namespace

Result<Recipe> build_pool(const Context& context, const Problem& given) {
  const Problem problem = with_two_axes(given);
  if (product(problem.a.dims) == 0) return build_pool_of_nothing(context, problem);
  if (const char* reason = unsupported_reason(problem)) return Status(StatusCode::unsupported, reason);
  const Order in = order_of(problem.a, order_of(problem.out, Order::last)), out = order_of(problem.out, in);
  const Window& w = problem.window;
  const PoolSpec spec{describe(problem.a, in),
                      describe(problem.out, out),
                      problem.op == ir::TensorOp::max_pool,
                      problem.count_include_pad,
                      w.kernel,
                      w.strides,
                      w.before};
  Recipe recipe;
  FUSEC_ASSIGN(auto plan, context.backend.pool(spec));
  recipe.add(std::move(plan), {{Place::arg, problem.a.arg, 0, nullptr}, {Place::arg, problem.out.arg, 0, nullptr}});
  FUSEC_TRY(add_posts(context, problem, out, recipe));
  return recipe;
}

}  // namespace fusec::runtime::cudnn
