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

using Posts = std::vector<PostOp>;

Posts bias_and_epilogues(const Problem& problem) {
  Posts posts;
  if (const Operand* bias = problem.find(Role::bias)) posts.push_back(add_of(*bias));
  posts.insert(posts.end(), problem.epilogues.begin(), problem.epilogues.end());
  return posts;
}

// The addend order that cuDNN's precompiled kernels expect: the full-size one, then the bias. The sum in f32 is the
// same in both orders.
Posts residual_first(Posts posts) {
  if (posts.size() >= 2 && posts[0].operand && posts[1].operand && posts[1].op == ir::ScalarOp::add) {
    std::swap(posts[0], posts[1]);
  }
  return posts;
}

// A bias of zeros for a convolution without one. cuDNN's precompiled plans compute convolution, addend, bias and relu.
// If one of them is missing, there is often only a plan that cuDNN compiles at run time, or none.
Operand zero_bias(const Problem& problem) {
  Operand bias;
  bias.dtype = problem[Role::output].dtype;
  bias.dims.assign(problem[Role::output].dims.size(), 1);
  bias.strides.assign(problem[Role::output].dims.size(), 0);
  bias.dims[1] = problem[Role::output].dims[1], bias.strides[1] = 1;
  return bias;
}

Result<Pointer> zeros_of(const Context& context, const Operand& operand) {
  FUSEC_ASSIGN(void* const zeros, context.weights.filled(operand.dtype, 0, product(operand.dims)));
  return Pointer{Place::fixed, -1, 0, zeros};
}

// Places the filter in the order of the input. A constant filter is packed once.
Result<Pointer> place_filter(const Context& context, const Operand& filter, const TensorSpec& wanted, Recipe& recipe) {
  if (filter.arg < 0) return zeros_of(context, filter);
  const Pointer given{Place::arg, filter.arg, 0, nullptr};
  if (describe(filter, ImageOrder::last) == wanted || describe(filter, ImageOrder::first) == wanted) {
    recipe.need(given, wanted);
    return given;
  }
  if (filter.constant != nullptr) {
    FUSEC_ASSIGN(void* const packed, context.weights.get(filter, wanted.strides));
    recipe.packed += static_cast<std::size_t>(product(filter.dims)) * size_of(filter.dtype);
    return Pointer{Place::fixed, -1, 0, packed};
  }
  FUSEC_ASSIGN(auto copy, context.backend.copy(describe(filter, ImageOrder::first), wanted));
  const Pointer to = recipe.reserve(wanted);
  recipe.add(std::move(copy), {given, to});
  return to;
}

struct Conv {
  const Context& context;
  const Problem& problem;
  const Images& images;
  std::string plan = {};

  ConvSpec spec(const Posts& posts) const {
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
    for (const PostOp& post : posts) {
      PostSpec p;
      if (post.operand) p.operand = describe(*post.operand, images.order);
      spec.posts.push_back(std::move(p));
    }
    return spec;
  }

  // Builds one plan that includes these posts.
  Result<Recipe> with(const Posts& posts) const {
    const ConvSpec what = spec(posts);
    FUSEC_ASSIGN(auto work, context.plans.get(context.backend, what));
    Recipe recipe;
    Pointer from{Place::arg, problem[Role::input].arg, 0, nullptr},
        to{Place::arg, problem[Role::output].arg, 0, nullptr};
    if (problem[Role::input].arg < 0) {
      FUSEC_ASSIGN(from, zeros_of(context, problem[Role::input]));
    } else if (images.stage_in) {
      FUSEC_ASSIGN(auto copy,
                   context.backend.copy(describe(problem[Role::input], order_of(problem[Role::input], images.order)),
                                        images.in));
      const Pointer staged = recipe.reserve(images.in);
      recipe.add(std::move(copy), {from, staged});
      from = staged;
    }
    if (images.stage_out) to = recipe.reserve(images.out);
    FUSEC_ASSIGN(const Pointer filter, place_filter(context, problem[Role::weight], what.filter, recipe));
    std::vector<Pointer> pointers{from, filter};
    for (std::size_t i = 0; i < posts.size(); ++i) {
      if (!posts[i].operand) continue;
      const Operand& operand = *posts[i].operand;
      if (operand.arg < 0) {
        FUSEC_ASSIGN(const Pointer zeros, zeros_of(context, operand));
        pointers.push_back(zeros);
        continue;
      }
      pointers.push_back({Place::arg, operand.arg, 0, nullptr});
      recipe.need(pointers.back(), *what.posts[i].operand);
    }
    pointers.push_back(to);
    recipe.need(from, images.in);
    recipe.need(to, images.out);
    recipe.add(std::move(work), std::move(pointers));
    if (images.stage_out) {
      const TensorSpec out = describe(problem[Role::output], order_of(problem[Role::output], images.order));
      FUSEC_ASSIGN(auto copy, context.backend.copy(images.out, out));
      recipe.add(std::move(copy), {to, {Place::arg, problem[Role::output].arg, 0, nullptr}});
    }
    return recipe;
  }

  // Builds one form: a plan that includes these posts, or the bare convolution followed by its epilogues one by one.
  Result<Recipe> build(const Posts& posts) const {
    FUSEC_ASSIGN(Recipe recipe, with(posts));
    if (posts.empty()) FUSEC_TRY(add_posts(context, problem, images.order, recipe));
    return recipe;
  }
};

struct Way {
  std::string name;
  Images images;
};

struct Form {
  std::string name;
  Posts posts;
};

