// SPDX-License-Identifier: Apache-2.0
// The twelve kernels of tests/text/kernel against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "tests/text/kernel_cases.h"

namespace fusec::text_test {
namespace {

// A parameter in double, row-major.
struct Array {
  std::vector<double> v;
  std::vector<int64_t> shape;
  std::size_t size(std::size_t axis) const { return static_cast<std::size_t>(shape[axis]); }
  double& at(std::size_t i, std::size_t j) { return v[i * size(1) + j]; }
};

Array make_array(const Tensor& t) {
  Array out{{}, t.shape()};
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    out.v.push_back(ir::load_double(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()))));
  }
  return out;
}

// p: the parameters before the run. Outputs are overwritten with what is expected.
using Reference = std::function<void(std::vector<Array>& p)>;

void expect_matches(const std::string& file, double tolerance, const Reference& reference) {
  std::ifstream stream(std::string(FUSEC_SOURCE_DIR) + "/tests/text/kernel/" + file + ".fir");
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  text = text.substr(text.find('\n') + 1);
  text = text.substr(0, text.find("\n====\n"));
  auto c = parse_kernel_case(text);
  ASSERT_TRUE(c.ok()) << c.status().str();
  std::vector<Array> expected;
  for (const Tensor& t : c->args) expected.push_back(make_array(t));
  reference(expected);
  const auto done = ir::evaluate(c->kernel, c->args, c->extents);
  ASSERT_TRUE(done.ok()) << done.status().str();
  for (std::size_t p = 0; p < c->args.size(); ++p) {
    const Array got = make_array(c->args[p]);
    for (std::size_t i = 0; i < got.v.size(); ++i) {
      ASSERT_NEAR(got.v[i], expected[p].v[i], tolerance)
          << c->kernel.buffers[c->kernel.params[p]].name << " element " << i;
    }
  }
}

void softmax_rows(const Array& x, Array& y) {
  const std::size_t n = x.size(1);
  for (std::size_t r = 0; r < x.size(0); ++r) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += std::exp(x.v[r * n + j]);
    for (std::size_t j = 0; j < n; ++j) y.v[r * n + j] = std::exp(x.v[r * n + j]) / sum;
  }
}

void normalize(double* row, std::size_t n) {
  double mean = 0, variance = 0;
  for (std::size_t j = 0; j < n; ++j) mean += row[j] / static_cast<double>(n);
  for (std::size_t j = 0; j < n; ++j) variance += (row[j] - mean) * (row[j] - mean) / static_cast<double>(n);
  for (std::size_t j = 0; j < n; ++j) row[j] = (row[j] - mean) / std::sqrt(variance + 1e-5);
}

TEST(KernelReference, Hswish) {
  expect_matches("hswish", 1e-6, [](auto& p) {
    for (std::size_t i = 0; i < p[0].v.size(); ++i) {
      p[1].v[i] = p[0].v[i] * std::clamp(p[0].v[i] + 3, 0.0, 6.0) / 6;
    }
  });
}

TEST(KernelReference, Softmax) {
  expect_matches("softmax", 2e-4, [](auto& p) { softmax_rows(p[0], p[1]); });
  expect_matches("softmax_long", 1e-7, [](auto& p) { softmax_rows(p[0], p[1]); });
  expect_matches("softmax_coop", 1e-7, [](auto& p) { softmax_rows(p[0], p[1]); });
}

TEST(KernelReference, Layernorm) {
  expect_matches("layernorm", 2e-6, [](auto& p) {
    p[3].v = p[0].v;
    for (std::size_t r = 0; r < 3; ++r) {
      normalize(&p[3].v[16 * r], 16);
      for (std::size_t j = 0; j < 16; ++j) p[3].at(r, j) = p[3].at(r, j) * p[1].v[j] + p[2].v[j];
    }
  });
}

TEST(KernelReference, Transpose) {
  expect_matches("transpose", 0, [](auto& p) {
    for (std::size_t i = 0; i < p[0].size(0); ++i) {
      for (std::size_t j = 0; j < p[0].size(1); ++j) p[1].at(j, i) = p[0].at(i, j);
    }
  });
}

TEST(KernelReference, Colsum) {
  expect_matches("colsum", 1e-5, [](auto& p) {
    for (std::size_t i = 0; i < p[0].size(0); ++i) {
      for (std::size_t j = 0; j < p[0].size(1); ++j) p[1].v[j] += p[0].at(i, j);
    }
  });
}

TEST(KernelReference, Argmax) {
  expect_matches("argmax", 0, [](auto& p) {
    const std::size_t n = p[0].size(1);
    for (std::size_t r = 0; r < p[0].size(0); ++r) {
      const double* row = &p[0].v[r * n];
      p[1].v[r] = static_cast<double>(std::max_element(row, row + n) - row);
    }
  });
}

TEST(KernelReference, Cumsum) {
  expect_matches("cumsum", 1e-5, [](auto& p) {
    for (std::size_t r = 0; r < p[0].size(0); ++r) {
      double sum = 0;
      for (std::size_t j = 0; j < p[0].size(1); ++j) p[1].at(r, j) = sum += p[0].at(r, j);
    }
  });
}

