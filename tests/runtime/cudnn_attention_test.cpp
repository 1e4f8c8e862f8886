// SPDX-License-Identifier: Apache-2.0
// The attention that is asked of cuDNN, done by a fake of it on host memory, against double loops.
#include <gtest/gtest.h>

#if FUSEC_WITH_CUDA

#include <cmath>
#include <functional>

#include "runtime/library/cudnn/build.h"
#include "runtime/library/cudnn/cudnn.h"
#include "tests/runtime/cudnn_fake.h"
#include "tests/runtime/host_device_memory.h"
#include "tests/runtime/library_case.h"

namespace fusec::runtime::attention {
namespace {

using cudnn::AttentionSpec;
using cudnn::CudnnPlan;
using cudnn::TensorSpec;
using testing::Case;
using testing::Extents;
using testing::FakeWork;
using testing::for_all;
using testing::spec_load;
using testing::spec_store;

struct FakeBackend : cudnn::Backend {
  std::vector<AttentionSpec> specs;
  bool rejects = false;
  std::string has;      // the only named plan that it has
  bool is_old = false;  // no causal attention of other numbers of queries and keys

  using Plan = Result<std::unique_ptr<CudnnPlan>>;
  static Plan make(std::string name, std::size_t workspace, std::function<void(void* const*)> work) {
    return std::unique_ptr<CudnnPlan>(std::make_unique<FakeWork>(std::move(name), workspace, std::move(work)));
  }
  static Status no() { return Status(StatusCode::unsupported, "the fake objects"); }
  Result<std::vector<cudnn::CudnnPlanInfo>> conv_plans(const cudnn::ConvSpec&) override { return no(); }
  Result<std::vector<cudnn::CudnnPlanInfo>> attention_plans(const AttentionSpec& s) override {
    EXPECT_TRUE(s.plan.empty());
    return std::vector<cudnn::CudnnPlanInfo>{{"eng7"}, {"attention"}, {has}};
  }
  Plan conv(const cudnn::ConvSpec&) override { return no(); }
  Plan pool(const cudnn::PoolSpec&) override { return no(); }
  Plan epilogue(const cudnn::EpilogueSpec&, const TensorSpec&) override { return no(); }

  // As cuDNN demands it: rows of contiguous channels at multiples of 16 bytes.
  Plan attention(const AttentionSpec& s) override {
    if (rejects || (!s.plan.empty() && s.plan != has)) return no();
    if (is_old && s.causal && s.query.dims[2] != s.key.dims[2]) return no();
    specs.push_back(s);
    for (const TensorSpec* t : {&s.query, &s.key, &s.value, &s.out}) {
      EXPECT_EQ(t->strides[3], 1);
      EXPECT_EQ(t->alignment, 16);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(t->dims[i] == 1 || t->strides[i] % 8 == 0);
    }
    if (s.mask) {
      EXPECT_EQ(s.mask->strides[3], 1);
    }
    return make("attention", 256, [s](void* const* p) {
      const int64_t share = s.query.dims[1] / s.key.dims[1];
      for_all(s.out.dims, [&](const Extents& at) {
        double sum = 0, weights = 0;
        const int64_t keys = s.key.dims[2], stored = keys - s.query.dims[2];
        for (int64_t t = 0; t < (s.causal ? at[2] + 1 + stored : keys); ++t) {
          double score = 0;
          for (int64_t d = 0; d < s.key.dims[3]; ++d)
            score += spec_load(s.query, p[0], {at[0], at[1], at[2], d}) *
                     spec_load(s.key, p[1], {at[0], at[1] / share, t, d});
          score *= s.scale;
          if (s.mask) score += spec_load(*s.mask, p[3], {at[0], at[1], at[2], t});
          weights += std::exp(score);
          sum += std::exp(score) * spec_load(s.value, p[2], {at[0], at[1] / share, t, at[3]});
        }
        spec_store(s.out, p[s.mask ? 4 : 3], at, sum / weights);
      });
    });
  }

