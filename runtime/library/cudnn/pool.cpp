// SPDX-License-Identifier: Apache-2.0
// Builds pooling plans for cuDNN at bind, from the descriptor-based API. Windows and paddings that cuDNN would compute
// differently are not given to it (ir/library/capabilities.h).

#include <limits>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

// Every window consists only of padding: the result is the maximum of an empty set, or an average of 0.
Result<Recipe> build_pool_of_nothing(const Context& context, const Problem& problem) {
  const ImageOrder order = order_of(problem[Role::output], ImageOrder::last);
  const double value = problem.op == ir::TensorOp::max_pool ? -std::numeric_limits<double>::infinity() : 0;
  Recipe recipe;
  FUSEC_ASSIGN(auto plan, context.backend.fill(describe(problem[Role::output], order), value));
  recipe.add(std::move(plan), {{Place::arg, problem[Role::output].arg, 0, nullptr}});
  FUSEC_TRY(add_posts(context, problem, order, recipe));
  return recipe;
}

}  // namespace

Result<Recipe> build_pool(const Context& context, const Problem& given) {
  const Problem problem = with_two_axes(given);
  if (product(problem[Role::input].dims) == 0) return build_pool_of_nothing(context, problem);
  const ImageOrder in = order_of(problem[Role::input], order_of(problem[Role::output], ImageOrder::last)),
                   out = order_of(problem[Role::output], in);
  const Window& w = problem.window;
  const PoolSpec spec{describe(problem[Role::input], in),
                      describe(problem[Role::output], out),
                      problem.op == ir::TensorOp::max_pool,
                      problem.count_include_pad,
                      w.kernel,
                      w.strides,
                      w.before};
  Recipe recipe;
  FUSEC_ASSIGN(auto plan, context.backend.pool(spec));
  recipe.add(std::move(plan),
             {{Place::arg, problem[Role::input].arg, 0, nullptr}, {Place::arg, problem[Role::output].arg, 0, nullptr}});
  FUSEC_TRY(add_posts(context, problem, out, recipe));
  return recipe;
}

}  // namespace fusec::runtime::cudnn
