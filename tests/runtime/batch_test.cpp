// SPDX-License-Identifier: Apache-2.0
// A row's result does not depend on the rows beside it: generated kernels give the same bits for every batch and every
// number of threads, and in batch-invariant mode libraries do. f16 and bf16, whose rounding depends on what is fused,
// belong to one engine.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "fusec/device.h"
#include "fusec/engine.h"
#include "fusec/session.h"
#include "ir/graph/model_internal.h"
#include "ir/ops/cast.h"
#include "ir/support/hash.h"
#include "ir/text/graph_text.h"
#include "tests/sanitized.h"

namespace fusec {
namespace {

struct RowCase {
  const char* name;
  const char* graph;  // every input's first axis is N
  bool of_library = false;
};

void PrintTo(const RowCase& c, std::ostream* out) { *out << c.name; }

constexpr RowCase kCases[] = {
    {"Softmax", R"(graph @main(%x: f32[N, 1000]) {
  %0 = reduce_max %x {axes = [1]}: f32[N]
  %1 = reshape %0 {shape = [N, 1]}: f32[N, 1]
  %2 = sub %x, %1: f32[N, 1000]
  %3 = exp %2: f32[N, 1000]
  %4 = reduce_sum %3 {axes = [1]}: f32[N]
  %5 = reshape %4 {shape = [N, 1]}: f32[N, 1]
  %6 = div %3, %5: f32[N, 1000]
  return %6 as "y"
})"},
    {"SoftmaxF16OfSymbolicRows", R"(graph @main(%x: f16[N, C]) {
  %0 = reduce_max %x {axes = [1]}: f16[N]
  %1 = reshape %0 {shape = [N, 1]}: f16[N, 1]
  %2 = sub %x, %1: f16[N, C]
  %3 = exp %2: f16[N, C]
  %4 = reduce_sum %3 {axes = [1]}: f16[N]
  %5 = reshape %4 {shape = [N, 1]}: f16[N, 1]
  %6 = div %3, %5: f16[N, C]
  return %6 as "y"
})"},
    {"VarianceOfRows", R"(graph @main(%x: f32[N, 7, 77]) {
  %0 = reduce_mean %x {axes = [2]}: f32[N, 7]
  %1 = reshape %0 {shape = [N, 7, 1]}: f32[N, 7, 1]
  %2 = sub %x, %1: f32[N, 7, 77]
  %3 = mul %2, %2: f32[N, 7, 77]
  %4 = reduce_mean %3 {axes = [2]}: f32[N, 7]
  return %4 as "y"
})"},
    {"MeanOfLongRow", R"(graph @main(%x: f32[N, 30000]) {
  %0 = reduce_mean %x {axes = [1]}: f32[N]
  return %0 as "y"
})"},
    {"MeanOfChannels", R"(graph @main(%x: f32[N, 64, 7, 7]) {
  %0 = reduce_mean %x {axes = [2, 3]}: f32[N, 64]
  return %0 as "y"
})"},
    {"SumOfShortRows", R"(graph @main(%x: f32[N, 64, 49]) {
  %0 = reduce_sum %x {axes = [2]}: f32[N, 64]
  return %0 as "y"
})"},
    {"SumOfColumns", R"(graph @main(%x: f32[N, 50, 96]) {
  %0 = reduce_sum %x {axes = [1]}: f32[N, 96]
  return %0 as "y"
})"},
    {"SumOfManyColumns", R"(graph @main(%x: bf16[N, 300, 33]) {
  %0 = reduce_sum %x {axes = [1]}: bf16[N, 33]
  return %0 as "y"
})"},
    {"SumOfSlices", R"(graph @main(%x: f32[N, 36, 4], %w: f32[N, 36, 2]) {
  %0 = slice %x {starts = [0, 0, 1], sizes = [N, 36, 2], steps = [1, 1, 1]}: f32[N, 36, 2]
  %1 = mul %w, %0: f32[N, 36, 2]
  %2 = reduce_sum %1 {axes = [1, 2]}: f32[N]
  return %2 as "y"
})"},
    {"Products", R"(graph @main(%x: f32[N, 45]) {
  %0 = reduce_prod %x {axes = [1]}: f32[N]
  return %0 as "y"
})"},
    {"Chain", R"(graph @main(%x: f16[N, 131]) {
  %0 = sigmoid %x: f16[N, 131]
  %1 = mul %x, %0: f16[N, 131]
  %2 = exp %1: f16[N, 131]
  %3 = add %2, %x: f16[N, 131]
  return %3 as "y"
})"},
    {"Transpose", R"(graph @main(%x: f32[N, 33, 65]) {
  %0 = transpose %x {perm = [0, 2, 1]}: f32[N, 65, 33]
  %1 = tanh %0: f32[N, 65, 33]
  return %1 as "y"
})"},
    {"SumOfVeryLongRow", R"(graph @main(%x: f32[N, 70001]) {
  %0 = reduce_sum %x {axes = [1]}: f32[N]
  return %0 as "y"
})"},
    {"SumOfTwoLongAxes", R"(graph @main(%x: f32[N, 5, 3, 7001]) {
  %0 = reduce_sum %x {axes = [1, 3]}: f32[N, 3]
  return %0 as "y"
})"},
    {"ArgmaxOfLongRow", R"(graph @main(%x: f16[N, 40001]) {
  %0 = argmax %x {axis = 1, last = 0}: i64[N]
  return %0 as "y"
})"},
    {"SoftmaxOfLongRow", R"(graph @main(%x: f32[N, 40960]) {
  %0 = reduce_max %x {axes = [1]}: f32[N]
  %1 = reshape %0 {shape = [N, 1]}: f32[N, 1]
  %2 = sub %x, %1: f32[N, 40960]
  %3 = exp %2: f32[N, 40960]
  %4 = reduce_sum %3 {axes = [1]}: f32[N]
  %5 = reshape %4 {shape = [N, 1]}: f32[N, 1]
  %6 = div %3, %5: f32[N, 40960]
  return %6 as "y"
})"},
    {"NormOfShortRows", R"(graph @main(%x: f32[N, 33, 21]) {
  %0 = reduce_mean %x {axes = [2]}: f32[N, 33]
  %1 = reshape %0 {shape = [N, 33, 1]}: f32[N, 33, 1]
  %2 = sub %x, %1: f32[N, 33, 21]
  %3 = exp %2: f32[N, 33, 21]
  %4 = reduce_sum %3 {axes = [2]}: f32[N, 33]
  %5 = sqrt %4: f32[N, 33]
  %6 = reshape %5 {shape = [N, 33, 1]}: f32[N, 33, 1]
  %7 = div %3, %6: f32[N, 33, 21]
  return %7 as "y"
})"},
    {"NormOfMiddlingRows", R"(graph @main(%x: f32[N, 20, 130]) {
  %0 = mul %x, %x: f32[N, 20, 130]
  %1 = reduce_sum %0 {axes = [2]}: f32[N, 20]
  %2 = reshape %1 {shape = [N, 20, 1]}: f32[N, 20, 1]
  %3 = div %x, %2: f32[N, 20, 130]
  return %3 as "y"
})"},
    {"SumOfVeryManyColumns", R"(graph @main(%x: f32[N, 70, 4500]) {
  %0 = reduce_sum %x {axes = [1]}: f32[N, 4500]
  return %0 as "y"
})"},
    {"SumOfParts", R"(graph @main(%x: f32[N, 37, 3, 5, 96]) {
  %0 = reduce_sum %x {axes = [1, 3]}: f32[N, 3, 96]
  return %0 as "y"
})"},
    {"MaximumOfColumns", R"(graph @main(%x: f32[N, 90, 24]) {
  %0 = reduce_max %x {axes = [1]}: f32[N, 24]
  return %0 as "y"
})"},
    {"RunningSums", R"(graph @main(%x: f32[N, 100]) {
  %0 = cumsum %x {axis = 1, exclusive = 0, reverse = 0}: f32[N, 100]
  return %0 as "y"
})"},
    {"Product", R"(graph @main(%x: f32[N, 300]) {
  %0 = iota {shape = [300, 96], axis = 0, dtype = f32}: f32[300, 96]
  %1 = iota {shape = [300, 96], axis = 1, dtype = f32}: f32[300, 96]
  %2 = mul %0, %1: f32[300, 96]
  %3 = sin %2: f32[300, 96]
  %4 = matmul %x, %3 {transpose_a = 0, transpose_b = 0}: f32[N, 96]
  %5 = relu %4: f32[N, 96]
  return %5 as "y"
})",
     true},
    {"ProductOfHalves", R"(graph @main(%x: f16[N, 17, 1024]) {
  %0 = iota {shape = [64, 1024], axis = 0, dtype = f32}: f32[64, 1024]
  %1 = iota {shape = [64, 1024], axis = 1, dtype = f32}: f32[64, 1024]
  %2 = mul %0, %1: f32[64, 1024]
  %3 = sin %2: f32[64, 1024]
  %4 = cast %3 {to = f16}: f16[64, 1024]
  %5 = matmul %x, %4 {transpose_a = 0, transpose_b = 1}: f16[N, 17, 64]
  return %5 as "y"
})",
     true},
    {"ProductOfPairs", R"(graph @main(%x: f32[N, 40, 72], %w: f32[N, 72, 24]) {
  %0 = matmul %x, %w {transpose_a = 0, transpose_b = 0}: f32[N, 40, 24]
  return %0 as "y"
})",
     true},
    {"Convolution", R"(graph @main(%x: f32[N, 12, 9, 32]) {
  %0 = iota {shape = [48, 32, 3, 3], axis = 0, dtype = f32}: f32[48, 32, 3, 3]
  %1 = iota {shape = [48, 32, 3, 3], axis = 1, dtype = f32}: f32[48, 32, 3, 3]
  %2 = mul %0, %1: f32[48, 32, 3, 3]
  %3 = sin %2: f32[48, 32, 3, 3]
  %4 = conv %x, %3 {strides = [1, 1], pads = [1, 1, 1, 1],
    dilations = [1, 1], groups = 1, layout = "last"}: f32[N, 12, 9, 48]
  %5 = relu %4: f32[N, 12, 9, 48]
  return %5 as "y"
})",
     true},
};

