// SPDX-License-Identifier: Apache-2.0
// Builds oneDNN convolutions at bind: directly on the given strides, as a matmul for pointwise windows, or staged
// through channels-last temporaries. Reference and gemm implementations are avoided, as are implementations known to be
// wrong for odd channel counts.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/library/onednn/build.h"

namespace fusec::runtime::onednn {

CallOperand grouped_filter(const Problem& problem) {
  CallOperand filter = problem[Role::weight];
  if (problem.groups == 1) return filter;
  const int64_t outputs = filter.dims[0] / problem.groups;
  filter.dims[0] = outputs;
  filter.dims.insert(filter.dims.begin(), problem.groups);
  filter.strides.insert(filter.strides.begin(), filter.strides[0] * outputs);
  return filter;
}

namespace {

using PrimitiveDesc = dnnl::convolution_forward::primitive_desc;

// The gemm and ref implementations are 1.5 to 45 times slower than these.
bool is_fast(const char* implementation) {
  const std::string_view name = implementation;
  return name.starts_with("brg") || name.starts_with("jit") || name.starts_with("brdgmm");
}

// A convolution on exactly these strides.
struct Direct {
  const BuildContext& context;
  const Problem& problem;
  CallOperand src, dst;
  std::string wanted = {};  // name of the implementation; empty: the first
  CallOperand filter = grouped_filter(problem);

  memory::desc desc(const CallOperand& o) const { return describe(o.dims, o.strides, o.dtype); }
  std::optional<memory::desc> bias_desc() const {
    if (problem.find(Role::bias) == nullptr) return std::nullopt;
    return describe({problem[Role::output].dims[1]}, {1}, problem[Role::bias].dtype);
  }

  // Empty if oneDNN has none.
  PrimitiveDesc describe_with(const PostOps& posts) const {
    return with_name(all_with(posts), wanted, [this](const char* implementation) { return errs(implementation); });
  }

  // 16-bit values are multiplied in pairs. If the channel count is odd, the brg implementations pair a pixel's last
  // channel with the next pixel's first one times zero, which gives NaN if that value is not finite. jit_bf16_1x1 of
  // 3.2 runs out of registers for such a channel when it processes 30 pixels at once, and multiplies the image by
  // itself.
  bool errs(std::string_view implementation) const {
    const bool odd = is_16_bit_float(src.dtype) && problem[Role::weight].dims[1] % 2 != 0;
    return odd && (implementation.starts_with("brg") || implementation.starts_with("jit_bf16_1x1"));
  }

  PrimitiveDesc all_with(const PostOps& posts) const {
    const Window& w = problem.window;
    const memory::desc weights(filter.dims, *data_type(filter.dtype), memory::format_tag::any);
    memory::dims dilations = w.dilations;
    for (int64_t& d : dilations) --d;
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto how = dnnl::algorithm::convolution_direct;
    const dnnl::primitive_attr attr = attributes(posts.ops);
    if (const auto bias = bias_desc()) {
      return PrimitiveDesc(context.engine, kind, how, desc(src), weights, *bias, desc(dst), w.strides, dilations,
                           w.before, w.after, attr, true);
    }
    return PrimitiveDesc(context.engine, kind, how, desc(src), weights, desc(dst), w.strides, dilations, w.before,
                         w.after, attr, true);
  }

  // The largest number of leading epilogues that a fast implementation supports; -1: there is no fast implementation.
  int most_posts() const {
    for (int n = static_cast<int>(supported_prefix(problem, context.numerics)); n >= 0; --n) {
      const PrimitiveDesc pd = describe_with(posts(n, -1));
      if (pd && is_fast(pd.impl_info_str())) return n;
    }
    return -1;
  }
  // Names of the fast implementations, those that fuse most epilogues first.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    if (const int most = most_posts(); most >= 0) out.push_back(describe_with(posts(most, -1)).impl_info_str());
    for (int n = static_cast<int>(supported_prefix(problem, context.numerics)); n >= 0; --n) {
      for (std::string& name : quick_names(all_with(posts(n, -1)), is_fast)) {
        if (!errs(name) && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
      }
    }
    return out;
  }
  PostOps posts(int count, int sum_at) const {
    return post_ops(problem.epilogues, static_cast<std::size_t>(count), sum_at, dst, context.numerics);
  }

