// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/differential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "ir/text/kernel_text.h"
#include "tests/codegen/host_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

std::vector<int64_t> eval(const ir::Kernel& kernel, const ir::IndexShape& shape, const Extents& extents) {
  std::vector<int64_t> out;
  for (const ir::IndexExpr& e : shape) out.push_back(*named(kernel, e).eval(extents));
  return out;
}

// Elements from the first to the last that strides reach.
int64_t span(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

Tensor make_tensor(const ir::Kernel& kernel, const ir::Buffer& buffer, const Extents& extents) {
  const std::vector<int64_t> shape = eval(kernel, buffer.shape, extents),
                             strides = eval(kernel, buffer.strides, extents);
  if (strides.empty()) return Tensor::make(buffer.dtype, shape).value();
  auto memory = std::make_shared<Tensor>(Tensor::make(buffer.dtype, {span(shape, strides)}).value());
  Tensor view = Tensor::borrow(buffer.dtype, shape, memory->data(), strides);
  static std::vector<std::shared_ptr<Tensor>> kept;
  kept.push_back(memory);
  return view;
}

void fill(Tensor& t, std::mt19937_64& random, double lo, double hi) {
  const int64_t n = span(t.shape(), t.strides());
  for (int64_t i = 0; i < n; ++i) {
    char* at = t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()));
    const double x = std::uniform_real_distribution<double>(lo, hi)(random);
    if (is_float(t.dtype())) {
      ir::store_double(t.dtype(), at, x);
    } else {
      ir::store_int(t.dtype(), at,
                    t.dtype() == DType::bool_ ? static_cast<int64_t>(random() & 1) : static_cast<int64_t>(x));
    }
  }
}

// In units in the last place of the dtype at `want`.
double ulp_error(DType dtype, double got, double want, double least) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (got == want) return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  const int bits = dtype == DType::f64 ? 52 : dtype == DType::f32 ? 23 : dtype == DType::f16 ? 10 : 7;
  const int lowest = dtype == DType::f64 ? -1022 : dtype == DType::f16 ? -14 : -126;
  if (std::isinf(want) || std::isinf(got)) return INFINITY;
  const double size = std::max(std::fabs(want), least);
  const int exponent = size == 0 ? lowest : std::max(std::ilogb(size), lowest);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - bits);
}

// Worst error over the memory behind two tensors, gaps of strided ones included.
double compare(const Tensor& got, const Tensor& want, double least, int64_t& where) {
  double worst = 0;
  const int64_t n = span(got.shape(), got.strides());
  const auto size = static_cast<int64_t>(size_of(got.dtype()));
  for (int64_t i = 0; i < n; ++i) {
    const char *a = got.as<char>() + i * size, *b = want.as<char>() + i * size;
    double error = 0;
    if (is_float(got.dtype())) {
      error = ulp_error(got.dtype(), ir::load_double(got.dtype(), a), ir::load_double(got.dtype(), b), least);
    } else if (std::memcmp(a, b, static_cast<std::size_t>(size)) != 0) {
      error = INFINITY;
    }
    if (error > worst) where = i;
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace

std::vector<Tensor> make_args(const ir::Kernel& kernel, const Extents& extents, uint64_t seed, double lo, double hi) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> args;
  for (const ir::BufferId id : kernel.params) {
    args.push_back(make_tensor(kernel, kernel.buffers[id], extents));
    fill(args.back(), random, lo, hi);
  }
  return args;
}

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [from, to] : values) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

double expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const Expectation& expectation,
                    const std::string& who, std::string_view text) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    int64_t where = 0;
    const double error = compare(got[i], want[i], expectation.least, where);
    worst = std::max(worst, error);
    const auto at = static_cast<std::size_t>(where) * size_of(got[i].dtype());
    EXPECT_LE(error, expectation.ulp) << who << ", argument " << i << ", element " << where << ": "
                                      << ir::load_double(got[i].dtype(), got[i].as<char>() + at) << " for "
                                      << ir::load_double(want[i].dtype(), want[i].as<char>() + at) << "\n"
                                      << text;
  }
  return worst;
}

double expect_like_evaluator(std::string_view text, const Extents& extents, const Expectation& expectation) {
  const auto parsed = ir::parse_kernel(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().str();
  if (!parsed.ok()) return INFINITY;
  const ir::Kernel& kernel = *parsed;
  const std::vector<Tensor> want = make_args(kernel, extents, 7, expectation.lo, expectation.hi);
  const auto evaluated = ir::evaluate(kernel, want, extents);
  EXPECT_TRUE(evaluated.ok()) << evaluated.status().str() << "\n" << text;
  double worst = 0;
  for (const Target& target : usable_targets()) {
    const auto artifact = codegen_test::emit(kernel, target);
    EXPECT_TRUE(artifact.ok()) << target.name << ": " << artifact.status().str() << "\n" << text;
    if (!artifact.ok()) return INFINITY;
    const std::vector<Tensor> got = make_args(kernel, extents, 7, expectation.lo, expectation.hi);
    Loaded(*artifact).run(got, extents, kernel, expectation.splits);
    worst = std::max(worst, expect_close(got, want, expectation, target.name, text));
  }
  return worst;
}

}  // namespace fusec::codegen_test
