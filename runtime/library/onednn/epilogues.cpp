// SPDX-License-Identifier: Apache-2.0
// Maps epilogues to oneDNN post-ops at bind. An epilogue whose oneDNN form drops NaN or exceeds the error bounds of the
// op table must not be mapped here; loops run it after the primitive.

#include "runtime/library/onednn/epilogues.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/library/onednn/build.h"

namespace fusec::runtime::onednn {
namespace {

using dnnl::algorithm;
using ir::ScalarOp;

struct Eltwise {
  algorithm what;
  float alpha = 0, beta = 0;
};

// eltwise_relu is maxps(x, 0), which gives 0 for NaN. Exact mode uses eltwise_elu instead, whose select keeps NaN and
// whose result for -inf is 0:
//   relu(x) = x > 0 ? x : -0 * (exp(x) - 1)
Eltwise relu(Numerics numerics) {
  if (numerics == Numerics::exact) return {algorithm::eltwise_elu, -0.0F};
  return {algorithm::eltwise_relu};
}

std::optional<Eltwise> eltwise(const BoundEpilogue& epilogue, Numerics numerics) {
  const float alpha = static_cast<float>(epilogue.alpha);
  switch (epilogue.op) {
    case ScalarOp::relu:
      return relu(numerics);
    case ScalarOp::leaky_relu:
      if (alpha == 0) return std::nullopt;  // would be the relu that drops NaN
      return Eltwise{algorithm::eltwise_relu, alpha};
    case ScalarOp::hard_swish:
      return Eltwise{algorithm::eltwise_hardswish, 1.0F / 6, 0.5F};
    case ScalarOp::sigmoid:
      return Eltwise{algorithm::eltwise_logistic};
    case ScalarOp::tanh:
      return Eltwise{algorithm::eltwise_tanh};
    case ScalarOp::silu:
      return Eltwise{algorithm::eltwise_swish, 1};
    case ScalarOp::abs:
      return Eltwise{algorithm::eltwise_abs};
    case ScalarOp::square:
      return Eltwise{algorithm::eltwise_square};
    case ScalarOp::sqrt:
      return Eltwise{algorithm::eltwise_sqrt};
    default:
      return std::nullopt;
  }
}

std::optional<algorithm> binary(ScalarOp op) {
  switch (op) {
    case ScalarOp::add:
      return algorithm::binary_add;
    case ScalarOp::sub:
      return algorithm::binary_sub;
    case ScalarOp::mul:
      return algorithm::binary_mul;
    default:
      return std::nullopt;
  }
}

bool rounds_as_kernels(const BoundEpilogue& epilogue, DType out) {
  if (out != DType::f32) return false;
  return epilogue.operand || epilogue.op == ScalarOp::relu || epilogue.op == ScalarOp::abs ||
         epilogue.op == ScalarOp::square;
}

// A vector along one axis is read as dense by oneDNN, whatever its strides say.
bool is_strided_vector(const CallOperand& operand) {
  int axes = 0;
  bool strided = false;
  for (std::size_t i = 0; i < operand.dims.size(); ++i) {
    if (operand.dims[i] == 1) continue;
    ++axes;
    strided = operand.strides[i] != 1;
  }
  return axes == 1 && strided;
}

bool is_supported(const BoundEpilogue& epilogue, Numerics numerics) {
  const ir::LibraryCapabilities& library = ir::library_capabilities("onednn");
  if (!has_epilogue(library.epilogues, epilogue.op, epilogue.operand.has_value())) return false;
  if (epilogue.operand && is_strided_vector(*epilogue.operand)) return false;
  return epilogue.operand ? data_type(epilogue.operand->dtype).has_value() : eltwise(epilogue, numerics).has_value();
}

// Strides at axes of extent 1 have no meaning, but oneDNN compares them. An operand like the output gets the output's
// strides, others get a plausible number.
dnnl::memory::desc operand_desc(const CallOperand& operand, const CallOperand& out) {
  const bool full = operand.dims == out.dims;
  Extents strides = operand.strides;
  int64_t largest = 1;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (operand.dims[i] != 1) largest = std::max(largest, operand.dims[i] * strides[i]);
  }
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (operand.dims[i] == 1) strides[i] = full ? out.strides[i] : largest;
  }
  return describe(operand.dims, strides, operand.dtype);
}

}  // namespace

std::size_t supported_prefix(const Problem& problem, Numerics numerics) {
  std::size_t count = 0;
  for (const BoundEpilogue& epilogue : problem.epilogues) {
    if (!is_supported(epilogue, numerics)) break;
    if (numerics == Numerics::exact && !rounds_as_kernels(epilogue, problem[Role::output].dtype)) break;
    ++count;
  }
  return count;
}

PostOps post_ops(const std::vector<BoundEpilogue>& epilogues, std::size_t count, int sum_at,
                 const std::function<dnnl::memory::desc(const CallOperand&)>& describe, Numerics numerics) {
  PostOps out;
  for (std::size_t i = 0; i < count; ++i) {
    const BoundEpilogue& epilogue = epilogues[i];
    if (static_cast<int>(i) == sum_at) {
      out.ops.append_sum(1.0F);
    } else if (epilogue.operand) {
      const dnnl::memory::desc desc = describe(*epilogue.operand);
      out.ops.append_binary(*binary(epilogue.op), desc);
      out.args.push_back(
          {DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1, desc, epilogue.operand->arg});
    } else {
      const std::optional<Eltwise> e = eltwise(epilogue, numerics);
      out.ops.append_eltwise(e->what, e->alpha, e->beta);
    }
  }
  return out;
}

PostOps post_ops(const std::vector<BoundEpilogue>& epilogues, std::size_t count, int sum_at, const CallOperand& out,
                 Numerics numerics) {
  return post_ops(
      epilogues, count, sum_at, [&](const CallOperand& o) { return operand_desc(o, out); }, numerics);
}

}  // namespace fusec::runtime::onednn
