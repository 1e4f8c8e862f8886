// SPDX-License-Identifier: Apache-2.0
// Builds pooling plans for cuDNN at bind, from the descriptor-based API. Windows and paddings that cuDNN would compute
// differently are not given to it (ir/library/capabilities.h).

#include <limits>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

// Every window consists only of padding: the result is the maximum of an empty set, or an average of 0.
Result<ExecutionPlan> build_pool_of_nothing(const BuildContext& context, const Problem& problem) {
  const ImageOrder order = infer_order(problem[Role::output], ImageOrder::last);
  const double value = problem.op == ir::TensorOp::max_pool ? -std::numeric_limits<double>::infinity() : 0;
  ExecutionPlan execution_plan;
  FUSEC_ASSIGN(auto plan, context.backend.fill(describe(problem[Role::output], order), value));
  execution_plan.add(std::move(plan), {{ArgSource::arg, problem[Role::output].arg, 0, nullptr}});
  FUSEC_TRY(add_epilogues(context, problem, order, execution_plan));
  return execution_plan;
}

}  // namespace

Result<ExecutionPlan> build_pool(const BuildContext& context, const Problem& given) {
  const Problem problem = with_two_axes(given);
  if (product(problem[Role::input].dims) == 0) return build_pool_of_nothing(context, problem);
  const ImageOrder in = infer_order(problem[Role::input], infer_order(problem[Role::output], ImageOrder::last)),
                   out = infer_order(problem[Role::output], in);
  const Window& w = problem.window;
  const PoolSpec spec{describe(problem[Role::input], in),
                      describe(problem[Role::output], out),
                      problem.op == ir::TensorOp::max_pool,
                      problem.count_include_pad,
                      w.kernel,
                      w.strides,
                      w.before};
  ExecutionPlan execution_plan;
  FUSEC_ASSIGN(auto plan, context.backend.pool(spec));
  execution_plan.add(std::move(plan), {{ArgSource::arg, problem[Role::input].arg, 0, nullptr},
                                       {ArgSource::arg, problem[Role::output].arg, 0, nullptr}});
  FUSEC_TRY(add_epilogues(context, problem, out, execution_plan));
  return execution_plan;
}

}  // namespace fusec::runtime::cudnn
