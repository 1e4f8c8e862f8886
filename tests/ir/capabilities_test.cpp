// SPDX-License-Identifier: Apache-2.0
#include "ir/library/capabilities.h"

#include <gtest/gtest.h>

#include <set>

namespace fusec::ir {
namespace {

TEST(Roles, EveryInputOfAnAnchorHasOne) {
  for (const TensorOpInfo& row : all_tensor_ops()) {
    const std::vector<Role> roles = roles_of(*find_tensor_op(row.name));
    EXPECT_EQ(roles.size(), row.kind == OpPattern::anchor ? static_cast<std::size_t>(row.max_inputs) : 0) << row.name;
    EXPECT_EQ(std::set<Role>(roles.begin(), roles.end()).size(), roles.size()) << row.name << " has a role twice";
    std::string text;
    for (const Role role : roles) text += (text.empty() ? "" : " ") + std::string(to_string(role));
    EXPECT_EQ(text, row.roles);
  }
  EXPECT_TRUE(is_product(TensorOp::conv) && is_product(TensorOp::matmul));
  EXPECT_FALSE(is_product(TensorOp::max_pool) || is_product(TensorOp::reshape));
}

// Every op that a model may have is left to a library that has it, or is decomposed.
TEST(Capabilities, NamedTargetsHaveLibraries) {
  for (const std::string& name : target_names()) {
    const Target target = *named_target(name);
    const auto libraries = libraries_of(target);
    ASSERT_EQ(libraries.size(), 2U) << name;
    for (const TensorOp op : {TensorOp::conv, TensorOp::matmul, TensorOp::avg_pool, TensorOp::max_pool}) {
      EXPECT_TRUE(std::any_of(libraries.begin(), libraries.end(), [&](const auto* library) {
        return !unsupported_reason(*library, op, DType::f32);
      })) << name;
    }
    EXPECT_EQ(target.keeps_rows, target.kind == TargetKind::cpu);
  }
  EXPECT_TRUE(libraries_of(Target{}).empty());
}

TEST(Capabilities, ReasonsNameTheLibraryOrTheType) {
  const LibraryCapabilities& cudnn = library_capabilities("cudnn");
  EXPECT_EQ(unsupported_reason(cudnn, TensorOp::matmul, DType::f32), "cuDNN is not asked for matmul");
  EXPECT_EQ(unsupported_reason(cudnn, TensorOp::conv, DType::i32), "no arithmetic in i32");
  EXPECT_EQ(unsupported_reason(library_capabilities("plain"), TensorOp::conv, DType::i32), std::nullopt);
}

TEST(Capabilities, Pools) {
  const PoolLimits limits = library_capabilities("cudnn").pool;
  PoolAxis axis{12, 10, 5, 1, 1, 1, 1};
  EXPECT_EQ(unsupported_reason(limits, axis, false, false), nullptr);
  EXPECT_STREQ(unsupported_reason(limits, {12, 4, 5, 1, 2, 0, 0}, false, false), "no dilations");
  axis.after = 2, axis.out = 11;
  EXPECT_STREQ(unsupported_reason(limits, axis, false, false), "both ends are padded alike");
  EXPECT_EQ(unsupported_reason(library_capabilities("onednn").pool, axis, false, false), nullptr);
  axis.in = Dim::symbol("H");
  EXPECT_STREQ(unsupported_reason(limits, axis, false, false), "both ends are padded alike");
}

TEST(Capabilities, Attention) {
  const LibraryCapabilities& cudnn = library_capabilities("cudnn");
  const auto reason = [&](const char* target, const AttentionShape& shape) {
    return unsupported_reason(cudnn, *named_target(target), shape);
  };
  EXPECT_EQ(reason("sm_90", {DType::f16, 64, 64, 100}), std::nullopt);
  EXPECT_EQ(reason("sm_80", {DType::bf16, 128, 8, 100}), std::nullopt);
  EXPECT_EQ(reason("sm_90", {DType::f16, 256, 256, 100}), std::nullopt);
  EXPECT_EQ(reason("sm_80", {DType::f16, 256, 256, 100}), "heads of 256 channels");
  EXPECT_EQ(reason("sm_100", {DType::f16, 64, 136, 100}), "heads of 136 channels");
  EXPECT_EQ(reason("sm_90", {DType::f16, 20, 64, 100}), "heads of 20 channels");
  EXPECT_EQ(reason("sm_90", {DType::f16, Dim::symbol("D"), 64, 100}), "heads of D channels");
  EXPECT_EQ(reason("sm_90", {DType::f32, 64, 64, 100}), "no attention in f32");
  EXPECT_EQ(reason("sm_90", {DType::f16, 64, 64, Dim::symbol("T")}), std::nullopt);
  EXPECT_EQ(reason("sm_90", {DType::f16, 64, 64, 104, true}), std::nullopt);
  EXPECT_EQ(reason("sm_90", {DType::f16, 64, 64, 259, true}), "a mask of 259 keys");
  EXPECT_EQ(reason("sm_90", {DType::f16, 64, 64, Dim::symbol("T"), true}), std::nullopt);
  EXPECT_EQ(reason("sm_75", {DType::f16, 64, 64, 100}), "no attention on sm_75");
  EXPECT_EQ(unsupported_reason(library_capabilities("plain"), *named_target("x86-64-v3"), {DType::f16, 64, 64, 100}),
            "no attention by the loops");
}

TEST(Capabilities, EpiloguesByOrderAndType) {
  const std::vector<ScalarOp> none, relu{ScalarOp::relu}, add{ScalarOp::add};
  const EpilogueLimits& gpu = library_capabilities("cudnn").epilogues;
  const EpilogueLimits& host = library_capabilities("onednn").epilogues;
  EXPECT_TRUE(fuses(gpu, ScalarOp::add, DType::f16, none) && fuses(gpu, ScalarOp::relu, DType::f16, add));
  EXPECT_FALSE(fuses(gpu, ScalarOp::relu, DType::f64, none));
  EXPECT_FALSE(fuses(gpu, ScalarOp::add, DType::f32, relu) || fuses(gpu, ScalarOp::add, DType::f32, add));
  EXPECT_FALSE(fuses(gpu, ScalarOp::relu, DType::f32, relu) || fuses(gpu, ScalarOp::sigmoid, DType::f32, none));
  EXPECT_TRUE(fuses(host, ScalarOp::sub, DType::f32, relu) && fuses(host, ScalarOp::relu, DType::i32, relu));
  EXPECT_FALSE(fuses(host, ScalarOp::gelu, DType::f32, none));
}

TEST(Capabilities, LoneEpilogues) {
  const std::vector<ScalarOp> none, add{ScalarOp::add}, gelu{ScalarOp::gelu_tanh};
  const EpilogueLimits& limits = library_capabilities("cublaslt").epilogues;
  for (const DType dtype : {DType::f16, DType::bf16}) EXPECT_TRUE(fuses(limits, ScalarOp::gelu_tanh, dtype, none));
  EXPECT_FALSE(fuses(limits, ScalarOp::gelu_tanh, DType::f32, none));
  EXPECT_FALSE(fuses(limits, ScalarOp::gelu_tanh, DType::f16, add) || fuses(limits, ScalarOp::add, DType::f16, gelu));
  EXPECT_FALSE(fuses(limits, ScalarOp::relu, DType::f16, gelu));
  EXPECT_TRUE(has_epilogue(limits, ScalarOp::gelu_tanh, false) && has_epilogue(limits, ScalarOp::relu, false));
  EXPECT_FALSE(has_epilogue(library_capabilities("cudnn").epilogues, ScalarOp::gelu_tanh, false));
}

}  // namespace
}  // namespace fusec::ir
