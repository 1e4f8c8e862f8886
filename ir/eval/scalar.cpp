// SPDX-License-Identifier: Apache-2.0
// Evaluates scalar ops and casts of the graph evaluator, element by element with numpy's broadcasting, by the reference
// column of the op table.

#include <algorithm>
#include <utility>

#include "ir/eval/op_call.h"
#include "ir/ops/cast.h"
#include "ir/ops/reference.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

constexpr int64_t kChunk = 512;

// An operand in the shape of the result; strides are 0 along broadcast axes.
struct BroadcastOperand {
  const Tensor* tensor;
  Extents strides;
  bool flat;  // the operand has the shape of the result
};

BroadcastOperand align(const Tensor& tensor, const Extents& shape) {
  BroadcastOperand out{&tensor, Extents(shape.size(), 0), tensor.shape() == shape};
  const std::size_t skip = shape.size() - tensor.shape().size();
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    out.strides[skip + i] = tensor.shape()[i] == 1 ? 0 : tensor.strides()[i];
  }
  return out;
}

// Elements [begin, begin + count) in the row-major order of the result.
template <class T>
void load_chunk(const BroadcastOperand& operand, const Extents& shape, int64_t begin, int64_t count, T* out) {
  const Tensor& tensor = *operand.tensor;
  if (operand.flat) return load_elements(tensor.dtype(), tensor.data(), begin, 1, count, out);
  if (tensor.num_elements() == 1) return load_elements(tensor.dtype(), tensor.data(), 0, 0, count, out);
  while (count > 0) {
    const Extents at = unravel(begin, shape);
    const int64_t run = std::min(count, shape.back() - at.back());
    load_elements(tensor.dtype(), tensor.data(), dot(at, operand.strides), operand.strides.back(), run, out);
    begin += run;
    count -= run;
    out += run;
  }
}

// The condition of `where` is bool, whatever the type of the values.
template <class T>
void load_as(const BroadcastOperand& operand, const Extents& shape, int64_t begin, int64_t count, T* out) {
  if (std::is_same_v<T, double> && !is_float(operand.tensor->dtype())) {
    uint64_t bits[kChunk];
    load_chunk(operand, shape, begin, count, bits);
    std::copy(bits, bits + count, out);
  } else {
    load_chunk(operand, shape, begin, count, out);
  }
}

template <class T>
void store_as(DType storage, Tensor& out, int64_t begin, int64_t count, const T* values) {
  if (std::is_same_v<T, double> && !is_float(storage)) {
    uint64_t bits[kChunk];
    for (int64_t i = 0; i < count; ++i) bits[i] = values[i] != 0;
    store_elements(storage, out.data(), begin, 1, count, bits);
  } else {
    store_elements(storage, out.data(), begin, 1, count, values);
  }
}

// Applies f(a, b, c) to every element, in T.
template <class T, class F>
void map(const OpCall& call, Tensor& out, const F& f) {
  std::vector<BroadcastOperand> operands;
  for (const Tensor& tensor : call.operands) operands.push_back(align(tensor, call.shape));
  parallel_for(call.options.threads, out.num_elements(), 16 * kChunk, [&](int64_t begin, int64_t end) {
    T in[3][kChunk] = {}, result[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t count = std::min(kChunk, end - at);
      for (std::size_t i = 0; i < operands.size(); ++i) load_as(operands[i], call.shape, at, count, in[i]);
      for (int64_t i = 0; i < count; ++i) result[i] = f(in[0][i], in[1][i], in[2][i]);
      store_as(call.storage, out, at, count, result);
    }
  });
}

// A u64 above the range of i64: converts half of it with a sticky lowest bit, so that doubling the rounded half is
// exact.
void store_big_unsigned(DType dtype, void* at, uint64_t value) {
  store_int(dtype, at, static_cast<int64_t>(value >> 1 | (value & 1)));
  store_double(dtype, at, 2 * load_double(dtype, at));
}

// Casts one element between the graph's dtypes; `from` is f64 for wide floats.
void cast_element(DType from, const void* source, DType to, void* target) {
  const uint64_t bits = from == DType::u64 ? load_element<uint64_t>(from, source) : 0;
  if (is_float(from)) {
    store_double(to, target, load_double(from, source));
  } else if (bits >> 63 != 0 && is_float(to)) {
    store_big_unsigned(to, target, bits);
  } else {
    store_int(to, target, load_int(from, source));
  }
}

Result<Tensor> eval_cast(const OpCall& call) {
  const Tensor& in = call.operand(0);
  FUSEC_ASSIGN(Tensor out, Tensor::make(call.dtype, call.shape));
  const auto from_size = static_cast<int64_t>(size_of(in.dtype())), to_size = static_cast<int64_t>(size_of(call.dtype));
  parallel_for(call.options.threads, out.num_elements(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      cast_element(in.dtype(), in.as<char>() + i * from_size, call.dtype, out.as<char>() + i * to_size);
    }
  });
  return round_to(out, call.storage);
}

}  // namespace

Result<Tensor> eval_scalar_node(const OpCall& call) {
  const ScalarOp op = call.node.op.scalar();
  if (op == ScalarOp::cast) return eval_cast(call);
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const DType dtype = call.operands.back().dtype();  // of the values; the first operand of `where` is bool
  if (is_float(dtype)) {
    map<double>(call, out, [&](double a, double b, double c) { return eval_scalar(op, a, b, c); });
  } else if (dtype == DType::bool_) {
    map<int64_t>(call, out, [&](int64_t a, int64_t b, int64_t c) { return eval_scalar(op, a != 0, b != 0, c != 0); });
  } else {
    map<int64_t>(call, out, [&](int64_t a, int64_t b, int64_t c) { return eval_scalar(op, dtype, a, b, c); });
  }
  return out;
}

}  // namespace fusec::ir
