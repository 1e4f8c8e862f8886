// SPDX-License-Identifier: Apache-2.0
// Builds oneDNN average poolings at bind, and computes the end padding that a pooling with ceil_mode needs. Problems
// for which only a reference implementation exists are left to the next library.

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/library/onednn/build.h"

namespace fusec::runtime::onednn {
namespace {

using PoolDesc = dnnl::pooling_forward::primitive_desc;

bool is_fast_pool(const char* implementation) { return std::string_view(implementation).starts_with("jit"); }

}  // namespace

Extents end_padding(const Problem& p) {
  const Window& w = p.window;
  Extents after(w.kernel.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const int64_t reach = (p[Role::output].dims[2 + i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    after[i] = std::max<int64_t>(reach - p[Role::input].dims[2 + i] - w.before[i], 0);
  }
  return after;
}

std::optional<Built> build_avg_pool(const BuildContext& context, const Problem& problem) {
  const Window& w = problem.window;
  const Extents after = end_padding(problem);
  const std::optional<ImageOrder> in = infer_order(problem[Role::input]), out = infer_order(problem[Role::output]);
  const CallOperand src = canonical_image(problem[Role::input], in.value_or(out.value_or(ImageOrder::last)));
  const CallOperand dst = canonical_image(problem[Role::output], out.value_or(in.value_or(ImageOrder::last)));
  const auto desc = [](const CallOperand& o) { return describe(o.dims, o.strides, o.dtype); };
  const auto how = problem.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                                             : dnnl::algorithm::pooling_avg_exclude_padding;
  memory::dims dilations = w.dilations;
  for (int64_t& d : dilations) --d;
  for (int n = static_cast<int>(supported_prefix(problem, context.numerics)); n >= 0; --n) {
    const std::size_t count = static_cast<std::size_t>(n);
    const PostOps posts = post_ops(problem.epilogues, count, -1, dst, context.numerics);
    const PoolDesc pd(context.engine, dnnl::prop_kind::forward_inference, how, desc(src), desc(dst), w.strides,
                      w.kernel, dilations, w.before, after, attributes(posts.ops), true);
    if (!pd || !is_fast_pool(pd.impl_info_str())) continue;
    Built built;
    built.execution_plan.implementation = pd.impl_info_str();
    std::vector<PrimitiveArg> primitive_args{call_arg(DNNL_ARG_SRC, desc(src), src.arg),
                                             call_arg(DNNL_ARG_DST, desc(dst), dst.arg)};
    add_post_args(posts, primitive_args);
    built.execution_plan.add(dnnl::pooling_forward(pd), pd.scratchpad_desc(), std::move(primitive_args));
    built.trailing = trailing(problem, count);
    return built;
  }
  return std::nullopt;
}

}  // namespace fusec::runtime::onednn
