// SPDX-License-Identifier: Apache-2.0
// Builds convolutions for cuDNN at bind: tries image orders (in place or staged through dense temporaries) and epilogue
// forms until cuDNN has a plan, and lists the alternatives for tuning. Plans are shared between equal convolutions.

#include <string>
#include <utility>
#include <vector>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

// The images of a convolution in a given order, and whether they are staged.
struct Images {
  TensorSpec in, out;
  ImageOrder order = ImageOrder::last;
  bool stage_in = false, stage_out = false;  // staged through temporaries
};

using Epilogues = std::vector<BoundEpilogue>;

Epilogues bias_and_epilogues(const Problem& problem) {
  Epilogues epilogues;
  if (const CallOperand* bias = problem.find(Role::bias)) epilogues.push_back(add_of(*bias));
  epilogues.insert(epilogues.end(), problem.epilogues.begin(), problem.epilogues.end());
  return epilogues;
}

// The addend order that cuDNN's precompiled kernels expect: the full-size one, then the bias. The sum in f32 is the
// same in both orders.
Epilogues residual_first(Epilogues epilogues) {
  if (epilogues.size() >= 2 && epilogues[0].operand && epilogues[1].operand && epilogues[1].op == ir::ScalarOp::add) {
    std::swap(epilogues[0], epilogues[1]);
  }
  return epilogues;
}

// A bias of zeros for a convolution without one. cuDNN's precompiled plans compute convolution, addend, bias and relu.
// If one of them is missing, there is often only a plan that cuDNN compiles at run time, or none.
CallOperand zero_bias(const Problem& problem) {
  CallOperand bias;
  bias.dtype = problem[Role::output].dtype;
  bias.dims.assign(problem[Role::output].dims.size(), 1);
  bias.strides.assign(problem[Role::output].dims.size(), 0);
  bias.dims[1] = problem[Role::output].dims[1], bias.strides[1] = 1;
  return bias;
}

Result<PlanArg> make_zeros(const BuildContext& context, const CallOperand& operand) {
  FUSEC_ASSIGN(void* const zeros, context.weights.filled(operand.dtype, 0, product(operand.dims)));
  return PlanArg{ArgSource::fixed, -1, 0, zeros};
}

// Places the filter in the order of the input. A constant filter is packed once.
Result<PlanArg> place_filter(const BuildContext& context, const CallOperand& filter, const TensorSpec& wanted,
                             ExecutionPlan& execution_plan) {
  if (filter.arg < 0) return make_zeros(context, filter);
  const PlanArg given{ArgSource::arg, filter.arg, 0, nullptr};
  if (describe(filter, ImageOrder::last) == wanted || describe(filter, ImageOrder::first) == wanted) {
    execution_plan.need(given, wanted);
    return given;
  }
  if (filter.constant != nullptr) {
    FUSEC_ASSIGN(void* const packed, context.weights.get(filter, wanted.strides));
    execution_plan.packed += static_cast<std::size_t>(product(filter.dims)) * size_of(filter.dtype);
    return PlanArg{ArgSource::fixed, -1, 0, packed};
  }
  FUSEC_ASSIGN(auto copy, context.backend.copy(describe(filter, ImageOrder::first), wanted));
  const PlanArg to = execution_plan.reserve(wanted);
  execution_plan.add(std::move(copy), {given, to});
  return to;
}

struct Conv {
  const BuildContext& context;
  const Problem& problem;
  const Images& images;
  std::string plan = {};

  ConvSpec spec(const Epilogues& epilogues) const {
    ConvSpec spec{images.in,
                  dense(problem[Role::weight], images.order),
                  images.out,
                  problem.window,
                  {},
                  problem.compute,
                  context.tf32,
                  context.exact,
                  context.workspace_limit,
                  plan};
    for (const BoundEpilogue& epilogue : epilogues) {
      EpilogueSpec p;
      if (epilogue.operand) p.operand = describe(*epilogue.operand, images.order);
      spec.epilogues.push_back(std::move(p));
    }
    return spec;
  }

