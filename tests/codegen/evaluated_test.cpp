// SPDX-License-Identifier: Apache-2.0
// Kernels that a build without LLVM leaves to the evaluator: from the kernel to the artifact, and back to a function.
#include "codegen/artifact/evaluated.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ir/text/kernel_text.h"

namespace fusec::codegen {
namespace {

constexpr const char* kDouble =
    "kernel @double(%x: in f32[n], %y: out f32[n]) {\n"
    "  grid i0 in n {\n"
    "    v0: f32 = load x[i0]\n"
    "    v1: f32 = add v0, v0\n"
    "    store y[i0], v1\n"
    "  }\n"
    "}\n";

TEST(Evaluated, RunsWhatTheArtifactHolds) {
  const Result<ir::Kernel> kernel = ir::parse_kernel(kDouble);
  ASSERT_TRUE(kernel.ok()) << kernel.status().str();
  const Artifact artifact = make_evaluated(*kernel);
  EXPECT_TRUE(is_evaluated(artifact));
  EXPECT_FALSE(is_evaluated(Artifact()));
  const Result<EvaluatedKernel> loaded = load_evaluated(artifact);
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  std::vector<float> x{1, 2.5f, -3}, y(3, 0.0f);
  const std::array<void*, 2> buffers{x.data(), y.data()};
  const int64_t n = 3;
  const void* const externs = loaded->kernel.get();
  int32_t status = 0;
  const HostArgs args{buffers.data(), &n, &externs, &status};
  loaded->function(&args, 0, 1, nullptr);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(y, (std::vector<float>{2, 5, -6}));
}

TEST(Evaluated, RefusesWhatIsNoKernel) {
  Artifact artifact = make_evaluated(*ir::parse_kernel(kDouble));
  artifact.image.resize(artifact.image.size() / 2);
  EXPECT_EQ(load_evaluated(artifact).status().code(), StatusCode::invalid_model);
}

}  // namespace
}  // namespace fusec::codegen