  void add_to(ExecutionPlan& execution_plan, const PrimitiveDesc& pd, const PostOps& posts, PrimitiveArg from,
              PrimitiveArg to) const {
    from.id = DNNL_ARG_SRC;
    to.id = DNNL_ARG_DST;
    execution_plan.implementation = pd.impl_info_str() + execution_plan.implementation;
    std::vector<PrimitiveArg> primitive_args{from, to};
    primitive_args.push_back(weights_arg(context, filter, desc(filter), pd.weights_desc(), execution_plan));
    if (const auto bias = bias_desc())
      primitive_args.push_back(call_arg(DNNL_ARG_BIAS, *bias, problem[Role::bias].arg));
    add_post_args(posts, primitive_args);
    execution_plan.add(dnnl::convolution_forward(pd), pd.scratchpad_desc(), std::move(primitive_args));
  }
};

PrimitiveArg temporary_slot(const memory::desc& desc, ExecutionPlan& execution_plan) {
  return {0, desc, ArgSource::temporary, -1, execution_plan.reserve(desc.get_size()), nullptr};
}

Built build_direct(const Direct& conv, int posts) {
  Built built;
  const PrimitiveArg from = call_arg(0, conv.desc(conv.src), conv.src.arg),
                     to = call_arg(0, conv.desc(conv.dst), conv.dst.arg);
  const PostOps ops = conv.posts(posts, -1);
  conv.add_to(built.execution_plan, conv.describe_with(ops), ops, from, to);
  built.trailing = trailing(conv.problem, static_cast<std::size_t>(posts));
  const int sum_at = find_addend(conv.problem, static_cast<std::size_t>(posts), conv.context.call);
  if (sum_at < 0) return built;
  const PostOps sum = conv.posts(posts, sum_at);
  const PrimitiveDesc pd = conv.describe_with(sum);
  if (!pd || !is_fast(pd.impl_info_str())) return built;
  conv.add_to(built.in_place, pd, sum, from, to);
  built.alias = conv.problem.epilogues[static_cast<std::size_t>(sum_at)].operand->arg;
  return built;
}

// Stages one or both images through row-major channels-last temporaries.
Built build_staged(const Direct& conv, int posts, const CallOperand& src, const CallOperand& dst) {
  Built built;
  ExecutionPlan& execution_plan = built.execution_plan;
  PrimitiveArg from = call_arg(0, conv.desc(src), src.arg), to = call_arg(0, conv.desc(dst), dst.arg);
  const bool stage_src = conv.src.strides != src.strides, stage_dst = conv.dst.strides != dst.strides;
  if (stage_src) {
    const PrimitiveArg temporary = temporary_slot(conv.desc(conv.src), execution_plan);
    execution_plan.add_reorder(conv.context.engine, from, temporary);
    execution_plan.implementation += " + src reorder";
    from = temporary;
  }
  const PrimitiveArg target = stage_dst ? temporary_slot(conv.desc(conv.dst), execution_plan) : to;
  const PostOps ops = conv.posts(posts, -1);
  conv.add_to(execution_plan, conv.describe_with(ops), ops, from, target);
  built.trailing = trailing(conv.problem, static_cast<std::size_t>(posts));
  if (!stage_dst) return built;
  built.move = move_to(dst, target.offset);
  if (built.move) {
    execution_plan.implementation += " + move";
    return built;
  }
  if (!built.trailing) {
    execution_plan.add_reorder(conv.context.engine, target, to);
    execution_plan.implementation += " + dst reorder";
    return built;
  }
  Trailing through = *built.trailing;
  through.from = conv.dst;
  through.from.arg = static_cast<int>(conv.context.call.args.size());
  through.from_temporary = true;
  through.offset = target.offset;
  built.trailing = std::make_shared<const Trailing>(std::move(through));
  return built;
}

}  // namespace

namespace {

constexpr std::string_view kAsMatmul = "matmul ", kStaged = "staged";

// Uses the memory order of each image; an image that fits either order takes the order of the other image.
Direct make_direct(const BuildContext& context, const Problem& problem, const std::string& wanted = {}) {
  const std::optional<ImageOrder> in = infer_order(problem[Role::input]), out = infer_order(problem[Role::output]);
  return {context, problem, canonical_image(problem[Role::input], in.value_or(out.value_or(ImageOrder::last))),
          canonical_image(problem[Role::output], out.value_or(in.value_or(ImageOrder::last))), wanted};
}

std::optional<Built> build_direct_or_matmul(const BuildContext& context, const Problem& given, const Problem& problem,
                                            const std::string& wanted) {
  if (wanted.starts_with(kAsMatmul)) {
    if (!is_pointwise(problem)) return std::nullopt;
    return build_matmul(context, as_matmul(given), wanted.substr(kAsMatmul.size()));
  }
  const Direct direct = make_direct(context, problem, wanted);
  if (const int posts = direct.most_posts(); posts >= 0) return build_direct(direct, posts);
  return wanted.empty() && is_pointwise(problem) ? build_matmul(context, as_matmul(given), {}) : std::nullopt;
}

}  // namespace

std::optional<Built> build_conv(const BuildContext& context, const Problem& given, const std::string& wanted) {
  const Problem problem = with_vector_bias(given, 1);
  if (std::optional<Built> built = build_direct_or_matmul(context, given, problem, wanted == kStaged ? "" : wanted))
    return built;
  if (!wanted.empty() && wanted != kStaged) return std::nullopt;
  const Direct direct = make_direct(context, problem);
  const CallOperand dense_src = dense_image(problem[Role::input], ImageOrder::last),
                    dense_dst = dense_image(problem[Role::output], ImageOrder::last);
  for (const auto& [from, to] :
       {std::pair{dense_src, direct.dst}, std::pair{direct.src, dense_dst}, std::pair{dense_src, dense_dst}}) {
    const Direct staged{context, problem, from, to};
    if (const int posts = staged.most_posts(); posts >= 0) return build_staged(staged, posts, direct.src, direct.dst);
  }
  return std::nullopt;
}

std::vector<std::string> conv_names(const BuildContext& context, const Problem& given) {
  const Problem problem = with_vector_bias(given, 1);
  std::vector<std::string> names = make_direct(context, problem).names();
  if (is_pointwise(problem)) {
    for (const std::string& name : matmul_names(context, as_matmul(given)))
      names.push_back(std::string(kAsMatmul) + name);
  }
  if (names.empty()) names.emplace_back(kStaged);
  return names;
}

}  // namespace fusec::runtime::onednn
