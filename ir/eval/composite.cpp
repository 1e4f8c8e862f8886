// SPDX-License-Identifier: Apache-2.0
// Evaluates composites as sequential programs: topk by a stable sort, scatters by updates applied one after another. A
// required pass decomposes these ops before partition; this file defines their meaning.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "ir/eval/combine.h"
#include "ir/eval/op_call.h"

namespace fusec::ir {
namespace {

// a > b; NaN is above all numbers and equal to itself.
template <class T>
bool is_above(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(b)) return false;
    if (std::isnan(a)) return true;
  }
  return a > b;
}

// Positions 0 ... n-1 of one line, best first.
template <class T>
std::vector<int64_t> sorted_positions(const std::vector<T>& line, bool largest) {
  std::vector<int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const T a = line[static_cast<std::size_t>(i)], b = line[static_cast<std::size_t>(j)];
    return largest ? is_above(a, b) : is_above(b, a);
  });
  return order;
}

}  // namespace

Result<Tensor> eval_topk(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  const Tensor& in = call.operand(0);
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  const int64_t extent = in.shape()[axis], k = call.shape[axis], inner = in.strides()[axis];
  const int64_t lines = product(call.shape, 0, axis) * product(call.shape, axis + 1, call.shape.size());
  visit_compute(in.dtype(), [&]<class T>(T) {
    std::vector<T> line(static_cast<std::size_t>(extent));
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t outer = i / inner, rest = i % inner;
      load_elements(in.dtype(), in.data(), outer * extent * inner + rest, inner, extent, line.data());
      const std::vector<int64_t> order = sorted_positions(line, call.attrs.i("largest") == 1);
      for (int64_t r = 0; r < k; ++r) {
        out.as<int64_t>()[(outer * k + r) * inner + rest] = order[static_cast<std::size_t>(r)];
      }
    }
  });
  return out;
}

namespace {

// The elements of a tensor under updates, in f64 or exact integers. Each is rounded to its dtype once, at the end. For
// bools, add and max are `or`, mul and min are `and`.
class Updated {
 public:
  Updated(const OpCall& call, Tensor& out) : call_(call), out_(out), reduction_(call.attrs.s("reduction")) {
    std::memcpy(out.data(), call.operand(0).data(), out.bytes());
    if (reduction_ == "none") return;
    for (int64_t i = 0; i < out.num_elements(); ++i) sums_.push_back(load_number(out.dtype(), at(out, i)));
  }

  // Applies element `from` of operand 2 to element `to`.
  void apply_update(int64_t from, int64_t to) {
    const Tensor& updates = call_.operand(2);
    if (reduction_ == "none") {
      std::memcpy(at(out_, to), at(updates, from), size_of(out_.dtype()));
      return;
    }
    Number& sum = sums_[static_cast<std::size_t>(to)];
    const Number args[] = {sum, load_number(updates.dtype(), at(updates, from))};
    sum = apply(combiner(), compute(), compute(), args, 2);
  }

  void finish() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      store_number(out_.dtype(), at(out_, static_cast<int64_t>(i)), rounded(out_.dtype(), sums_[i]));
    }
  }

 private:
  static char* at(Tensor& t, int64_t i) { return t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())); }
  static const char* at(const Tensor& t, int64_t i) {
    return t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()));
  }
  DType compute() const {
    if (is_float(out_.dtype())) return DType::f64;
    return out_.dtype() == DType::bool_ ? DType::u8 : out_.dtype();
  }
  ScalarOp combiner() const {
    const bool logic = out_.dtype() == DType::bool_;
    if (reduction_ == "add") return logic ? ScalarOp::max : ScalarOp::add;
    if (reduction_ == "mul") return logic ? ScalarOp::min : ScalarOp::mul;
    return reduction_ == "max" ? ScalarOp::max : ScalarOp::min;
  }

  const OpCall& call_;
  Tensor& out_;
  const std::string reduction_;
  std::vector<Number> sums_;
};

}  // namespace

Result<Tensor> eval_scatter_elements(const OpCall& call) {
  const auto axis = static_cast<std::size_t>(call.attrs.i("axis"));
  FUSEC_ASSIGN(const Extents indices, read_indices(call, [&](int64_t) { return call.shape[axis]; }));
  FUSEC_ASSIGN(Tensor out, call.make_result());
  Updated updated(call, out);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Extents to = unravel(static_cast<int64_t>(i), call.operand(1).shape());
    to[axis] = indices[i];
    updated.apply_update(static_cast<int64_t>(i), dot(to, out.strides()));
  }
  updated.finish();
  return out;
}

Result<Tensor> eval_scatter_nd(const OpCall& call) {
  const int64_t depth = call.operand(1).shape().back();
  const auto axis_of = [&](int64_t i) { return static_cast<std::size_t>(i % depth); };
  FUSEC_ASSIGN(const Extents indices, read_indices(call, [&](int64_t i) { return call.shape[axis_of(i)]; }));
  FUSEC_ASSIGN(Tensor out, call.make_result());
  Updated updated(call, out);
  const int64_t inner = product(call.shape, static_cast<std::size_t>(depth), call.shape.size());
  for (int64_t row = 0; row < static_cast<int64_t>(indices.size()) / depth; ++row) {
    int64_t to = 0;
    for (int64_t i = row * depth; i < (row + 1) * depth; ++i) {
      to = to * call.shape[axis_of(i)] + indices[static_cast<std::size_t>(i)];
    }
    for (int64_t i = 0; i < inner; ++i) updated.apply_update(row * inner + i, to * inner + i);
  }
  updated.finish();
  return out;
}

}  // namespace fusec::ir
