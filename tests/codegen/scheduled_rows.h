// SPDX-License-Identifier: Apache-2.0
// Graphs of rows and columns as they are scheduled for GPUs of different sizes, run by the evaluator: all rows at once
// or some of them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "ir/eval/kernel.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/codegen/cuda_emulation_run.h"

namespace fusec::codegen_test {

struct Scheduled {
  ir::Kernel kernel;
  Extents extents;
};

// A GPU with so many multiprocessors, with or without clusters of thread blocks.
struct GpuSize {
  int sms = 1;
  bool clusters = false;
  int64_t cache = 0;  // bytes of L2; 0: as many as the named target has
};

// The only kernel of a graph. `$B` of the text is the number of rows.
inline Scheduled schedule(const std::string& text, int64_t rows, const GpuSize& gpu, const Options& options = {}) {
  const auto graph = ir::parse_graph(filled(text, {{"$B", std::to_string(rows)}}));
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  Target target = *named_target(gpu.clusters ? "sm_90" : "sm_89");
  target.sm_count = gpu.sms;
  if (gpu.cache > 0) target.last_level_cache = gpu.cache;
  const auto parts = compiler::partition(*graph, target, options);
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  const auto program = compiler::lower(*graph, *parts, target, options, {}, {.most = 1});
  EXPECT_TRUE(program.ok()) << program.status().str();
  EXPECT_EQ(program->kernels.size(), 1U);
  Scheduled s{program->kernels[ir::KernelId{0}], {}};
  EXPECT_TRUE(ir::verify(s.kernel).ok()) << ir::verify(s.kernel).str();
  const auto& step = std::get<ir::KernelStep>(program->slots[0].variants[0].candidates[0].steps[0].v);
  for (size_t i = 0; i < step.extents.size(); ++i)
    s.extents[s.kernel.extents[ir::ExtentId{static_cast<uint32_t>(i)}]] = step.extents[i].value();
  return s;
}

inline bool is_input(const ir::Kernel& kernel, size_t param) {
  return kernel.buffers[kernel.params[param]].space == ir::Space::in;
}

// Runs the kernel on rows `first` ... of arguments for `rows` rows, which it fills. An argument of another size, such
// as a weight, is passed whole.
inline void run_rows(const std::string& text, int64_t first, int64_t count, int64_t rows, const GpuSize& gpu,
                     std::vector<Tensor>& all) {
  const Scheduled s = schedule(text, count, gpu);
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2);
  ASSERT_EQ(args.size(), all.size());
  const auto part = [&](size_t i) {
    const bool is_row = args[i].bytes() * static_cast<size_t>(rows) == all[i].bytes() * static_cast<size_t>(count);
    return all[i].as<char>() + (is_row ? args[i].bytes() / static_cast<size_t>(count) * static_cast<size_t>(first) : 0);
  };
  for (size_t i = 0; i < args.size(); ++i)
    if (is_input(s.kernel, i)) std::memcpy(args[i].data(), part(i), args[i].bytes());
  const auto result = ir::evaluate(s.kernel, args, s.extents);
  ASSERT_TRUE(result.ok()) << result.status().str();
  for (size_t i = 0; i < args.size(); ++i)
    if (!is_input(s.kernel, i)) std::memcpy(part(i), args[i].data(), args[i].bytes());
}

// An exponential may be off by 4 ulp on a GPU, and a softmax divides one by a sum of others.
inline Expectation expectation(const ir::Kernel& kernel) {
  const bool has_exp = ir::print(kernel).find(" = exp ") != std::string::npos;
  return {has_exp ? 8.0 : 2.0, -2, 2, 1};
}

inline constexpr GpuSize kOneSm{1, false};           // every row has a block of its own
inline constexpr GpuSize kManySms{132, false};       // rows are cut into slices
inline constexpr GpuSize kSomeSms{20, false};        // into fewer
inline constexpr GpuSize kOneSmOfClusters{1, true};  // the blocks of a cluster hold a row, if it is read more than once
inline constexpr GpuSize kManySmsOfClusters{132, true};

// On GPUs of several sizes, by single rows and all at once, as all at once on `base`.
inline void expect_equal_bits(const std::string& text, int64_t rows, const std::vector<GpuSize>& gpus,
                              const GpuSize& base = kOneSm) {
  SCOPED_TRACE(text);
  const Scheduled whole = schedule(text, rows, base);
  std::vector<Tensor> want = make_args(whole.kernel, whole.extents, 7, -2, 2);
  run_rows(text, 0, rows, rows, base, want);
  for (const GpuSize& gpu : gpus) {
    if (kSanitized && &gpu != &gpus.back()) continue;  // they slow the evaluator down
    for (const int64_t count : {int64_t{1}, rows}) {
      std::vector<Tensor> got = make_args(whole.kernel, whole.extents, 7, -2, 2);
      for (int64_t first = 0; first < rows; first += count) run_rows(text, first, count, rows, gpu, got);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].bytes()), 0)
            << "argument " << i << ", " << gpu.sms << " multiprocessors, clusters " << gpu.clusters << ", rows by "
            << count;
    }
  }
}

// The same of three rows, which one block takes on a small GPU and several share on a large one. Rows whose elements
// are stored in another order are shared on both.
inline void expect_equal_bits(const char* text) {
  SCOPED_TRACE(text);
  const bool transposes = std::string(text).find("transpose") != std::string::npos;
  EXPECT_EQ(print(schedule(text, 3, kOneSm).kernel).find("scratch") != std::string::npos, transposes);
  EXPECT_NE(print(schedule(text, 3, kManySms).kernel).find("scratch"), std::string::npos);
  expect_equal_bits(text, 3, {kSomeSms, kManySms, kOneSmOfClusters, kManySmsOfClusters});
}

}  // namespace fusec::codegen_test
