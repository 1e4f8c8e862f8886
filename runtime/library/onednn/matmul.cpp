// SPDX-License-Identifier: Apache-2.0
// Builds oneDNN matrix products at bind. Transposes problems whose output has contiguous columns, and adds a second
// batch axis where only that form has a fast implementation.

#include <string_view>
#include <utility>

#include "runtime/library/onednn/build.h"

namespace fusec::runtime::onednn {
namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;

bool is_fast_matmul(const char* implementation) {
  const std::string_view name = implementation;
  return name.starts_with("brg") || name.starts_with("jit") || name.starts_with("gemm:jit");
}

// (A B)^T = B^T A^T: oneDNN writes only outputs whose rows have unit stride.
Problem with_unit_columns(Problem p) {
  const std::size_t r = p[Role::output].dims.size() - 2;
  if (p[Role::output].strides[r + 1] == 1 || p[Role::output].dims[r + 1] == 1 || p[Role::output].strides[r] != 1)
    return p;
  p.exchange(Role::input, Role::weight);
  p.for_each_operand(transpose_matrix);
  return p;
}

struct Matmul {
  const BuildContext& context;
  const Problem& problem;
  std::string wanted = {};  // name of the implementation; empty: the first
  CallOperand a = canonical_matrix(problem[Role::input]), b = canonical_matrix(problem[Role::weight]),
              out = canonical_matrix(problem[Role::output]);

  static memory::desc desc(const CallOperand& o) { return describe(o.dims, o.strides, o.dtype); }
  std::optional<memory::desc> bias_desc() const {
    if (problem.find(Role::bias) == nullptr) return std::nullopt;
    Extents dims(out.dims.size(), 1), strides(out.dims.size(), out.dims.back());
    dims.back() = out.dims.back();
    strides.back() = 1;
    return describe(dims, strides, problem[Role::bias].dtype);
  }
  // Empty if oneDNN has none.
  MatmulDesc describe_with(const PostOps& posts) const {
    return with_name(all_with(posts), wanted, [this](const char* implementation) { return errs(implementation); });
  }
  // gemm adds the terms of a single row in another order than those of several, and shares the terms of few rows out to
  // threads. CPUs without AVX-512 have nothing else that is quick.
  //
  // 16-bit values are multiplied in pairs. If the number of terms is odd, gemm of 3.2 pairs the last one with zero in
  // such a manner that an infinity becomes NaN. There is often nothing else that is quick, so only exact mode minds.
  bool errs(std::string_view implementation) const {
    const bool odd = is_16_bit_float(a.dtype) && a.dims.back() % 2 != 0;
    return implementation.starts_with("gemm") &&
           (context.batch_invariant || (context.numerics == Numerics::exact && odd));
  }
  MatmulDesc all_with(const PostOps& posts) const {
    const memory::desc weights =
        b.constant ? memory::desc(b.dims, *data_type(b.dtype), memory::format_tag::any) : desc(b);
    const dnnl::primitive_attr attr = attributes(posts.ops);
    if (const auto bias = bias_desc())
      return MatmulDesc(context.engine, desc(a), weights, *bias, desc(out), attr, true);
    return MatmulDesc(context.engine, desc(a), weights, desc(out), attr, true);
  }
  PostOps posts(int count, int sum_at) const {
    return post_ops(problem.epilogues, static_cast<std::size_t>(count), sum_at, out, context.numerics);
  }
  int most_posts() const {
    for (int n = static_cast<int>(supported_prefix(problem, context.numerics)); n >= 0; --n) {
      const MatmulDesc pd = describe_with(posts(n, -1));
      if (pd && is_fast_matmul(pd.impl_info_str())) return n;
    }
    return -1;
  }
  void add_to(ExecutionPlan& execution_plan, const MatmulDesc& pd, const PostOps& posts) const {
    execution_plan.implementation = pd.impl_info_str();
    std::vector<PrimitiveArg> primitive_args{call_arg(DNNL_ARG_SRC, desc(a), a.arg),
                                             call_arg(DNNL_ARG_DST, desc(out), out.arg)};
    primitive_args.push_back(weights_arg(context, b, desc(b), pd.weights_desc(), execution_plan));
    if (const auto bias = bias_desc())
      primitive_args.push_back(call_arg(DNNL_ARG_BIAS, *bias, problem[Role::bias].arg));
    add_post_args(posts, primitive_args);
    execution_plan.add(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(primitive_args));
  }
};

}  // namespace