  Plan copy(const TensorSpec& from, const TensorSpec& to) override {
    return make("copy", 0, [from, to](void* const* p) {
      for_all(to.dims, [&](const Extents& at) { spec_store(to, p[1], at, spec_load(from, p[0], at)); });
    });
  }
  Plan fill(const TensorSpec& out, double value) override {
    return make("fill", 0, [out, value](void* const* p) {
      for_all(out.dims, [&](const Extents& at) { spec_store(out, p[0], at, value); });
    });
  }
};

// Queries of 4 heads and keys and values of 2, in 2 images; 3 queries, 5 keys, 16 channels.
struct Operands {
  Extents q = {2, 4, 3, 16}, k = {2, 2, 5, 16}, v = {2, 2, 5, 8}, out = {2, 4, 3, 8};
  Extents q_strides = {}, k_strides = {}, v_strides = {}, out_strides = {};
  Extents mask = {}, mask_strides = {};
  bool causal = false;
};

class CudnnAttention : public ::testing::Test {
 protected:
  static Case make_case(const Operands& o) {
    Case c(ir::TensorOp::attention, {{"scale", 0.25}, {"causal", int64_t{o.causal}}});
    c.add(o.q, o.q_strides, false, DType::f16);
    c.add(o.k, o.k_strides, false, DType::f16);
    c.add(o.v, o.v_strides, false, DType::f16);
    if (!o.mask.empty()) c.add(o.mask, o.mask_strides, false, DType::f16);
    c.add(o.out, o.out_strides, false, DType::f16);
    return c;
  }

  std::string run(const Operands& o) { return run(make_case(o)); }
  std::string run(const Case& c) {
    const auto library = make_cudnn_library({}, memory_, fake_);
    const auto op = library->bind(c.call);
    if (!op.ok()) return "unsupported: " + op.status().message();
    std::vector<void*> args;
    for (const testing::Memory& memory : c.memory) args.push_back(memory.get());
    std::vector<char> workspace((*op)->workspace_bytes());
    EXPECT_TRUE((*op)->run(args.data(), workspace.data(), {}).ok());
    const std::size_t out = c.call.args.size() - 1;
    const bool masked = out == 4, causal = c.call.step->attrs.i("causal") == 1;
    const Extents &k = c.call.args[1].shape, &q = c.call.args[0].shape;
    for_all(c.call.args[out].shape, [&](const Extents& at) {
      double sum = 0, weights = 0;
      for (int64_t t = 0; t < (causal ? at[2] + 1 + k[2] - q[2] : k[2]); ++t) {
        double score = 0;
        const int64_t head = at[1] / (q[1] / k[1]);
        for (int64_t d = 0; d < k[3]; ++d) score += c.get(0, {at[0], at[1], at[2], d}) * c.get(1, {at[0], head, t, d});
        score = score * 0.25 + (masked ? c.get_broadcast(3, {at[0], at[1], at[2], t}) : 0);
        weights += std::exp(score);
        sum += std::exp(score) * c.get(2, {at[0], head, t, at[3]});
      }
      EXPECT_NEAR(c.get(out, at), k[2] == 0 ? 0 : sum / weights, 1e-3);
    });
    return (*op)->implementation();
  }