TEST(KernelReference, GatherAdd) {
  expect_matches("gather_add", 2e-6, [](auto& p) {
    for (std::size_t r = 0; r < p[0].v.size(); ++r) {
      const auto id = static_cast<std::size_t>(p[0].v[r] < 0 ? p[0].v[r] + 5 : p[0].v[r]);
      for (std::size_t j = 0; j < 16; ++j) p[3].at(r, j) = p[1].at(id, j) + p[2].at(r, j);
      normalize(&p[3].v[16 * r], 16);
    }
  });
}

TEST(KernelReference, Depthwise) {
  expect_matches("depthwise", 4e-3, [](auto& p) {
    const std::size_t h = p[0].size(1), w = p[0].size(2);
    for (std::size_t i = 0; i < h * w * 8; ++i) {
      const std::size_t c = i % 8, q = i / 8 % w, row = i / 8 / w;
      double sum = p[2].v[c];
      for (std::size_t k = 0; k < 9; ++k) {
        const std::size_t y = row + k / 3 - 1, x = q + k % 3 - 1;
        if (y < h && x < w) sum += p[0].v[(y * w + x) * 8 + c] * p[1].v[k * 8 + c];
      }
      p[3].v[i] = std::clamp(sum, 0.0, 6.0);
      p[4].v[row * 8 + c] += p[3].v[i];
    }
  });
}

TEST(KernelReference, Skinny) {
  expect_matches("skinny", 2e-2, [](auto& p) {
    for (std::size_t i = 0; i < p[3].size(0); ++i) {
      for (std::size_t j = 0; j < p[3].size(1); ++j) {
        double sum = p[2].v[j];
        for (std::size_t k = 0; k < p[0].size(1); ++k) sum += p[0].at(i, k) * p[1].at(j, k);
        p[3].at(i, j) = std::max(sum, 0.0);
      }
    }
  });
}

TEST(KernelReference, Attention) {
  expect_matches("attention", 2e-3, [](auto& p) {
    Array scores{std::vector<double>(8 * 16), {8, 16}}, weights = scores;
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::size_t j = 0; j < 16; ++j) {
        for (std::size_t d = 0; d < 8; ++d) scores.at(i, j) += p[0].at(i, d) * p[1].at(j, d);
      }
    }
    softmax_rows(scores, weights);
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::size_t d = 0; d < 8; ++d) {
        for (std::size_t j = 0; j < 16; ++j) p[3].at(i, d) += weights.at(i, j) * p[2].at(j, d);
      }
    }
  });
}

ir::Kernel one_load(uint32_t clamp, int64_t offset) {
  ir::Kernel k;
  const ir::VarId var = ir::add_var(k);
  const auto n = ir::IndexExpr::symbol(k.extents.push_back("n")), i = ir::IndexExpr::symbol(var);
  const auto ids = ir::add_buffer(k, {"ids", ir::Space::in, DType::i64, {n}, {}, 0, ""});
  const auto x = ir::add_buffer(k, {"x", ir::Space::in, DType::f32, {4}, {}, 0, ""});
  const auto y = ir::add_buffer(k, {"y", ir::Space::out, DType::f32, {n}, {}, 0, ""});
  const auto v0 = ir::add_reg(k, DType::i64), v1 = ir::add_reg(k, DType::f32);
  ir::Loop loop{{ir::LoopTag::grid, var, n}, {}};
  loop.body.push_back({ir::Load{v0, ids, {i}, {}, {}, 0}});
  loop.body.push_back({ir::Load{v1, x, {ir::IndexExpr::symbol(v0) + offset}, {}, {}, clamp}});
  loop.body.push_back({ir::Store{y, {i}, v1, {}, ir::StoreHint::none}});
  k.body.push_back({std::move(loop)});
  return k;
}

TEST(KernelEvaluate, DataIndicesWrapAndClamp) {
  int64_t ids[] = {0, -1, 3, 7, -9};
  float x[] = {10, 11, 12, 13}, y[5] = {};
  const std::vector<Tensor> args = {Tensor::borrow(DType::i64, {5}, ids), Tensor::borrow(DType::f32, {4}, x),
                                    Tensor::borrow(DType::f32, {5}, y)};
  const auto done = ir::evaluate(one_load(1, 0), args, {{"n", 5}});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(done.status().message().find("index 7 is out of range for axis 0 of x"), std::string::npos);
  EXPECT_EQ(std::vector<float>(y, y + 5), (std::vector<float>{10, 13, 13, 13, 10}));
}

TEST(KernelEvaluate, AccessesOutOfRangeAndMisfitsAreErrors) {
  int64_t ids[] = {0};
  float x[] = {10, 11, 12, 13}, y[1] = {};
  std::vector<Tensor> args = {Tensor::borrow(DType::i64, {1}, ids), Tensor::borrow(DType::f32, {4}, x),
                              Tensor::borrow(DType::f32, {1}, y)};
  EXPECT_EQ(ir::evaluate(one_load(0, 4), args, {{"n", 1}}).status().code(), StatusCode::internal);
  EXPECT_EQ(ir::evaluate(one_load(0, 0), args, {}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(ir::evaluate(one_load(0, 0), args, {{"n", 2}}).status().code(), StatusCode::invalid_argument);
  args[1] = Tensor::borrow(DType::f64, {4}, x);
  EXPECT_EQ(ir::evaluate(one_load(0, 0), args, {{"n", 1}}).status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace fusec::text_test