// Whether cuDNN's plans are known to respect these strides. For 16-bit types, cuDNN offers fused plans (engines 4 and 7
// of 9.14 on an H200) that write a batch of slices as if it were dense, so they write outside the slices.
bool respects_strides(const Problem& problem, const TensorSpec& from, const TensorSpec& to, ImageOrder order) {
  if (!is_half(problem[Role::output].dtype)) return true;
  return from.strides == dense(problem[Role::input], order).strides &&
         to.strides == dense(problem[Role::output], order).strides;
}

// In order of preference.
std::vector<Way> ways_of(const Problem& problem) {
  const ImageOrder in = order_of(problem[Role::input], order_of(problem[Role::output], ImageOrder::last)),
                   out = order_of(problem[Role::output], in);
  const TensorSpec from = describe(problem[Role::input], in), to = describe(problem[Role::output], out);
  std::vector<Way> ways;
  if (in == out && respects_strides(problem, from, to, in)) ways.push_back({"direct", {from, to, in, false, false}});
  // The fallbacks if cuDNN has nothing for these strides: dense temporaries in the order of the input, then in the
  // other order.
  for (const ImageOrder order : {in, in == ImageOrder::last ? ImageOrder::first : ImageOrder::last}) {
    Images staged{dense(problem[Role::input], order), dense(problem[Role::output], order), order, true, true};
    staged.stage_in = !(staged.in == from);
    staged.stage_out = !(staged.out == to);
    if (staged.stage_in || staged.stage_out)
      ways.push_back({order == ImageOrder::last ? "last" : "first", std::move(staged)});
  }
  return ways;
}

std::vector<Form> forms_of(const Problem& problem) {
  const Posts posts = bias_and_epilogues(problem);
  std::vector<Form> forms;
  if (!posts.empty() && problem.find(Role::bias) == nullptr) {
    Posts biased = posts;
    biased.insert(biased.begin(), add_of(zero_bias(problem)));
    forms.push_back({"zero_bias", residual_first(std::move(biased))});
  }
  if (!posts.empty()) forms.push_back({"fused", residual_first(posts)});
  if (posts.size() > 1 && posts[1].operand) forms.push_back({"in_order", posts});
  forms.push_back({"bare", {}});
  return forms;
}

constexpr std::size_t kMaxPlans = 12,
                      kMaxOtherPlans = 4;  // that are choices, of the first form that has any, and of each other

}  // namespace

Status add_posts(const Context& context, const Problem& problem, ImageOrder order, Recipe& recipe) {
  const TensorSpec out = describe(problem[Role::output], order_of(problem[Role::output], order));
  for (const PostOp& post : bias_and_epilogues(problem)) {
    PostSpec spec;
    std::vector<Pointer> pointers;
    if (post.operand) {
      spec.operand = describe(*post.operand, order);
      pointers.push_back({Place::arg, post.operand->arg, 0, nullptr});
    }
    pointers.push_back({Place::arg, problem[Role::output].arg, 0, nullptr});
    FUSEC_ASSIGN(auto plan, context.backend.post(spec, out));
    recipe.add(std::move(plan), std::move(pointers));
  }
  return {};
}

Result<std::shared_ptr<const Work>> ConvPlans::get(Backend& backend, const ConvSpec& spec) {
  const std::string key = to_text(spec);
  return flights_.run(key, [&]() -> Result<std::shared_ptr<const Work>> {
    if (std::shared_ptr<const Work> work = find(key)) return work;
    FUSEC_ASSIGN(std::shared_ptr<const Work> work, backend.conv(spec));
    const std::lock_guard lock(mutex_);
    std::erase_if(plans_, [](const auto& plan) { return plan.second.expired(); });
    plans_[key] = work;
    return work;
  });
}

std::shared_ptr<const Work> ConvPlans::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = plans_.find(key);
  return it == plans_.end() ? nullptr : it->second.lock();
}

Result<Recipe> build_conv(const Context& context, const Problem& given, const std::string& choice) {
  const Problem problem = with_two_axes(is_empty_product(given) ? over_one_zero(given) : given);
  const std::size_t space = choice.find(' ');
  const std::string wanted = choice.substr(0, space), plan = space == std::string::npos ? "" : choice.substr(space + 1);
  Status first(StatusCode::unsupported, "cuDNN has no such way");
  bool tried = false;
  for (const Way& way : ways_of(problem)) {
    Status last;
    for (const Form& form : forms_of(problem)) {
      if (!choice.empty() && wanted != way.name + "/" + form.name) continue;
      Result<Recipe> recipe = Conv{context, problem, way.images, plan}.build(form.posts);
      if (recipe.ok()) return recipe;
      last = recipe.status();
    }
    if (last.ok()) continue;
    if (last.code() != StatusCode::unsupported) return last;
    if (!std::exchange(tried, true)) first = last;
  }
  return first;
}

std::vector<Choice> conv_choices(const Context& context, const Problem& given) {
  if (is_empty_product(given)) return {};
  const Problem problem = with_two_axes(given);
  std::vector<Choice> out;
  for (const Way& way : ways_of(problem)) {
    for (const Form& form : forms_of(problem)) {
      if (form.name == "in_order" && !out.empty()) continue;  // it has the same plans, with the addends exchanged
      const auto plans = context.backend.conv_plans(Conv{context, problem, way.images}.spec(form.posts));
      if (!plans.ok()) continue;
      const std::size_t most = out.empty() ? kMaxPlans : out.size() + kMaxOtherPlans;
      for (const PlanInfo& plan : *plans) {
        if (out.size() < most) out.push_back({way.name + "/" + form.name + " " + plan.name});
      }
    }
    if (!out.empty()) break;  // staging pays only if nothing else is available
  }
  return out;
}

}  // namespace fusec::runtime::cudnn
