// SPDX-License-Identifier: Apache-2.0
// The small public vocabulary: status, dtypes, shapes, tensors, targets.
#include "fusec/target.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {
namespace {

TEST(Status, OneLine) {
  const Status s = Status(StatusCode::unsupported, "no rule for op 'Foo'").with_note("while importing node 'x'");
  EXPECT_EQ(s.str(), "unsupported: no rule for op 'Foo'; while importing node 'x'");
  Status again = s;
  again = std::move(again).with_note("in y");  // its own target
  EXPECT_EQ(again.str(), s.str() + "; in y");
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().str(), "ok");
}

Result<int> half(int v) {
  if (v % 2) return Status(StatusCode::invalid_argument, "odd");
  return v / 2;
}
Result<int> quarter(int v) {
  FUSEC_ASSIGN(const int h, half(v));
  return half(h);
}
Status check_even(int v) {
  FUSEC_TRY(half(v).status());
  return Status();
}

TEST(Status, Macros) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "odd");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_FALSE(check_even(3).ok());
}

TEST(DType, TextAndSizes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(t)), t);
  }
  EXPECT_EQ(parse_dtype("f17"), std::nullopt);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::u64), 8u);
  EXPECT_EQ(size_of(DType::bool_), 1u);
}

TEST(Shape, Strides) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(to_string(Shape{n, 3, 224}), "[N, 3, 224]");
  EXPECT_EQ(to_string(contiguous_strides({n, 3, 224})), "[672, 224, 1]");
  EXPECT_EQ(to_string(contiguous_strides({3, n})), "[N, 1]");
  EXPECT_EQ(num_elements({}), Dim(1));
  EXPECT_EQ(num_elements({n, 2, n}).str(), "2*N*N");
  EXPECT_EQ(num_elements({INT64_MAX, INT64_MAX, 0}), Dim(0));
  EXPECT_FALSE(is_const(Shape{n}));
}

TEST(Tensor, OwnedMemory) {
  const Result<Tensor> t = Tensor::make(DType::f32, {2, 3});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->strides(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(t->bytes(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t->data()) % 64, 0u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->as<float>()[i], 0);
  EXPECT_EQ(Tensor::make(DType::f32, {-1}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(Tensor::make(DType::f32, {INT64_MAX, 2}).status().code(), StatusCode::invalid_argument);
#ifndef __SANITIZE_ADDRESS__  // whose allocator ends the program instead
  EXPECT_EQ(Tensor::make(DType::u8, {int64_t{1} << 50}).status().code(), StatusCode::out_of_memory);
#endif
  EXPECT_TRUE(Tensor::make(DType::f32, {INT64_MAX, INT64_MAX, 0}).ok());
}

TEST(Tensor, BorrowedMemory) {
  float data[6] = {};
  EXPECT_TRUE(Tensor::borrow(DType::f32, {2, 3}, data).is_contiguous());
  EXPECT_FALSE(Tensor::borrow(DType::f32, {3, 2}, data, {1, 3}).is_contiguous());
  EXPECT_FALSE(Tensor::borrow(DType::f32, {4}, data, {0}).is_contiguous());
  EXPECT_TRUE(Tensor::borrow(DType::f32, {1, 3}, data, {77, 1}).is_contiguous());
  EXPECT_EQ(Tensor::borrow(DType::f32, {4, 0}, data).num_elements(), 0);
}

TEST(Target, Named) {
  const Target v3 = *named_target("x86-64-v3"), v4 = *named_target("x86-64-v4");
  EXPECT_EQ(v3.vector_bytes, 32);
  EXPECT_TRUE(v3.has("avx2") && v3.has_f16c && !v3.has("avx512f"));
  EXPECT_TRUE(v4.has("avx512f") && v4.has("avx2") && v4.has("sse4.2"));
  EXPECT_EQ(named_target("x86-64-v2")->vector_bytes, 16);
  EXPECT_EQ(named_target("m68k").status().code(), StatusCode::invalid_argument);
}

TEST(Target, CodegenKey) {
  Target a = *named_target("x86-64-v3");
  const std::string key = codegen_key(a);
  a.threads = 7;
  a.model.memory_copy = {1};
  EXPECT_EQ(codegen_key(a), key);
  a.features.push_back("zzz");
  EXPECT_NE(codegen_key(a), key);
  EXPECT_NE(codegen_key(*named_target("x86-64-v4")), key);
}

}  // namespace
}  // namespace fusec
