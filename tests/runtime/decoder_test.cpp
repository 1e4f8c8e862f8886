// SPDX-License-Identifier: Apache-2.0
// A decoder with stored keys and values, as text models are served: one Engine and one Session run the prompt, of which
// nothing is stored yet, and then token after token, each with one more row of keys. The results are those of a run of
// the whole text at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"

namespace fusec {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 37, kWidth = 16, kHeads = 2, kHeadWidth = 8, kPositions = 64, kLayers = 2;
constexpr int64_t kBatch = 2, kPrompt = 5, kSteps = 32;

class Weights {
 public:
  Tensor make(std::vector<int64_t> shape) {
    Tensor tensor = *Tensor::make(DType::f32, std::move(shape));
    std::normal_distribution<float> normal(0, 0.3f);
    std::generate_n(tensor.as<float>(), tensor.num_elements(), [&] { return normal(random_); });
    return tensor;
  }

 private:
  std::mt19937 random_{1};
};

const Dim kN = Dim::symbol("batch"), kSeq = Dim::symbol("seq"), kPast = Dim::symbol("past"), kTotal = kPast + kSeq;

Var heads(GraphBuilder& b, Var x) { return b.transpose(b.reshape(x, {kN, kSeq, kHeads, kHeadWidth}), {0, 2, 1, 3}); }

Model make_decoder() {
  GraphBuilder b;
  Weights w;
  const auto square = [&] { return b.constant(w.make({kWidth, kWidth})); };
  Var ids = b.input("ids", DType::i64, {kN, kSeq}), mask = b.input("mask", DType::i64, {kN, kTotal});
  Var embedding = b.constant(w.make({kVocabulary, kWidth}));
  Var place = b.iota(DType::i64, {kSeq, kTotal}, 0) + b.dim(kPast);
  Var seen = b.and_(b.le(b.iota(DType::i64, {kSeq, kTotal}, 1), place), b.ne(b.reshape(mask, {kN, 1, 1, kTotal}), 0));
  Var position = b.iota(DType::i64, {kSeq}, 0) + b.dim(kPast);
  Var x = b.gather(embedding, ids, 0) + b.gather(b.constant(w.make({kPositions, kWidth})), position, 0);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = std::to_string(layer);
    Var old_key = b.input("past_key_" + name, DType::f32, {kN, kHeads, kPast, kHeadWidth});
    Var old_value = b.input("past_value_" + name, DType::f32, {kN, kHeads, kPast, kHeadWidth});
    Var h = b.rms_norm(x, 1);
    Var query = heads(b, b.matmul(h, square()));
    Var key = b.concat({old_key, heads(b, b.matmul(h, square()))}, 2);
    Var value = b.concat({old_value, heads(b, b.matmul(h, square()))}, 2);
    Var scores = b.where(seen, b.matmul(query, key, false, true) * 0.35, -1e9);
    Var mixed = b.transpose(b.matmul(b.softmax(scores, -1), value), {0, 2, 1, 3});
    x = x + b.matmul(b.reshape(mixed, {kN, kSeq, kWidth}), square());
    x = x + b.matmul(b.gelu(b.matmul(b.rms_norm(x, 1), square())), square());
    b.output("key_" + name, key);
    b.output("value_" + name, value);
  }
  b.output("logits", b.matmul(b.rms_norm(x, 1), embedding, false, true));
  Result<Model> model = b.finish();
  EXPECT_TRUE(model.ok()) << model.status().str();
  return *std::move(model);
}

Tensor integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor = *Tensor::make(DType::i64, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.as<int64_t>());
  return tensor;
}

std::vector<Tensor> nothing_stored() {
  return std::vector<Tensor>(2 * kLayers, *Tensor::make(DType::f32, {kBatch, kHeads, 0, kHeadWidth}));
}

// ids, then the mask of all tokens, then what is stored.
std::vector<Tensor> make_inputs(const std::vector<int64_t>& ids, const std::vector<Tensor>& stored) {
  const int64_t seq = static_cast<int64_t>(ids.size()) / kBatch, total = stored[0].shape()[2] + seq;
  std::vector<Tensor> inputs = {integers({kBatch, seq}, ids), *Tensor::make(DType::i64, {kBatch, total})};
  std::fill_n(inputs[1].as<int64_t>(), kBatch * total, 1);
  inputs.insert(inputs.end(), stored.begin(), stored.end());
  return inputs;
}

