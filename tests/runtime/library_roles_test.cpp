// SPDX-License-Identifier: Apache-2.0
// A call of four operands: a library finds query, key, value and mask by role.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/library/interface/problem.h"
#include "tests/runtime/library_case.h"

namespace fusec::runtime {
namespace {

using testing::Case;
using testing::Extents;

constexpr Role kRoles[] = {Role::query, Role::key, Role::value, Role::mask};

double load(const CallOperand& o, void* const* args, const Extents& at) {
  int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * o.strides[i];
  return static_cast<const float*>(args[o.arg])[offset];
}

// out[h, i, d] = sum over j of softmax over j (query[h, i, :] . key[h, j, :] + mask[i, j]) * value[h, j, d]
class FakeAttentionOp : public LibraryOp {
 public:
  explicit FakeAttentionOp(Problem problem) : problem_(std::move(problem)) {}

  Status run(void* const* args, void*, const ExecContext&) const override {
    const CallOperand &query = problem_[Role::query], &key = problem_[Role::key], &value = problem_[Role::value];
    const CallOperand &mask = problem_[Role::mask], &out = problem_[Role::output];
    const int64_t keys = key.dims[1], depth = query.dims[2];
    testing::for_all(out.dims, [&](const Extents& at) {
      double sum = 0, weights = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = load(mask, args, {at[1], j});
        for (int64_t d = 0; d < depth; ++d)
          score += load(query, args, {at[0], at[1], d}) * load(key, args, {at[0], j, d});
        weights += std::exp(score);
        sum += std::exp(score) * load(value, args, {at[0], j, at[2]});
      }
      int64_t offset = 0;
      for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * out.strides[i];
      static_cast<float*>(args[out.arg])[offset] = static_cast<float>(sum / weights);
    });
    return {};
  }
  std::string implementation() const override { return "fake"; }

 private:
  Problem problem_;
};

class FakeAttention : public Library {
 public:
  std::string name() const override { return "fake"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override { return std::nullopt; }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    Problem problem = normalize(call, kRoles);
    if (problem[Role::query].dims.back() != problem[Role::key].dims.back())
      return Status(StatusCode::unsupported, "heads of several depths");
    return std::unique_ptr<LibraryOp>(std::make_unique<FakeAttentionOp>(std::move(problem)));
  }
};

// The op stands for any whose operands need no change.
Case attention_case(int64_t depth_of_keys) {
  Case c(ir::TensorOp::concat, {});
  c.add({2, 3, 4});
  c.add({2, 5, depth_of_keys});
  c.add({2, 5, 6}, {6, 12, 1});  // heads side by side
  c.add({3, 5}, {0, 1});         // one row for all queries
  c.add({2, 3, 6});
  return c;
}

TEST(LibraryRoles, ACallOfFourOperands) {
  Case c = attention_case(4);
  const Problem problem = normalize(c.call, kRoles);
  ASSERT_EQ(problem.operands.size(), 5U);
  EXPECT_EQ(problem[Role::value].strides, (Extents{6, 12, 1}));
  EXPECT_EQ(problem[Role::mask].arg, 3);
  EXPECT_EQ(problem[Role::output].arg, 4);
  EXPECT_EQ(problem.find(Role::weight), nullptr);
  FakeAttention library;
  const auto op = library.bind(c.call);
  ASSERT_TRUE(op.ok()) << op.status().str();
  std::vector<void*> args;
  for (const testing::Memory& memory : c.memory) args.push_back(memory.get());
  ASSERT_TRUE((*op)->run(args.data(), nullptr, {}).ok());
  testing::for_all({2, 3, 6}, [&](const Extents& at) {
    double sum = 0, weights = 0;
    for (int64_t j = 0; j < 5; ++j) {
      double score = c.get(3, {at[1], j});
      for (int64_t d = 0; d < 4; ++d) score += c.get(0, {at[0], at[1], d}) * c.get(1, {at[0], j, d});
      weights += std::exp(score);
      sum += std::exp(score) * c.get(2, {at[0], j, at[2]});
    }
    EXPECT_NEAR(c.get(4, at), sum / weights, 1e-6);
  });
  Case uneven = attention_case(3);
  EXPECT_EQ(library.bind(uneven.call).status().message(), "heads of several depths");
}

TEST(LibraryRoles, OperandsChangeRolesAndGo) {
  Case c = attention_case(4);
  Problem problem = normalize(c.call, kRoles);
  problem.exchange(Role::query, Role::key);
  EXPECT_EQ(problem[Role::query].arg, 1);
  EXPECT_EQ(problem[Role::key].arg, 0);
  problem.put(Role::mask, problem[Role::key]);
  EXPECT_EQ(problem[Role::mask].arg, 0);
  EXPECT_EQ(problem.operands.size(), 5U);
  problem.erase(Role::mask);
  EXPECT_EQ(problem.find(Role::mask), nullptr);
}

}  // namespace
}  // namespace fusec::runtime