void fill(Tensor& t, uint64_t seed) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    seed = ir::mix64(seed);
    ir::store_double(t.dtype(), t.as<char>() + i * size, static_cast<double>(seed >> 40) * 0x1p-22 - 2);
  }
}

// Rows [first, first + count) of a tensor.
Tensor rows(Tensor t, int64_t first, int64_t count) {
  std::vector<int64_t> shape = t.shape();
  const int64_t bytes = static_cast<int64_t>(t.bytes()) / shape[0];
  shape[0] = count;
  return Tensor::borrow(t.dtype(), shape, t.as<char>() + first * bytes);
}

class Batch : public testing::TestWithParam<RowCase> {
 protected:
  static constexpr int64_t kRows = 64;

  // Every row of one run with 64 against runs with one row each and with 63.
  void check(const std::string& device, const std::vector<int>& threads) {
    const ir::Graph graph = *ir::parse_graph(GetParam().graph);
    std::vector<Tensor> inputs;
    for (const ir::ValueId v : graph.inputs) {
      std::vector<int64_t> shape;
      for (const Dim& d : graph.type(v).shape) shape.push_back(d.eval({{"N", kRows}, {"C", 203}}).value());
      inputs.push_back(*Tensor::make(graph.type(v).dtype, shape));
      fill(inputs.back(), inputs.size());
    }
    Options options;
    options.use_cache = false;
    options.device = device;
    options.batch_invariant = GetParam().of_library;
    std::vector<char> first;
    for (const int t : threads) {
      options.threads = t;
      const auto engine = Engine::compile(ir::make_model(graph), options);
      ASSERT_TRUE(engine.ok()) << engine.status().str();
      auto session = Session::create(*engine);
      ASSERT_TRUE(session.ok()) << session.status().str();
      const auto whole = session->run(inputs);
      ASSERT_TRUE(whole.ok()) << whole.status().str();
      const Tensor& all = (*whole)[0];
      const std::vector<char> bytes(all.as<char>(), all.as<char>() + all.bytes());
      if (first.empty()) first = bytes;
      EXPECT_EQ(first, bytes) << t << " threads";
      for (int64_t row = 0; row < kRows; row += row == 0 ? 1 : 7) expect_rows(*session, inputs, all, row, 1);
      expect_rows(*session, inputs, all, 1, kRows - 1);
    }
  }

