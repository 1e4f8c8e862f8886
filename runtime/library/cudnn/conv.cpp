// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

// A convolution with its images in given orders, and where their memory is.
struct Images {
  TensorSpec in, out;
  Order order = Order::last;
  bool stage_in = false, stage_out = false;  // through temporaries
};

using Posts = std::vector<PostOp>;

Posts bias_and_epilogues(const Problem& problem) {
  Posts posts;
  if (problem.bias) posts.push_back({ir::ScalarOp::add, 0, 0, problem.bias});
  posts.insert(posts.end(), problem.epilogues.begin(), problem.epilogues.end());
  return posts;
}

// The order in which cuDNN's ready-made kernels take the addends: the full one, then the bias. The sum is that of f32
// either way.
Posts residual_first(Posts posts) {
  if (posts.size() >= 2 && posts[0].operand && posts[1].operand && posts[1].op == ir::ScalarOp::add) {
    std::swap(posts[0], posts[1]);
  }
  return posts;
}

// The filter in the order of the input; packed once where it is constant.
Result<Pointer> place_filter(const Context& context, const Operand& filter, const TensorSpec& wanted, Recipe& recipe) {
  const Pointer given{Place::arg, filter.arg, 0, nullptr};
  if (describe(filter, Order::last) == wanted || describe(filter, Order::first) == wanted) {
    recipe.need(given, wanted);
    return given;
  }
  if (filter.constant != nullptr) {
    FUSEC_ASSIGN(void* const packed, context.weights.get(filter, wanted.strides));
    recipe.packed += static_cast<std::size_t>(product(filter.dims)) * size_of(filter.dtype);
    return Pointer{Place::fixed, -1, 0, packed};
  }
  FUSEC_ASSIGN(auto copy, context.backend.copy(describe(filter, Order::first), wanted));
  const Pointer to = recipe.reserve(wanted);
  recipe.add(std::move(copy), {given, to});
  return to;
}

struct Conv {
  const Context& context;
  const Problem& problem;
  const Images& images;

  ConvSpec spec(const Posts& posts) const {
    ConvSpec spec{images.in,    dense(problem.b, images.order), images.out, problem.window, {}, problem.compute,
                  context.tf32, context.workspace_limit};
    for (const PostOp& post : posts) {
      PostSpec p{post.op, post.alpha, std::nullopt};
      if (post.operand) p.operand = describe(*post.operand, images.order);
      spec.posts.push_back(std::move(p));
    }
    return spec;
  }

  // One plan with these posts, into `to`.
  Result<Recipe> with(const Posts& posts) const {
    const ConvSpec what = spec(posts);
    FUSEC_ASSIGN(auto plan, context.backend.conv(what));
    Recipe recipe;
    Pointer from{Place::arg, problem.a.arg, 0, nullptr}, to{Place::arg, problem.out.arg, 0, nullptr};
    if (images.stage_in) {
      FUSEC_ASSIGN(auto copy, context.backend.copy(describe(problem.a, order_of(problem.a, images.order)), images.in));
      const Pointer staged = recipe.reserve(images.in);
      recipe.add(std::move(copy), {from, staged});
      from = staged;
    }
    if (images.stage_out) to = recipe.reserve(images.out);
    FUSEC_ASSIGN(const Pointer filter, place_filter(context, problem.b, what.filter, recipe));
    std::vector<Pointer> pointers{from, filter};
    for (std::size_t i = 0; i < posts.size(); ++i) {
      if (!posts[i].operand) continue;
      pointers.push_back({Place::arg, posts[i].operand->arg, 0, nullptr});
      recipe.need(pointers.back(), *what.posts[i].operand);
    }
    pointers.push_back(to);
    recipe.need(from, images.in);
    recipe.need(to, images.out);
    recipe.add(std::move(plan), std::move(pointers));
    if (images.stage_out) {
      const TensorSpec out = describe(problem.out, order_of(problem.out, images.order));
      FUSEC_ASSIGN(auto copy, context.backend.copy(images.out, out));
      recipe.add(std::move(copy), {to, {Place::arg, problem.out.arg, 0, nullptr}});
    }
    return recipe;
  }

  // One plan for all; else the bare convolution and its epilogues one by one.
  Result<Recipe> build() const {
    const Posts posts = bias_and_epilogues(problem), other = residual_first(posts);
    Result<Recipe> fused = with(other);
    if (fused.ok() || posts.empty()) return fused;
    if (posts.size() > 1) {
      fused = with(posts);
      if (fused.ok()) return fused;
    }
    FUSEC_ASSIGN(Recipe recipe, with({}));
    FUSEC_TRY(add_posts(context, problem, images.order, recipe));
    return recipe;
  }
};

}  // namespace

Status add_posts(const Context& context, const Problem& problem, Order order, Recipe& recipe) {
  const TensorSpec out = describe(problem.out, order_of(problem.out, order));
  for (const PostOp& post : bias_and_epilogues(problem)) {
    PostSpec spec{post.op, post.alpha, std::nullopt};
    std::vector<Pointer> pointers;
    if (post.operand) {
      spec.operand = describe(*post.operand, order);
      pointers.push_back({Place::arg, post.operand->arg, 0, nullptr});
    }
    pointers.push_back({Place::arg, problem.out.arg, 0, nullptr});
    FUSEC_ASSIGN(auto plan, context.backend.post(spec, out));
    recipe.add(std::move(plan), std::move(pointers));
  }
  return {};
}

Result<Recipe> build_conv(const Context& context, const Problem& given) {
  const Problem problem = with_two_axes(given);
  const Order in = order_of(problem.a, order_of(problem.out, Order::last)), out = order_of(problem.out, in);
  const TensorSpec from = describe(problem.a, in), to = describe(problem.out, out);
  std::vector<Images> ways;
  if (in == out) ways.push_back({from, to, in, false, false});
  // Where cuDNN has nothing for these strides: dense temporaries in the order of the input, then in the other.
  for (const Order order : {in, in == Order::last ? Order::first : Order::last}) {
    Images staged{dense(problem.a, order), dense(problem.out, order), order, true, true};
    staged.stage_in = !(staged.in == from);
    staged.stage_out = !(staged.out == to);
    if (staged.stage_in || staged.stage_out) ways.push_back(std::move(staged));
  }
  Status first;
  for (const Images& way : ways) {
    Result<Recipe> recipe = Conv{context, problem, way}.build();
    if (recipe.ok() || recipe.status().code() != StatusCode::unsupported) return recipe;
    if (first.ok()) first = recipe.status();
  }
  return first;
}

}  // namespace fusec::runtime::cudnn
