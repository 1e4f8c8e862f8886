// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the oneDNN builders at bind time: types, memory descriptors and canonical strides of normalized
// operands, bias normalization, primitive attributes, argument slots, and the epilogues left to loops. Adjusts only
// strides that no element uses, except in dense_image, which describes new memory.

#include "runtime/library/onednn/build.h"

#include <algorithm>
#include <utility>

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

std::optional<memory::data_type> data_type(DType dtype) {
  if (dtype == DType::f32) return memory::data_type::f32;
  if (dtype == DType::bf16 && __builtin_cpu_supports("avx512bf16")) return memory::data_type::bf16;
  // For f16, oneDNN requires AVX512-FP16.
  if (dtype == DType::f16 && dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_fp16) {
    return memory::data_type::f16;
  }
  return std::nullopt;
}

memory::desc describe(const Extents& dims, const Extents& strides, DType dtype) {
  return memory::desc(dims, *data_type(dtype), strides);
}

std::optional<ImageOrder> infer_order(const CallOperand& image) {
  if (image.dims[1] == 1) return std::nullopt;
  for (std::size_t i = image.dims.size(); i-- > 2;) {
    if (image.dims[i] == 1) continue;
    return image.strides[1] < image.strides[i] ? ImageOrder::last : ImageOrder::first;
  }
  return std::nullopt;
}

CallOperand canonical_matrix(CallOperand matrix) {
  const std::size_t r = matrix.dims.size() - 2, c = r + 1;
  int64_t &rows = matrix.strides[r], &columns = matrix.strides[c];
  if (matrix.dims[r] == 1 && matrix.dims[c] == 1) {
    rows = columns = 1;
  } else if (matrix.dims[r] == 1) {
    rows = columns == 1 ? matrix.dims[c] : 1;
  } else if (matrix.dims[c] == 1) {
    columns = rows == 1 ? matrix.dims[r] : 1;
  }
  int64_t dense = std::max(rows * matrix.dims[r], columns * matrix.dims[c]);
  for (std::size_t i = r; i-- > 0;) {
    if (matrix.dims[i] == 1) matrix.strides[i] = dense;
    dense = std::max(dense, matrix.strides[i] * matrix.dims[i]);
  }
  return matrix;
}

}  // namespace fusec::runtime::onednn
