// SPDX-License-Identifier: Apache-2.0
// Evaluates attention for the graph evaluator, in f64: for each query the scores of all keys, their softmax, and the
// sum of values that it weights.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/eval/op_call.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// The strides of a mask along the axes of the scores; 0 where it broadcasts.
Extents mask_strides(const Tensor& mask) {
  Extents strides(4, 0);
  const std::size_t missing = 4 - mask.shape().size();
  for (std::size_t i = 0; i < mask.shape().size(); ++i) {
    if (mask.shape()[i] != 1) strides[missing + i] = mask.strides()[i];
  }
  return strides;
}

// exp(s - max) / sum(exp(s - max)), in place.
void softmax(std::vector<double>& scores) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double s : scores) max = std::isnan(s) || s > max ? s : max;
  for (double& s : scores) sum += s = std::exp(s - max);
  for (double& s : scores) s /= sum;
}

}  // namespace

Result<Tensor> eval_attention(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Extents &q_shape = call.operand(0).shape(), &v_shape = call.operand(2).shape();
  const int64_t heads = q_shape[1], queries = q_shape[2], depth = q_shape[3];
  const int64_t shared = v_shape[1], keys = v_shape[2], width = v_shape[3];
  if (out.num_elements() == 0) return out;
  const ElementsAs<double> q(call.operand(0)), k(call.operand(1)), v(call.operand(2));
  const bool masked = call.operands.size() > 3;
  const ElementsAs<double> mask(call.operand(masked ? 3 : 0));
  const Extents strides = masked ? mask_strides(call.operand(3)) : Extents(4, 0);
  const double scale = call.attrs.f("scale");
  const bool causal = call.attrs.i("causal") == 1;
  parallel_for(call.options.threads, q_shape[0] * heads * queries, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> weights(static_cast<std::size_t>(keys)), sums(static_cast<std::size_t>(width));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t n = row / queries / heads, h = row / queries % heads, s = row % queries;
      const int64_t first = (n * shared + h / (heads / shared)) * keys;  // of the keys and values
      const int64_t seen = causal ? s + 1 + keys - queries : keys;
      weights.resize(static_cast<std::size_t>(seen));
      for (int64_t t = 0; t < seen; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < depth; ++d) sum += q.data()[row * depth + d] * k.data()[(first + t) * depth + d];
        const double added = masked ? mask.data()[dot({n, h, s, t}, strides)] : 0;
        weights[static_cast<std::size_t>(t)] = sum * scale + added;
      }
      softmax(weights);
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t t = 0; t < seen; ++t) {
        for (int64_t e = 0; e < width; ++e)
          sums[static_cast<std::size_t>(e)] += weights[static_cast<std::size_t>(t)] * v.data()[(first + t) * width + e];
      }
      store_elements(call.storage, out.data(), row * width, 1, width, sums.data());
    }
  });
  return out;
}

}  // namespace fusec::ir