// The logits of the last token of each sample.
std::vector<const float*> last_rows(const Tensor& logits) {
  std::vector<const float*> rows;
  for (int64_t n = 1; n <= kBatch; ++n) rows.push_back(logits.as<float>() + (n * logits.shape()[1] - 1) * kVocabulary);
  return rows;
}

std::vector<int64_t> likeliest(const Tensor& logits) {
  std::vector<int64_t> tokens;
  for (const float* row : last_rows(logits)) tokens.push_back(std::max_element(row, row + kVocabulary) - row);
  return tokens;
}

TEST(Decoder, StepsGiveWhatTheWholeTextGives) {
  const Result<Engine> engine = Engine::compile(make_decoder());
  ASSERT_TRUE(engine.ok()) << engine.status().str();
  const int64_t compiled = engine->stats().compiled_kernels;
  Session session = *Session::create(*engine);
  std::vector<std::vector<int64_t>> texts(kBatch);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kBatch * kPrompt; ++i) {
    ids.push_back(7 * i % kVocabulary);
    texts[static_cast<std::size_t>(i / kPrompt)].push_back(ids.back());
  }
  std::vector<Tensor> stored = nothing_stored(), logits;
  for (int64_t step = 0; step <= kSteps; ++step) {
    const std::vector<Tensor> inputs = make_inputs(ids, stored);
    std::vector<TensorShape> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.shape());
    const Result<PlanStats> plan = engine->plan(shapes);
    ASSERT_TRUE(plan.ok()) << plan.status().str();
    EXPECT_EQ(plan->compiled_kernels, 0) << "step " << step;
    Result<std::vector<Tensor>> outputs = session.run(inputs);
    ASSERT_TRUE(outputs.ok()) << "step " << step << ": " << outputs.status().str();
    logits.push_back(outputs->back());
    outputs->pop_back();
    stored = *std::move(outputs);
    EXPECT_EQ(stored[0].shape(), (TensorShape{kBatch, kHeads, kPrompt + step, kHeadWidth}));
    ids = likeliest(logits.back());
    if (step == kSteps) break;
    for (std::size_t n = 0; n < texts.size(); ++n) texts[n].push_back(ids[n]);
  }
  EXPECT_EQ(engine->stats().compiled_kernels, compiled);

  std::vector<int64_t> whole;
  for (const std::vector<int64_t>& text : texts) whole.insert(whole.end(), text.begin(), text.end());
  const Result<std::vector<Tensor>> at_once = session.run(make_inputs(whole, nothing_stored()));
  ASSERT_TRUE(at_once.ok()) << at_once.status().str();
  const Tensor& all = at_once->back();
  ASSERT_EQ(all.shape(), (TensorShape{kBatch, kPrompt + kSteps, kVocabulary}));
  for (int64_t step = 0; step <= kSteps; ++step) {
    const std::vector<const float*> rows = last_rows(logits[static_cast<std::size_t>(step)]);
    for (int64_t n = 0; n < kBatch; ++n) {
      const float* expected = all.as<float>() + (n * (kPrompt + kSteps) + kPrompt - 1 + step) * kVocabulary;
      for (int64_t i = 0; i < kVocabulary; ++i)
        ASSERT_NEAR(rows[static_cast<std::size_t>(n)][i], expected[i], 1e-4) << "step " << step;
    }
  }
}

TEST(Decoder, AMaskOfAnotherLengthIsRefused) {
  const Result<Engine> engine = Engine::compile(make_decoder());
  ASSERT_TRUE(engine.ok()) << engine.status().str();
  std::vector<Tensor> inputs = make_inputs(std::vector<int64_t>(kBatch * 3, 1), nothing_stored());
  inputs[1] = integers({kBatch, 4}, std::vector<int64_t>(kBatch * 4, 1));
  Session session = *Session::create(*engine);
  EXPECT_THAT(
      session.run(inputs).status().str(),
      HasSubstr("input 'mask' of type i64[batch, past + seq]: axis 1 must be past + seq = 3 with past = 0 (axis 2 "
                "of input 'past_key_0'), seq = 3 (axis 1 of input 'ids'), given is 4"));
}

}  // namespace
}  // namespace fusec