  // Builds one plan that includes these epilogues.
  Result<ExecutionPlan> with(const Epilogues& epilogues) const {
    const ConvSpec what = spec(epilogues);
    FUSEC_ASSIGN(auto work, context.plans.get(context.backend, what));
    ExecutionPlan execution_plan;
    PlanArg from{ArgSource::arg, problem[Role::input].arg, 0, nullptr},
        to{ArgSource::arg, problem[Role::output].arg, 0, nullptr};
    if (problem[Role::input].arg < 0) {
      FUSEC_ASSIGN(from, make_zeros(context, problem[Role::input]));
    } else if (images.stage_in) {
      FUSEC_ASSIGN(auto copy,
                   context.backend.copy(describe(problem[Role::input], infer_order(problem[Role::input], images.order)),
                                        images.in));
      const PlanArg staged = execution_plan.reserve(images.in);
      execution_plan.add(std::move(copy), {from, staged});
      from = staged;
    }
    if (images.stage_out) to = execution_plan.reserve(images.out);
    FUSEC_ASSIGN(const PlanArg filter, place_filter(context, problem[Role::weight], what.filter, execution_plan));
    std::vector<PlanArg> pointers{from, filter};
    for (std::size_t i = 0; i < epilogues.size(); ++i) {
      if (!epilogues[i].operand) continue;
      const CallOperand& operand = *epilogues[i].operand;
      if (operand.arg < 0) {
        FUSEC_ASSIGN(const PlanArg zeros, make_zeros(context, operand));
        pointers.push_back(zeros);
        continue;
      }
      pointers.push_back({ArgSource::arg, operand.arg, 0, nullptr});
      execution_plan.need(pointers.back(), *what.epilogues[i].operand);
    }
    pointers.push_back(to);
    execution_plan.need(from, images.in);
    execution_plan.need(to, images.out);
    execution_plan.add(std::move(work), std::move(pointers));
    if (images.stage_out) {
      const TensorSpec out = describe(problem[Role::output], infer_order(problem[Role::output], images.order));
      FUSEC_ASSIGN(auto copy, context.backend.copy(images.out, out));
      execution_plan.add(std::move(copy), {to, {ArgSource::arg, problem[Role::output].arg, 0, nullptr}});
    }
    return execution_plan;
  }

  // Builds one form: a plan that includes these epilogues, or the bare convolution followed by its epilogues one by
  // one.
  Result<ExecutionPlan> build(const Epilogues& epilogues) const {
    FUSEC_ASSIGN(ExecutionPlan execution_plan, with(epilogues));
    if (epilogues.empty()) FUSEC_TRY(add_epilogues(context, problem, images.order, execution_plan));
    return execution_plan;
  }
};

struct ConvVariant {
  std::string name;
  Images images;
};

struct Form {
  std::string name;
  Epilogues epilogues;
};

// Whether cuDNN's plans are known to respect these strides. For 16-bit types, cuDNN offers fused plans (engines 4 and 7
// of 9.14 on an H200) that write a batch of slices as if it were dense, so they write outside the slices.
bool respects_strides(const Problem& problem, const TensorSpec& from, const TensorSpec& to, ImageOrder order) {
  if (!is_16_bit_float(problem[Role::output].dtype)) return true;
  return from.strides == dense(problem[Role::input], order).strides &&
         to.strides == dense(problem[Role::output], order).strides;
}

// Whether staging may pay although cuDNN has plans for the images as they lie. Its f32 kernels for windows larger than
// 1 take channels first, so plans for channels last convert images and filter on each call (9.14; on an H200 the filter
// of 512 x 512 x 3 x 3 takes 13 us of 135). Staged, a constant filter is converted once.
bool pays_staged(const Problem& problem) {
  return problem[Role::output].dtype == DType::f32 && problem.groups == 1 && !is_pointwise(problem) &&
         problem[Role::weight].constant != nullptr &&
         infer_order(problem[Role::input], ImageOrder::first) == ImageOrder::last;
}

// In order of preference.
std::vector<ConvVariant> list_variants(const Problem& problem) {
  const ImageOrder in = infer_order(problem[Role::input], infer_order(problem[Role::output], ImageOrder::last)),
                   out = infer_order(problem[Role::output], in);
  const TensorSpec from = describe(problem[Role::input], in), to = describe(problem[Role::output], out);
  std::vector<ConvVariant> variants;
  if (in == out && respects_strides(problem, from, to, in))
    variants.push_back({"direct", {from, to, in, false, false}});
  // The fallbacks if cuDNN has nothing for these strides: dense temporaries in the order of the input, then in the
  // other order.
  for (const ImageOrder order : {in, in == ImageOrder::last ? ImageOrder::first : ImageOrder::last}) {
    Images staged{dense(problem[Role::input], order), dense(problem[Role::output], order), order, true, true};
    staged.stage_in = !(staged.in == from);
    staged.stage_out = !(staged.out == to);
    if (staged.stage_in || staged.stage_out)
      variants.push_back({order == ImageOrder::last ? "last" : "first", std::move(staged)});
  }
  return variants;
}

std::vector<Form> list_forms(const Problem& problem) {
  const Epilogues epilogues = bias_and_epilogues(problem);
  std::vector<Form> forms;
  if (!epilogues.empty() && problem.find(Role::bias) == nullptr) {
    Epilogues biased = epilogues;
    biased.insert(biased.begin(), add_of(zero_bias(problem)));
    forms.push_back({"zero_bias", residual_first(std::move(biased))});
  }
  if (!epilogues.empty()) forms.push_back({"fused", residual_first(epilogues)});
  if (epilogues.size() > 1 && epilogues[1].operand) forms.push_back({"in_order", epilogues});
  forms.push_back({"bare", {}});
  return forms;
}

