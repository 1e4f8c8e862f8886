// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the oneDNN builders at bind time: bias normalization, primitive attributes, arguments, and the
// epilogues left to loops.

#include "runtime/library/onednn/build.h"

#include <utility>

#include "runtime/library/onednn/describe.h"

namespace fusec::runtime::onednn {
Problem with_vector_bias(Problem problem, std::size_t axis) {
  if (problem.find(Role::bias) == nullptr) return problem;
  const CallOperand& bias = problem[Role::bias];
  const int64_t extent = problem[Role::output].dims[axis];
  bool fits = bias.dims[axis] == extent && (extent == 1 || bias.strides[axis] == 1) && data_type(bias.dtype);
  for (std::size_t i = 0; i < bias.dims.size(); ++i) fits = fits && (i == axis || bias.dims[i] == 1);
  if (fits) return problem;
  problem.epilogues.insert(problem.epilogues.begin(), add_of(bias));
  problem.erase(Role::bias);
  return problem;
}

dnnl::primitive_attr attributes(const dnnl::post_ops& ops) {
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);  // overrides the environment
  return attr;
}

PrimitiveArg call_arg(int id, const dnnl::memory::desc& desc, int arg) {
  return {id, desc, ArgSource::arg, arg, 0, nullptr};
}

PrimitiveArg weights_arg(const BuildContext& context, const CallOperand& weights, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to, ExecutionPlan& execution_plan) {
  const PrimitiveArg given = call_arg(DNNL_ARG_WEIGHTS, from, weights.arg);
  if (from == to) return given;
  PrimitiveArg primitive_arg{DNNL_ARG_WEIGHTS, to, ArgSource::fixed, -1, 0, nullptr};
  if (weights.constant) {
    primitive_arg.fixed = context.weights.get(context.engine, weights.constant, from, to);
    return primitive_arg;
  }
  primitive_arg.source = ArgSource::temporary;
  primitive_arg.offset = execution_plan.reserve(to.get_size());
  execution_plan.add_reorder(context.engine, given, primitive_arg);
  execution_plan.implementation += " + weights reorder";
  return primitive_arg;
}

void add_post_args(const PostOps& posts, std::vector<PrimitiveArg>& primitive_args) {
  for (const PostArg& arg : posts.args) primitive_args.push_back(call_arg(arg.id, arg.desc, arg.arg));
}

std::shared_ptr<const Trailing> trailing(const Problem& problem, std::size_t done) {
  if (done >= problem.epilogues.size()) return nullptr;
  const auto first = problem.epilogues.begin() + static_cast<std::ptrdiff_t>(done);
  return std::make_shared<const Trailing>(
      Trailing{problem[Role::output], problem[Role::output], false, 0, {first, problem.epilogues.end()}});
}

}  // namespace fusec::runtime::onednn
