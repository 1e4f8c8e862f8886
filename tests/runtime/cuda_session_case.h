// SPDX-License-Identifier: Apache-2.0
// A chain of launches on the fake GPU, and tensors of the host and of that GPU.
#pragma once
#if FUSEC_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fusec/device.h"
#include "fusec/session.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::runtime_test::session {

inline constexpr Device kGpu{TargetKind::cuda, 0};

// y = x + steps, one launch per step.
inline ProgramBuilder chain(int steps = 1, std::vector<std::pair<int, int>> alias = {}) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, std::move(alias), 0, false, {}});
  ir::AllocId from = x;
  for (int i = 0; i < steps; ++i) {
    const ir::AllocId to = i + 1 < steps ? b.temporary() : y;
    b.launch(k, {flat(from), flat(to)}, "step" + std::to_string(i));
    from = to;
  }
  return b;
}

inline std::vector<float> iota(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

inline Tensor host(const std::vector<float>& values) {
  Tensor t = *Tensor::make(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}
inline Tensor on_gpu(const std::vector<float>& values) {
  Tensor t = *make_tensor(kGpu, DType::f32, {static_cast<int64_t>(values.size())});
  EXPECT_TRUE(copy(host(values), t).ok());
  return t;
}
inline std::vector<float> copy_values(const Tensor& t) {
  Tensor h = *Tensor::make(t.dtype(), t.shape());
  EXPECT_TRUE(copy(t, h).ok());
  return {h.as<float>(), h.as<float>() + h.num_elements()};
}
inline std::vector<float> plus(std::vector<float> values, float by) {
  for (float& v : values) v += by;
  return values;
}
inline Status run(Session& session, const Tensor& x, Tensor& y) {
  return session.run(std::span(&x, 1), std::span(&y, 1));
}

}  // namespace fusec::runtime_test::session
#endif