  // A model of one row and models of some rows, each compiled for its batch.
  void check_fixed_batches(const std::string& device, const std::vector<int>& thread_counts) {
    std::vector<char> first;
    for (const int64_t batch : {1, 3, 16, testing_support::many_or(500, 50)}) {
      ir::Graph graph = *ir::parse_graph(with_batch(GetParam().graph, batch));
      std::vector<Tensor> inputs;
      for (const ir::ValueId v : graph.inputs) {
        std::vector<int64_t> shape;
        for (const Dim& d : graph.type(v).shape) shape.push_back(d.eval({{"C", 203}}).value());
        inputs.push_back(*Tensor::make(graph.type(v).dtype, shape));
        fill(inputs.back(), inputs.size());
      }
      for (const int threads : thread_counts) {
        Options options;
        options.use_cache = false;
        options.device = device;
        options.batch_invariant = GetParam().of_library;
        options.threads = threads;
        const auto engine = Engine::compile(ir::make_model(graph), options);
        ASSERT_TRUE(engine.ok()) << engine.status().str();
        auto session = Session::create(*engine);
        ASSERT_TRUE(session.ok()) << session.status().str();
        const auto got = session->run(inputs);
        ASSERT_TRUE(got.ok()) << got.status().str();
        const Tensor row = rows((*got)[0], 0, 1);
        const std::vector<char> bytes(row.as<char>(), row.as<char>() + row.bytes());
        if (first.empty()) first = bytes;
        EXPECT_EQ(first, bytes) << "batch " << batch << ", " << threads << " threads";
      }
    }
  }

