// SPDX-License-Identifier: Apache-2.0
// A LibraryStep with random operands, and what it should give by double loops over the views.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ir/ops/cast.h"
#include "ir/ops/reference.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::testing {

using Extents = std::vector<int64_t>;

struct AlignedFree {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, AlignedFree>;

inline Memory allocate(std::size_t bytes) { return Memory(std::aligned_alloc(64, (bytes + 127) / 64 * 64)); }

inline Extents row_major(const Extents& shape) {
  Extents strides(shape.size());
  int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0; dense *= shape[i]) strides[i] = dense;
  return strides;
}

inline int64_t count(const Extents& shape) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

// Calls f for all coordinates within `shape`.
template <class F>
void for_all(const Extents& shape, const F& f) {
  Extents at(shape.size(), 0);
  for (int64_t i = 0, n = count(shape); i < n; ++i) {
    f(at);
    for (std::size_t axis = shape.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
}

struct Case {
  std::shared_ptr<ir::LibraryStep> step = std::make_shared<ir::LibraryStep>();
  LibraryCall call;
  std::vector<Memory> memory;
  std::vector<int64_t> elements;
  uint64_t random = 1;
  bool may_drop_nan = false;  // 0 is right, too, where NaN is: a library's relu in precise numerics

  explicit Case(ir::TensorOp op, ir::Attrs attrs, int threads = 2) {
    step->op = op;
    step->attrs = std::move(attrs);
    call.step = step.get();
    call.threads = threads;
  }

  double next() {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(static_cast<int64_t>(random >> 33) - (1LL << 30)) / (1LL << 30);
  }

  // Adds an argument with random elements in (-1, 1) (integers -9 .. 9) and returns its index. The output is added
  // last.
  int add(Extents shape, Extents strides = {}, bool constant = false, DType dtype = DType::f32) {
    if (strides.empty()) strides = row_major(shape);
    int64_t last = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) last += std::max<int64_t>(shape[i] - 1, 0) * strides[i];
    elements.push_back(last + 1);
    memory.push_back(allocate(static_cast<std::size_t>(last + 1) * size_of(dtype)));
    for (int64_t i = 0; i <= last; ++i) {
      const double x = next();
      ir::store_double(dtype, static_cast<char*>(memory.back().get()) + i * static_cast<int64_t>(size_of(dtype)),
                       is_float(dtype) ? x : std::floor(x * 9));
    }
    BoundArg arg{dtype, std::move(shape), std::move(strides), nullptr};
    if (constant) arg.constant = memory.back().get();
    call.args.push_back(std::move(arg));
    ir::View view;
    view.alloc = ir::AllocId{static_cast<uint32_t>(step->args.size())};
    step->args.push_back(view);
    return static_cast<int>(call.args.size()) - 1;
  }

  void epilogue(ir::ScalarOp op, int operand = -1, double alpha = 0, double beta = 0) {
    step->epilogues.push_back({op, operand, alpha, beta});
  }

  void* at(std::size_t arg, int64_t offset) const {
    return static_cast<char*>(memory[arg].get()) + offset * static_cast<int64_t>(size_of(call.args[arg].dtype));
  }
  double get(std::size_t arg, const Extents& index) const {
    int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * call.args[arg].strides[i];
    return ir::load_double(call.args[arg].dtype, at(arg, offset));
  }
  // The element of a broadcast operand, right-aligned.
  double get_broadcast(std::size_t arg, const Extents& index) const {
    const Extents& shape = call.args[arg].shape;
    Extents own(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = shape[i] == 1 ? 0 : own[i];
    return get(arg, own);
  }
};

struct Expected {
  double value = 0, magnitude = 0;  // magnitude: sum of |products|
};

inline Expected expected_conv(const Case& c, const Extents& at) {
  const ir::Attrs& attrs = c.step->attrs;
  const bool last = attrs.s("layout") == "last";
  const std::size_t axes = at.size() - 2, channel = last ? at.size() - 1 : 1, first = last ? 1 : 2;
  const Extents &filter = c.call.args[1].shape, &in = c.call.args[0].shape;
  const int64_t group = at[channel] / (filter[0] / attrs.i("groups"));
  const Extents &strides = attrs.ints("strides"), &dilations = attrs.ints("dilations"), &pads = attrs.ints("pads");
  Expected e;
  Extents x(at.size()), w(filter.size());
  x[0] = at[0];
  w[0] = at[channel];
  for_all({filter.begin() + 1, filter.end()}, [&](const Extents& k) {
    x[channel] = group * filter[1] + k[0];
    for (std::size_t i = 0; i < axes; ++i) {
      x[first + i] = at[first + i] * strides[i] + k[1 + i] * dilations[i] - pads[i];
      if (x[first + i] < 0 || x[first + i] >= in[first + i]) return;
    }
    std::copy(k.begin(), k.end(), w.begin() + 1);
    const double term = c.get(0, x) * c.get(1, w);
    e.value += term;
    e.magnitude += std::fabs(term);
  });
  return e;
}

inline Expected expected_pool(const Case& c, const Extents& at) {
  const ir::Attrs& attrs = c.step->attrs;
  const bool last = attrs.s("layout") == "last", is_max = c.step->op == ir::TensorOp::max_pool;
  const std::size_t axes = at.size() - 2, first = last ? 1 : 2;
  const Extents& in = c.call.args[0].shape;
  const Extents &strides = attrs.ints("strides"), &dilations = attrs.ints("dilations"), &pads = attrs.ints("pads");
  const bool counts_pads = !is_max && attrs.i("count_include_pad") == 1;
  double sum = 0, magnitude = 0, best = -INFINITY, places = 0;
  Extents x = at;
  for_all(attrs.ints("kernel"), [&](const Extents& k) {
    bool inside = true, padded = true;
    for (std::size_t i = 0; i < axes; ++i) {
      int64_t& p = x[first + i];
      p = at[first + i] * strides[i] + k[i] * dilations[i] - pads[i];
      inside = inside && p >= 0 && p < in[first + i];
      padded = padded && p < in[first + i] + pads[axes + i];
    }
    if (inside) {
      const double v = c.get(0, x);
      sum += v;
      magnitude += std::fabs(v);
      best = ir::eval_scalar(ir::ScalarOp::max, best, v);
    }
    if (inside || (counts_pads && padded)) places += 1;
  });
  const double value = is_max ? best : places == 0 ? 0 : sum / places;
  return {value, std::isfinite(value) ? magnitude : 0};
}

inline Expected expected_matmul(const Case& c, const Extents& at) {
  const Extents &a = c.call.args[0].shape, &b = c.call.args[1].shape;
  const bool ta = c.step->attrs.i("transpose_a") == 1 && a.size() > 1,
             tb = c.step->attrs.i("transpose_b") == 1 && b.size() > 1;
  Extents full = at;
  if (b.size() == 1) full.push_back(0);
  if (a.size() == 1) full.insert(full.end() - 1, 0);
  const Extents batch(full.begin(), full.end() - 2);
  const auto element = [&](std::size_t arg, int64_t row, int64_t column, bool transposed) {
    const Extents& shape = c.call.args[arg].shape;
    if (shape.size() == 1) return c.get(arg, {arg == 0 ? column : row});
    Extents index(batch.end() - static_cast<std::ptrdiff_t>(shape.size() - 2), batch.end());
    for (std::size_t i = 0; i < index.size(); ++i) index[i] = shape[i] == 1 ? 0 : index[i];
    index.push_back(transposed ? column : row);
    index.push_back(transposed ? row : column);
    return c.get(arg, index);
  };
  const int64_t depth = ta ? a[a.size() - 2] : a.back();
  Expected e;
  for (int64_t k = 0; k < depth; ++k) {
    const double term = element(0, full[full.size() - 2], k, ta) * element(1, k, full.back(), tb);
    e.value += term;
    e.magnitude += std::fabs(term);
  }
  return e;
}

// Without a mask.
inline Expected expected_attention(const Case& c, const Extents& at) {
  const Extents &q = c.call.args[0].shape, &k = c.call.args[1].shape;
  const int64_t head = at[1] / (q[1] / k[1]), keys = c.step->attrs.i("causal") == 1 ? at[2] + 1 + k[2] - q[2] : k[2];
  double weights = 0;
  Expected e;
  for (int64_t t = 0; t < keys; ++t) {
    double score = 0;
    for (int64_t d = 0; d < q[3]; ++d) score += c.get(0, {at[0], at[1], at[2], d}) * c.get(1, {at[0], head, t, d});
    const double weight = std::exp(score * c.step->attrs.f("scale")), value = c.get(2, {at[0], head, t, at[3]});
    weights += weight;
    e.value += weight * value;
    e.magnitude += weight * std::fabs(value);
  }
  return {e.value / weights, e.magnitude / weights};
}

inline double expected_value(const Case& c, const Extents& at, double* magnitude) {
  Expected e = c.step->op == ir::TensorOp::conv        ? expected_conv(c, at)
               : c.step->op == ir::TensorOp::matmul    ? expected_matmul(c, at)
               : c.step->op == ir::TensorOp::attention ? expected_attention(c, at)
                                                       : expected_pool(c, at);
  if (c.step->bias >= 0) {
    const std::size_t bias = static_cast<std::size_t>(c.step->bias);
    const bool first = c.step->op == ir::TensorOp::conv && c.step->attrs.s("layout") == "first";
    const double b = first ? c.get(bias, {at[1]}) : c.get_broadcast(bias, at);
    e.value += b;
    e.magnitude += std::fabs(b);
  }
  for (const ir::Epilogue& epilogue : c.step->epilogues) {
    double b = epilogue.alpha;
    if (epilogue.operand >= 0) {
      b = c.get_broadcast(static_cast<std::size_t>(epilogue.operand), at);
      e.magnitude = epilogue.op == ir::ScalarOp::mul   ? e.magnitude * std::fabs(b)
                    : epilogue.op == ir::ScalarOp::div ? e.magnitude / std::fabs(b)
                                                       : e.magnitude + std::fabs(b);
    }
    e.value = ir::eval_scalar(epilogue.op, e.value, b, epilogue.beta);
  }
  *magnitude = e.magnitude + std::fabs(e.value);
  return e.value;
}

// Runs the case on `library` (with the output's memory taking over argument `alias` if >= 0) and compares. Returns the
// implementation, or "unsupported: ..." when bind passes the call on.
inline std::string check(Library& library, Case& c, double tolerance = 3e-6, int alias = -1) {
  if (const auto reason = library.get_unsupported_reason(*c.step)) return "unsupported: " + *reason;
  auto op = library.bind(c.call);
  if (!op.ok()) {
    EXPECT_EQ(op.status().code(), StatusCode::unsupported) << op.status().str();
    return op.status().str();
  }
  const std::size_t out = c.call.args.size() - 1;
  std::vector<double> want;
  std::vector<double> bound;
  const Extents& shape = c.call.args[out].shape;
  for_all(shape, [&](const Extents& at) {
    double magnitude = 0;
    const double value = expected_value(c, at, &magnitude);
    // Past the range of the type it is infinite.
    std::array<char, 8> stored;
    ir::store_double(c.call.args[out].dtype, stored.data(), value);
    const double rounded = ir::load_double(c.call.args[out].dtype, stored.data());
    want.push_back(std::isinf(rounded) ? rounded : value);
    bound.push_back(tolerance * (magnitude + 1e-3));
  });
  // Elements of the output's memory that lie outside the view must stay.
  const DType dtype = c.call.args[out].dtype;
  for (int64_t i = 0; i < c.elements[out]; ++i) ir::store_double(dtype, c.at(out, i), 77);
  std::vector<void*> args;
  for (const Memory& m : c.memory) args.push_back(m.get());
  const Memory workspace = allocate((*op)->workspace_bytes());
  if (alias >= 0) {
    const std::vector<int> offered = (*op)->may_alias();
    EXPECT_NE(std::find(offered.begin(), offered.end(), alias), offered.end()) << (*op)->implementation();
    args[out] = args[static_cast<std::size_t>(alias)];
  }
  const Status status = (*op)->run(args.data(), workspace.get(), {c.call.threads});
  EXPECT_TRUE(status.ok()) << status.str();
  if (alias >= 0)
    std::memcpy(c.memory[out].get(), args[out], static_cast<std::size_t>(c.elements[out]) * size_of(dtype));
  std::size_t i = 0;
  int wrong = 0;
  for_all(shape, [&](const Extents& at) {
    const double got = c.get(out, at);
    const bool near = std::isfinite(bound[i]) && std::fabs(got - want[i]) <= bound[i];  // an infinity is near nothing
    const bool same = std::isnan(want[i]) ? std::isnan(got) || (c.may_drop_nan && got == 0) : got == want[i] || near;
    if (!same && wrong++ == 0) {
      ADD_FAILURE() << (*op)->implementation() << ": element " << ::testing::PrintToString(at) << " is " << got
                    << ", not " << want[i] << " (allowed " << bound[i] << ")";
    }
    int64_t offset = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * c.call.args[out].strides[axis];
    ir::store_double(dtype, c.at(out, offset), 77);
    ++i;
  });
  if (alias < 0) {
    for (int64_t j = 0; j < c.elements[out]; ++j) {
      if (ir::load_double(dtype, c.at(out, j)) != 77) {
        ADD_FAILURE() << (*op)->implementation() << " wrote outside the output at element " << j;
        break;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  return (*op)->implementation();
}

}  // namespace fusec::runtime::testing