constexpr std::size_t kMaxPlans = 12,
                      kMaxOtherPlans = 4;  // that are algorithms, of the first form that has any, and of each other

// The first plan that cuDNN has for many samples, of those that can be asked for by name.
Result<std::string> plan_for_many(const BuildContext& context, const Conv& many, const Epilogues& epilogues) {
  FUSEC_ASSIGN(const auto plans, context.backend.conv_plans(many.spec(epilogues)));
  Status refusal(StatusCode::unsupported, "cuDNN has no plan for many samples");
  for (const CudnnPlanInfo& plan : plans) {
    Conv named = many;
    named.plan = plan.name;
    const auto built = context.plans.get(context.backend, named.spec(epilogues));
    if (built.ok()) return plan.name;
    refusal = built.status();
  }
  return refusal;
}

// The plan for many samples serves every batch.
Result<ExecutionPlan> build_for_any_batch(const BuildContext& context, const Problem& problem) {
  const Problem many = of_many_samples(problem);
  const std::vector<Form> forms = list_forms(many), own_forms = list_forms(problem);  // the same ones
  Status first;
  for (const ConvVariant& variant : list_variants(many)) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const auto plan = plan_for_many(context, Conv{context, many, variant.images}, forms[i].epilogues);
      if (!plan.ok()) {
        if (first.ok()) first = plan.status();
        continue;
      }
      Status refusal;
      for (const ConvVariant& own : list_variants(problem)) {
        Result<ExecutionPlan> built = Conv{context, problem, own.images, *plan}.build(own_forms[i].epilogues);
        if (built.ok()) return built;
        if (refusal.ok()) refusal = built.status();
      }
      return not_for_this_batch(*plan, refusal);
    }
  }
  return first;
}

}  // namespace

Status add_epilogues(const BuildContext& context, const Problem& problem, ImageOrder order,
                     ExecutionPlan& execution_plan) {
  const TensorSpec out = describe(problem[Role::output], infer_order(problem[Role::output], order));
  for (const BoundEpilogue& epilogue : bias_and_epilogues(problem)) {
    EpilogueSpec spec;
    std::vector<PlanArg> pointers;
    if (epilogue.operand) {
      spec.operand = describe(*epilogue.operand, order);
      pointers.push_back({ArgSource::arg, epilogue.operand->arg, 0, nullptr});
    }
    pointers.push_back({ArgSource::arg, problem[Role::output].arg, 0, nullptr});
    FUSEC_ASSIGN(auto plan, context.backend.epilogue(spec, out));
    execution_plan.add(std::move(plan), std::move(pointers));
  }
  return {};
}

Result<ExecutionPlan> build_conv(const BuildContext& context, const Problem& given, const std::string& algorithm) {
  const Problem problem = with_two_axes(is_empty_sum(given) ? over_one_zero(given) : given);
  if (context.batch_invariant && algorithm.empty()) return build_for_any_batch(context, problem);
  const std::size_t space = algorithm.find(' ');
  const std::string wanted = algorithm.substr(0, space),
                    plan = space == std::string::npos ? "" : algorithm.substr(space + 1);
  Status first(StatusCode::unsupported, "cuDNN has no such variant");
  bool tried = false;
  for (const ConvVariant& variant : list_variants(problem)) {
    Status last;
    for (const Form& form : list_forms(problem)) {
      if (!algorithm.empty() && wanted != variant.name + "/" + form.name) continue;
      Result<ExecutionPlan> execution_plan = Conv{context, problem, variant.images, plan}.build(form.epilogues);
      if (execution_plan.ok()) return execution_plan;
      last = execution_plan.status();
    }
    if (last.ok()) continue;
    if (last.code() != StatusCode::unsupported) return last;
    if (!std::exchange(tried, true)) first = last;
  }
  return first;
}

std::vector<Algorithm> conv_algorithms(const BuildContext& context, const Problem& given) {
  if (is_empty_sum(given)) return {};
  const Problem problem = with_two_axes(given);
  std::vector<Algorithm> out;
  for (const ConvVariant& variant : list_variants(problem)) {
    const std::size_t before = out.size();
    for (const Form& form : list_forms(problem)) {
      if (form.name == "in_order" && !out.empty()) continue;  // it has the same plans, with the addends exchanged
      if (before > 0 && out.size() > before) break;           // staged beside plans that are not: one form
      const auto plans = context.backend.conv_plans(Conv{context, problem, variant.images}.spec(form.epilogues));
      if (!plans.ok()) continue;
      const std::size_t most = out.empty() ? kMaxPlans : out.size() + kMaxOtherPlans;
      for (const CudnnPlanInfo& plan : *plans) {
        if (out.size() < most) out.push_back({variant.name + "/" + form.name + " " + plan.name});
      }
    }
    if (!out.empty() && !(variant.images.order == ImageOrder::last && pays_staged(problem))) break;
  }
  return out;
}

}  // namespace fusec::runtime::cudnn