namespace {

std::optional<Built> build(const BuildContext& context, const Problem& problem, const std::string& wanted) {
  const Matmul product{context, problem, wanted};
  const int posts = product.most_posts();
  if (posts < 0) return std::nullopt;
  Built built;
  const PostOps ops = product.posts(posts, -1);
  product.add_to(built.execution_plan, product.describe_with(ops), ops);
  built.trailing = trailing(problem, static_cast<std::size_t>(posts));
  const int sum_at = find_addend(problem, static_cast<std::size_t>(posts), context.call);
  if (sum_at < 0) return built;
  const PostOps sum = product.posts(posts, sum_at);
  const MatmulDesc pd = product.describe_with(sum);
  if (!pd || !is_fast_matmul(pd.impl_info_str())) return built;
  product.add_to(built.in_place, pd, sum);
  built.alias = problem.epilogues[static_cast<std::size_t>(sum_at)].operand->arg;
  return built;
}

// A head-transposed stack of matrices ([S, H, D] seen as [H, S, D]) has a fast format only with two batch axes.
Problem with_two_batch_axes(Problem p) {
  p.for_each_operand([](CallOperand& o) {
    o.dims.insert(o.dims.begin(), 1);
    o.strides.insert(o.strides.begin(), 0);
  });
  return p;
}

bool is_gemm(const std::string& name) { return name.starts_with("gemm"); }

constexpr std::string_view kBatched = "batched ";

Problem in_columns(const Problem& given) {
  const Problem problem = with_unit_columns(given);
  return with_vector_bias(problem, problem[Role::output].dims.size() - 1);
}

// Names of the fast implementations that fuse the most epilogues; the default comes first.
std::vector<std::string> list_names(const BuildContext& context, const Problem& problem) {
  const Matmul product{context, problem};
  const int posts = product.most_posts();
  if (posts < 0) return {};
  std::vector<std::string> names = quick_names(product.all_with(product.posts(posts, -1)), is_fast_matmul);
  std::erase_if(names, [&](const std::string& name) { return product.errs(name); });
  return names;
}

}  // namespace

std::optional<Built> build_matmul(const BuildContext& context, const Problem& given, const std::string& wanted) {
  const Problem problem = in_columns(given);
  if (wanted.starts_with(kBatched)) {
    if (problem[Role::output].dims.size() != 3) return std::nullopt;
    return build(context, with_two_batch_axes(problem), wanted.substr(kBatched.size()));
  }
  std::optional<Built> built = build(context, problem, wanted);
  if (wanted.empty() && built && is_gemm(built->execution_plan.implementation) &&
      problem[Role::output].dims.size() == 3) {
    std::optional<Built> other = build(context, with_two_batch_axes(problem), {});
    if (other && !is_gemm(other->execution_plan.implementation)) return other;
  }
  return built;
}

std::vector<std::string> matmul_names(const BuildContext& context, const Problem& given) {
  const Problem problem = in_columns(given);
  std::vector<std::string> names = list_names(context, problem);
  if (problem[Role::output].dims.size() != 3) return names;
  std::vector<std::string> batched = list_names(context, with_two_batch_axes(problem));
  const bool batched_first = !names.empty() && is_gemm(names[0]) && !batched.empty() && !is_gemm(batched[0]);
  for (std::string& name : batched) name.insert(0, kBatched);
  names.insert(batched_first ? names.begin() : names.end(), batched.begin(), batched.end());
  return names;
}

}  // namespace fusec::runtime::onednn