  static std::string with_batch(std::string text, int64_t batch) {
    for (std::size_t at = text.find("[N"); at != std::string::npos; at = text.find("[N", at)) {
      text.replace(at + 1, 1, std::to_string(batch));
    }
    return text;
  }

  static void expect_rows(Session& session, const std::vector<Tensor>& inputs, const Tensor& all, int64_t row,
                          int64_t count) {
    std::vector<Tensor> part;
    for (const Tensor& t : inputs) part.push_back(rows(t, row, count));
    const auto got = session.run(part);
    ASSERT_TRUE(got.ok()) << got.status().str();
    const Tensor want = rows(all, row, count);
    EXPECT_EQ(std::memcmp((*got)[0].data(), want.data(), want.bytes()), 0)
        << "rows " << row << " to " << row + count - 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, Batch, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST_P(Batch, RowsHaveTheSameBitsAloneAndTogetherWithAnyThreads) { check("cpu", {1, 2, 8}); }

TEST_P(Batch, RowsHaveTheSameBitsInModelsOfAnyBatchWithAnyThreads) { check_fixed_batches("cpu", {1, 2, 8}); }

class BatchOnAGpu : public Batch {
 protected:
  void SetUp() override {
    Options options;
    options.device = "cuda:0";
    if (const auto engine = Engine::compile(ir::make_model(*ir::parse_graph(GetParam().graph)), options); !engine.ok())
      GTEST_SKIP() << engine.status().message();
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, BatchOnAGpu, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(BatchOnAGpu, RowsHaveTheSameBitsAloneAndTogether) { check("cuda:0", {1}); }

TEST_P(BatchOnAGpu, RowsHaveTheSameBitsInModelsOfAnyBatch) { check_fixed_batches("cuda:0", {1}); }

}  // namespace
}  // namespace fusec