  std::shared_ptr<testing::HostDeviceMemory> memory_ = std::make_shared<testing::HostDeviceMemory>();
  std::shared_ptr<FakeBackend> fake_ = std::make_shared<FakeBackend>();
};

TEST_F(CudnnAttention, DenseOperands) {
  EXPECT_EQ(run({}), "cudnn attention");
  EXPECT_FLOAT_EQ(fake_->specs[0].scale, 0.25F);
  EXPECT_FALSE(fake_->specs[0].mask);
}

// Heads side by side in one row of a projection, as it wrote them, and a result in that order.
TEST_F(CudnnAttention, HeadsAreStrides) {
  Operands o;
  o.q_strides = {192, 16, 64, 1}, o.k_strides = {160, 16, 32, 1}, o.v_strides = {80, 8, 16, 1};
  o.out_strides = {96, 8, 32, 1};
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_EQ(fake_->specs[0].query.strides, o.q_strides);
  EXPECT_EQ(fake_->specs[0].out.strides, o.out_strides);
}

TEST_F(CudnnAttention, MasksBroadcast) {
  for (const Extents& mask : {Extents{2, 4, 3, 5}, Extents{1, 1, 3, 5}, Extents{2, 1, 1, 5}, Extents{3, 5}}) {
    Operands o;
    o.mask = mask;
    EXPECT_EQ(run(o), "cudnn attention");
  }
  EXPECT_EQ(fake_->specs[2].mask->dims, (Extents{2, 1, 1, 5}));
  EXPECT_EQ(fake_->specs[3].mask->dims, (Extents{1, 1, 3, 5}));
}

TEST_F(CudnnAttention, CausalQueriesTakeNoLaterKeys) {
  Operands o;
  o.causal = true;
  o.q[2] = o.out[2] = 5;
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_TRUE(fake_->specs[0].causal);
  EXPECT_FALSE(fake_->specs[0].mask);
  o.q[2] = o.out[2] = o.k[2] = o.v[2] = 1;  // cuDNN need not be asked for it
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_FALSE(fake_->specs[1].causal);
}

TEST_F(CudnnAttention, CausalQueriesBehindStoredKeys) {
  Operands o;
  o.causal = true;
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_TRUE(fake_->specs[0].causal);
  o.q[2] = o.out[2] = 1;  // which takes all keys
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_FALSE(fake_->specs[1].causal);
}

TEST_F(CudnnAttention, OldCudnnReadsTheCausalMaskBehindStoredKeys) {
  fake_->is_old = true;
  Operands o;
  o.causal = true;
  EXPECT_EQ(run(o), "cudnn attention");
  ASSERT_TRUE(fake_->specs[0].mask);
  EXPECT_FALSE(fake_->specs[0].causal);
  EXPECT_EQ(fake_->specs[0].mask->dims, (Extents{1, 1, 3, 5}));
  o.k[2] = o.v[2] = 259;
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_EQ(fake_->specs[1].mask->strides[2], 264);
  o.q[2] = o.out[2] = o.k[2] = o.v[2] = 5;
  EXPECT_EQ(run(o), "cudnn attention");
  EXPECT_TRUE(fake_->specs[2].causal);
}

// As of a number of keys that was not known before.
TEST_F(CudnnAttention, MasksOfManyKeysAreCopiedWhereRowsAreNotAligned) {
  Operands o;
  o.k[2] = o.v[2] = 259;
  for (const Extents& mask : {Extents{2, 4, 3, 259}, {2, 1, 1, 259}}) {
    o.mask = mask;
    EXPECT_EQ(run(o), "cudnn fill + copy + attention");
    EXPECT_EQ(fake_->specs.back().mask->dims, mask);
    EXPECT_EQ(fake_->specs.back().mask->strides[0], 264 * mask[1] * mask[2]);
  }
  o.mask = {1, 1, 1, 259};
  EXPECT_EQ(run(o), "cudnn attention");
  o.k[2] = o.v[2] = 264;
  o.mask = {2, 4, 3, 264};
  EXPECT_EQ(run(o), "cudnn attention");
}

TEST_F(CudnnAttention, OperandsThatCudnnCannotReadAreCopied) {
  Operands o;
  o.k_strides = {160, 80, 1, 5};  // positions side by side
  EXPECT_EQ(run(o), "cudnn copy + attention");
  o = {};
  o.q_strides = {204, 51, 17, 1};  // rows of 34 bytes
  EXPECT_EQ(run(o), "cudnn copy + attention");
  o = {};
  o.out_strides = {96, 24, 1, 3};
  EXPECT_EQ(run(o), "cudnn attention + copy");
  Case shifted = make_case({});
  shifted.call.args[0].offset = 8;
  const auto op = make_cudnn_library({}, memory_, fake_)->bind(shifted.call);
  ASSERT_TRUE(op.ok());
  EXPECT_EQ((*op)->implementation(), "cudnn copy + attention");
  EXPECT_EQ((*op)->alignment(1), 16);
}

TEST_F(CudnnAttention, WithoutKeysIsZero) {
  Operands o;
  o.k[2] = o.v[2] = 0;
  EXPECT_EQ(run(o), "cudnn fill");
}

TEST_F(CudnnAttention, EqualCallsShareOnePlan) {
  const auto library = make_cudnn_library({}, memory_, fake_);
  const Case c = make_case({});
  const auto a = library->bind(c.call), b = library->bind(c.call);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(fake_->specs.size(), 1U);
}

// Engines of cuDNN that are faster than what it would choose; where it has none of that name, its choice.
TEST_F(CudnnAttention, PlansByNumberOfHeads) {
  fake_->has = "eng4_k24=3";
  run(Operands{});
  EXPECT_EQ(fake_->specs.back().plan, "eng4_k24=3");
  Operands many;
  many.q = {64, 4, 130, 8}, many.k = {64, 2, 1, 8}, many.v = {64, 2, 1, 8}, many.out = {64, 4, 130, 8};
  const auto bind = [&](const Operands& o) {
    const Case c = make_case(o);
    return make_cudnn_library({}, memory_, fake_)->bind(c.call).ok() ? fake_->specs.back().plan : "none";
  };
  EXPECT_EQ(bind(many), "");
  fake_->has = "eng5_k24=7";
  EXPECT_EQ(bind(many), "eng5_k24=7");
  Operands masked = many;
  masked.mask = {1, 1, 130, 1};
  EXPECT_EQ(bind(masked), "");
  fake_->has = "eng1_k24=5";
  EXPECT_EQ(bind(masked), "eng1_k24=5");
  masked.q[2] = masked.out[2] = masked.mask[2] = 49;  // windows
  fake_->has = "eng1_k24=3";
  EXPECT_EQ(bind(masked), "eng1_k24=3");
  Operands causal = many;
  causal.causal = true;
  causal.k[2] = causal.v[2] = 130;
  EXPECT_EQ(bind(causal), "");
  fake_->has = "eng2_k24=7";
  EXPECT_EQ(bind(causal), "eng2_k24=7");
  many.q[2] = many.out[2] = 1;  // a decoder
  EXPECT_EQ(bind(many), "");
}

// The default one comes first, then what else cuDNN lists.
TEST_F(CudnnAttention, Algorithms) {
  fake_->has = "eng8";
  const auto library = make_cudnn_library({}, memory_, fake_);
  Case c = make_case({});
  std::vector<std::string> names;
  for (const Algorithm& algorithm : library->algorithms(c.call)) names.push_back(algorithm.id);
  EXPECT_EQ(names, (std::vector<std::string>{"attention", "eng7", "eng8"}));
  c.call.algorithm = "eng8";
  ASSERT_TRUE(library->bind(c.call).ok());
  EXPECT_EQ(fake_->specs.back().plan, "eng8");
  c.call.algorithm = "eng7";
  const auto op = library->bind(c.call);
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.status().code(), StatusCode::unsupported);
  Operands no_keys;
  no_keys.k[2] = no_keys.v[2] = 0;
  EXPECT_TRUE(library->algorithms(make_case(no_keys).call).empty());
}

TEST_F(CudnnAttention, BatchInvariantPlans) {
  Options options;
  options.batch_invariant = true;
  fake_->has = "attention";  // as the fake names the first one
  for (const int64_t samples : {1, 3}) {
    for (const int64_t masks : {int64_t{1}, samples}) {
      Operands o;
      o.q[0] = o.k[0] = o.v[0] = o.out[0] = samples;
      o.mask = {masks, 1, 3, 5};
      fake_->specs.clear();
      const Case c = make_case(o);
      ASSERT_TRUE(make_cudnn_library(options, memory_, fake_)->bind(c.call).ok());
      ASSERT_EQ(fake_->specs.size(), 2U);
      const AttentionSpec& many = fake_->specs[0];
      for (const TensorSpec* t : {&many.query, &many.value, &many.out, &*many.mask}) EXPECT_EQ(t->dims[0], 32);
      EXPECT_EQ(fake_->specs[1].query.dims[0], samples);
      EXPECT_EQ(fake_->specs[1].plan, "attention");
    }
  }
  fake_->has = "";
  const auto op = make_cudnn_library(options, memory_, fake_)->bind(make_case({}).call);
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.status().code(), StatusCode::invalid_argument);
}

TEST_F(CudnnAttention, Refusals) {
  fake_->rejects = true;
  EXPECT_EQ(run(Operands{}),
            "unsupported: the fake objects; without the pass recognize_attention, products and a softmax compute it");
}

}  // namespace
}  // namespace fusec::runtime::attention

#endif
