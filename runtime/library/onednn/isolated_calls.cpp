// SPDX-License-Identifier: Apache-2.0
// Builds oneDNN calls in each layout they support, to be timed alone as a baseline for `bench`. They are never part of
// a plan.

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "runtime/library/onednn/build.h"

namespace fusec::runtime::onednn {
namespace {

using memory = dnnl::memory;

// One layout of a problem. make: returns the primitive for these attributes and this layout of the output; empty if
// oneDNN has none.
struct Form {
  std::string layout;
  memory::desc out;
  std::function<dnnl::primitive_desc(const dnnl::primitive_attr&, const memory::desc&)> make;
};

memory::desc any(const CallOperand& o) { return {o.dims, *data_type(o.dtype), memory::format_tag::any}; }
memory::desc dense(const CallOperand& o, ImageOrder order) {
  const CallOperand image = dense_image(o, order);
  return describe(image.dims, image.strides, image.dtype);
}

// Row-major, or with the two innermost axes exchanged.
memory::desc dense_matrix(const CallOperand& o, bool transposed = false) {
  const std::size_t rank = o.dims.size();
  Extents strides(rank);
  int64_t next = 1;
  for (std::size_t i = rank; i-- > 0;) {
    const std::size_t axis = transposed && i + 2 >= rank ? 2 * rank - 3 - i : i;
    strides[axis] = std::exchange(next, next * o.dims[axis]);
  }
  return describe(o.dims, strides, o.dtype);
}

// Blocks of channels as wide as a vector. An image with few channels, such as a network's input, stays unblocked.
memory::desc blocked(const CallOperand& image) {
  using enum memory::format_tag;
  static constexpr memory::format_tag kTags[2][3] = {{nCw8c, nChw8c, nCdhw8c}, {nCw16c, nChw16c, nCdhw16c}};
  const bool wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  if (image.dims[1] < 8) return dense(image, ImageOrder::first);
  return {image.dims, *data_type(image.dtype), kTags[wide ? 1 : 0][image.dims.size() - 3]};
}

memory::dims less_one(memory::dims dilations) {
  for (int64_t& d : dilations) --d;
  return dilations;
}

Form conv_form(const BuildContext& context, const Problem& p, std::string layout, memory::desc src, memory::desc out) {
  auto make = [&context, &p, src](const dnnl::primitive_attr& attr, const memory::desc& dst) -> dnnl::primitive_desc {
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto how = dnnl::algorithm::convolution_direct;
    const memory::desc weights = any(grouped_filter(p));
    const memory::dims dilations = less_one(p.window.dilations);
    const Window& w = p.window;
    using PrimitiveDesc = dnnl::convolution_forward::primitive_desc;
    if (p.find(Role::bias) == nullptr) {
      return PrimitiveDesc(context.engine, kind, how, src, weights, dst, w.strides, dilations, w.before, w.after, attr,
                           true);
    }
    const memory::desc bias = describe({p[Role::output].dims[1]}, {1}, p[Role::bias].dtype);
    return PrimitiveDesc(context.engine, kind, how, src, weights, bias, dst, w.strides, dilations, w.before, w.after,
                         attr, true);
  };
  return {std::move(layout), std::move(out), make};
}

dnnl::algorithm pooling(const Problem& p) {
  if (p.op == ir::TensorOp::max_pool) return dnnl::algorithm::pooling_max;
  return p.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                             : dnnl::algorithm::pooling_avg_exclude_padding;
}

Form pool_form(const BuildContext& context, const Problem& p, std::string layout, memory::desc src, memory::desc out) {
  auto make = [&context, &p, src](const dnnl::primitive_attr& attr, const memory::desc& dst) -> dnnl::primitive_desc {
    const Window& w = p.window;
    return dnnl::pooling_forward::primitive_desc(context.engine, dnnl::prop_kind::forward_inference, pooling(p), src,
                                                 dst, w.strides, w.kernel, less_one(w.dilations), w.before,
                                                 end_padding(p), attr, true);
  };
  return {std::move(layout), std::move(out), make};
}

Form product_form(const BuildContext& context, const Problem& p, std::string layout, memory::desc a, memory::desc b,
                  memory::desc out) {
  auto make = [&context, &p, a, b](const dnnl::primitive_attr& attr, const memory::desc& dst) -> dnnl::primitive_desc {
    using PrimitiveDesc = dnnl::matmul::primitive_desc;
    if (p.find(Role::bias) == nullptr) return PrimitiveDesc(context.engine, a, b, dst, attr, true);
    return PrimitiveDesc(context.engine, a, b, dense_matrix(p[Role::bias]), dst, attr, true);
  };
  return {std::move(layout), std::move(out), make};
}

std::vector<Form> forms(const BuildContext& context, const Problem& p) {
  const auto images = [&](const auto& form) {
    return std::vector<Form>{
        form(context, p, "nchw", dense(p[Role::input], ImageOrder::first), dense(p[Role::output], ImageOrder::first)),
        form(context, p, "nhwc", dense(p[Role::input], ImageOrder::last), dense(p[Role::output], ImageOrder::last)),
        form(context, p, "blocked", blocked(p[Role::input]), blocked(p[Role::output])),
    };
  };
  if (p.op == ir::TensorOp::conv) {
    std::vector<Form> out = images(conv_form);
    out.push_back(conv_form(context, p, "any", any(p[Role::input]), any(p[Role::output])));
    return out;
  }
  if (p.op != ir::TensorOp::matmul) return images(pool_form);
  const auto side = [](const CallOperand& o, bool transposed) {
    return o.constant ? any(o) : dense_matrix(o, transposed);
  };
  return {product_form(context, p, "plain", side(p[Role::input], false), side(p[Role::weight], false),
                       dense_matrix(p[Role::output])),
          product_form(context, p, "transposed", side(p[Role::input], false), side(p[Role::weight], true),
                       dense_matrix(p[Role::output])),
          product_form(context, p, "any", any(p[Role::input]), any(p[Role::weight]), any(p[Role::output]))};
}

// An operand with the shape and type of the output has the output's layout.
memory::desc operand_desc(const Problem& p, const CallOperand& o, const memory::desc& out) {
  if (o.dims == p[Role::output].dims && o.dtype == p[Role::output].dtype) return out;
  return p.op == ir::TensorOp::matmul ? dense_matrix(o) : dense(o, ImageOrder::last);
}

std::vector<PrimitiveArg> primitive_args(const Problem& p, const dnnl::primitive_desc& pd, const PostOps& posts) {
  std::vector<PrimitiveArg> out{call_arg(DNNL_ARG_SRC, pd.src_desc(0), p[Role::input].arg),
                                call_arg(DNNL_ARG_DST, pd.dst_desc(0), p[Role::output].arg)};
  if (const CallOperand* b = p.find(Role::weight))
    out.push_back(call_arg(DNNL_ARG_WEIGHTS, pd.weights_desc(0), b->arg));
  if (const CallOperand* b = p.find(Role::bias)) out.push_back(call_arg(DNNL_ARG_BIAS, pd.weights_desc(1), b->arg));
  add_post_args(posts, out);
  return out;
}

IsolatedCall lone_call(const BuildContext& context, const Problem& p, const Form& form, const dnnl::primitive_desc& pd,
                       const PostOps& posts) {
  IsolatedCall lone{form.layout, nullptr, std::vector<std::size_t>(context.call.args.size()), -1};
  Built built;
  built.execution_plan.implementation = pd.impl_info_str();
  for (const PrimitiveArg& primitive_arg : primitive_args(p, pd, posts))
    lone.bytes[static_cast<std::size_t>(primitive_arg.arg)] = primitive_arg.desc.get_size();
  built.execution_plan.add(dnnl::primitive(pd), pd.scratchpad_desc(), primitive_args(p, pd, posts));
  for (const CallOperand* side : {p.find(Role::input), p.find(Role::weight)}) {
    if (side != nullptr && side->constant != nullptr) lone.weights = side->arg;
  }
  lone.op = make_op(context.engine, std::move(built), context.call);
  return lone;
}

bool is_reference(const dnnl::primitive_desc& pd) {
  const std::string_view name = pd.impl_info_str();
  return name.starts_with("ref") || name.starts_with("simple");
}

struct Lone {
  IsolatedCall call;
  int posts = 0;  // number of leading epilogues that are fused
};

// Fuses as many leading epilogues as an implementation supports.
std::optional<Lone> lone_call(const BuildContext& context, const Problem& p, const Form& form, bool in_place) {
  const dnnl::primitive_desc bare = form.make(attributes({}), form.out);
  if (!bare) return std::nullopt;
  const memory::desc out = bare.dst_desc(0);
  for (int n = static_cast<int>(supported_prefix(p, context.numerics)); n >= 0; --n) {
    const auto count = static_cast<std::size_t>(n);
    const int sum_at = in_place ? find_addend(p, count, context.call) : -1;
    const PostOps posts = post_ops(
        p.epilogues, count, sum_at, [&](const CallOperand& o) { return operand_desc(p, o, out); }, context.numerics);
    const dnnl::primitive_desc pd = form.make(attributes(posts.ops), out);
    if (pd && !is_reference(pd)) return Lone{lone_call(context, p, form, pd, posts), n};
  }
  return std::nullopt;
}

}  // namespace

std::vector<IsolatedCall> isolated_calls_of_problem(const BuildContext& context, const Problem& given, bool in_place) {
  const bool product = given.op == ir::TensorOp::matmul;
  const Problem problem = with_vector_bias(given, product ? given[Role::output].dims.size() - 1 : 1);
  std::vector<Lone> found;
  int most = 0;
  for (const Form& form : forms(context, problem)) {
    try {
      std::optional<Lone> lone = lone_call(context, problem, form, in_place);
      if (!lone || !lone->call.op) continue;
      most = std::max(most, lone->posts);
      found.push_back(*std::move(lone));
    } catch (const dnnl::error&) {
      // oneDNN rejects this layout.
    }
  }
  std::vector<IsolatedCall> out;
  for (Lone& lone : found) {
    if (lone.posts == most) out.push_back(std::move(lone.call));  // the others do less work
  }
  return out;
}

}  // namespace fusec::runtime::onednn
