// SPDX-License-Identifier: Apache-2.0
// Faults planted in the lowered form of a kernel: a missing or misplaced barrier, a wrong mask, another order of a
// tree. The evaluator, which runs the threads in lockstep, finds each.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/lower/gpu/gpu.h"
#include "ir/eval/kernel.h"
#include "ir/ops/random.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"

namespace fusec::compiler {
namespace {

// A row in four warps: a maximum, then a sum of differences.
constexpr const char* kRow = R"(kernel @row(%x: in f32[16, 128], %y: out f32[16, 128]) {
  grid r in 16 {
    v0: f32 = reduce.max tree(0, 0) block t0 in 128 {
      v1: f32 = load x[r, t0]
      yield v1
    }
    v2: f32 = reduce.add tree(128, 0) block t1 in 128 {
      v3: f32 = load x[r, t1]
      v4: f32 = sub v3, v0
      yield v4
    }
    block t2 in 128 {
      v5: f32 = load x[r, t2]
      v6: f32 = mul v5, v2
      store y[r, t2], v6
    }
  }
}
)";

std::string lowered_text(const char* text) {
  const auto kernel = lower_to_threads(ir::parse_kernel(text).value());
  EXPECT_TRUE(kernel.ok()) << kernel.status().str();
  return kernel.ok() ? ir::print(*kernel) : "";
}

// Replaces the occurrence number `n` of `from`.
std::string with(std::string text, const std::string& from, const std::string& to, int n = 0) {
  std::size_t at = text.find(from);
  for (; n > 0 && at != std::string::npos; --n) at = text.find(from, at + 1);
  EXPECT_NE(at, std::string::npos) << from << "\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct Outcome {
  std::string error;
  std::vector<float> values;
};

Outcome run(const std::string& text) {
  const auto kernel = ir::parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str() << "\n" << text;
  if (!kernel.ok()) return {};
  const Tensor x = *ir::random_tensor(DType::f32, {16, 128}, 7);
  Tensor y = Tensor::make(DType::f32, {16, 128}).value();
  const auto done = ir::evaluate(*kernel, {x, y}, {});
  return {done.ok() ? "" : done.status().str(), {y.as<float>(), y.as<float>() + 16 * 128}};
}

void expect_error(const std::string& text, const std::string& part) {
  const std::string error = run(text).error;
  EXPECT_NE(error.find(part), std::string::npos) << error << "\n" << text;
}

TEST(LoweredForm, HasTheBitsOfTheScheduledForm) {
  const Outcome scheduled = run(kRow), lowered = run(lowered_text(kRow));
  EXPECT_EQ(scheduled.error, "");
  EXPECT_EQ(lowered.error, "");
  EXPECT_EQ(std::memcmp(scheduled.values.data(), lowered.values.data(), 16 * 128 * sizeof(float)), 0);
}

TEST(LoweredForm, AMissingBarrierIsFound) {
  const std::string text = lowered_text(kRow);
  for (const int n : {0, 1}) expect_error(with(text, "    sync.block\n", "", n), "with no sync between them");
}

TEST(LoweredForm, ABarrierOfOneWarpIsNotEnoughForFour) {
  expect_error(with(lowered_text(kRow), "sync.block", "sync.warp"), "with no sync between them");
}

TEST(LoweredForm, ABarrierThatNotAllThreadsReachIsFound) {
  expect_error(with(lowered_text(kRow), "    sync.block\n", "    if (63 - t) {\n      sync.block\n    }\n"),
               "64 of 128 threads come to 'sync.block'");
}

TEST(LoweredForm, AWrongMaskIsFound) {
  expect_error(with(lowered_text(kRow), ", 16\n", ", 16 mask 65535\n"), "the mask 0xffff is not that of the threads");
}

TEST(LoweredForm, AShuffleFromAThreadThatIsNotThereIsFound) {
  const std::string text = R"(kernel @k(%x: in f32[16, 128], %y: out f32[16, 128]) {
  grid r in 16 threads(32) {
    if (15 - t) {
      v0: f32 = load x[r, t]
      v1: u32 = ballot (0)  mask 65535
      v2: f32 = shuffle.xor v0, 16 mask 65535
      store y[r, t], v2
    }
  }
}
)";
  expect_error(text, "takes a value of lane 16, which does not come");
}

TEST(LoweredForm, AnotherTreeGivesOtherBits) {
  std::string text = lowered_text(kRow);
  const std::size_t sum = text.find("sub ");  // the shuffles behind it are those of the sum
  ASSERT_NE(sum, std::string::npos);
  const std::string before = text.substr(0, sum);
  std::string after = text.substr(sum);
  after = with(with(with(after, ", 1\n", ", x\n"), ", 16\n", ", 1\n"), ", x\n", ", 16\n");
  const Outcome planted = run(before + after), scheduled = run(kRow);
  EXPECT_EQ(planted.error, "");
  EXPECT_NE(std::memcmp(scheduled.values.data(), planted.values.data(), 16 * 128 * sizeof(float)), 0);
}

// The same row in a cluster of two blocks.
constexpr const char* kClusterRow = R"(kernel @row(%x: in f32[16, 128], %y: out f32[16, 128]) {
  grid r in 16 {
    v0: f32 = reduce.max tree(0, 0) cluster b0 in 2, block t0 in 64 {
      v1: f32 = load x[r, 64*b0 + t0]
      yield v1
    }
    v2: f32 = reduce.add tree(128, 0) cluster b1 in 2, block t1 in 64 {
      v3: f32 = load x[r, 64*b1 + t1]
      v4: f32 = sub v3, v0
      yield v4
    }
    cluster b2 in 2 {
      block t2 in 64 {
        v5: f32 = load x[r, 64*b2 + t2]
        v6: f32 = mul v5, v2
        store y[r, 64*b2 + t2], v6
      }
    }
  }
}
)";

TEST(LoweredForm, AClusterHasTheBitsOfOneBlock) {
  const std::string text = lowered_text(kClusterRow);
  EXPECT_NE(text.find("threads(128) cluster(2)"), std::string::npos) << text;
  EXPECT_EQ(ir::findings(ir::parse_kernel(text).value()), std::vector<std::string>()) << text;
  const Outcome block = run(lowered_text(kRow)), cluster = run(text);
  EXPECT_EQ(cluster.error, "");
  EXPECT_EQ(std::memcmp(block.values.data(), cluster.values.data(), 16 * 128 * sizeof(float)), 0);
}

// Rows of five or six warps, in one block or spread over the blocks of a cluster: the tree has nodes without a right
// part, in sums and in pairs of a maximum and a sum, whose parts do not exchange.
TEST(LoweredForm, NumbersOfWarpsThatAreNoPowersOfTwo) {
  const auto text = [](int64_t blocks, int64_t warps) {
    const auto heads = [&](const std::string& n, const std::string& end) {
      const std::string cluster = blocks > 1 ? "cluster b" + n + " in " + std::to_string(blocks) + end : "";
      return cluster + "block w" + n + " in " + std::to_string(warps) + end + "block t" + n + " in 32 {\n";
    };
    const auto at = [&](const std::string& n) {
      const std::string block = blocks > 1 ? std::to_string(32 * warps) + "*b" + n + " + " : "";
      const std::string element = std::to_string(32 * blocks * warps) + "*r + " + block + "32*w" + n + " + t" + n;
      return "[floordiv(" + element + ", 128), mod(" + element + ", 128)]";
    };
    return "kernel @row(%x: in f32[16, 128], %y: out f32[16, 128]) {\n  grid r in " +
           std::to_string(64 / (blocks * warps)) + " {\n    v0: f32 = reduce.add tree(32, 32) " + heads("0", ", ") +
           "v1: f32 = load x" + at("0") + "\nyield v1\n}\nv2: f32, v3: f32 = reduce.max_sum tree(32, 32) " +
           heads("1", ", ") + "v4: f32 = load x" + at("1") + "\nyield v4, 1\n}\n" + heads("2", " {\n") +
           "v5: f32 = add v0, v3\nv6: f32 = mul v5, v2\nstore y" + at("2") + ", v6\n" +
           (blocks > 1 ? "}}}}}\n" : "}}}}\n");
  };
  for (const auto& [blocks, warps] :
       {std::pair<int64_t, int64_t>{1, 3}, {1, 5}, {1, 6}, {3, 2}, {5, 1}, {5, 2}, {7, 2}, {6, 8}, {5, 8}}) {
    SCOPED_TRACE(testing::Message() << blocks << " x " << warps);
    const std::string scheduled_text = text(blocks, warps), lowered = lowered_text(scheduled_text.c_str());
    const Outcome scheduled = run(scheduled_text), of_threads = run(lowered);
    EXPECT_EQ(scheduled.error, "");
    EXPECT_EQ(of_threads.error, "");
    const int64_t count = 64 / (blocks * warps) * blocks * warps * 32;
    EXPECT_EQ(
        std::memcmp(scheduled.values.data(), of_threads.values.data(), static_cast<size_t>(count) * sizeof(float)), 0);
  }
}

TEST(LoweredForm, ValuesOfAClusterPassThroughMailboxes) {
  const std::string text = lowered_text(kClusterRow);
  EXPECT_NE(text.find("shared f32[2, 4] layout \"mailbox\""), std::string::npos) << text;
  EXPECT_EQ(text.find("sync.cluster"), std::string::npos) << text;
  EXPECT_LT(text.find("sync.arrive"), text.find("load x[")) << text;
  EXPECT_LT(text.find("sync.wait"), text.find("[mod(t, 32), floordiv(t, 32)]")) << text;
  EXPECT_EQ(run(text).error, "");
}

TEST(LoweredForm, AMistakeWithAMailboxIsFound) {
  const std::string text = lowered_text(kClusterRow), arrives = "    sync.arrive\n", waits = "    sync.wait\n";
  const std::string place = "[mod(t, 32), floordiv(t, 32)]", lanes = "if (-mod(t, 32) + 1)";
  expect_error(with(with(text, arrives, ""), waits, ""), "a block may not have begun");
  for (const int n : {0, 1}) {
    expect_error(with(text, place, "[0, floordiv(t, 32)]", n), "an element of a mailbox is stored twice");
    expect_error(with(text, lanes, "if (-mod(t, 32))", n), "what a mailbox lacks is waited for");
    expect_error(with(text, "[floordiv(t, 64), 3]", "[0, 3]", n), "the mailbox of another block is read");
  }
  std::string unread = text;
  for (int k = 0; k < 4; ++k) {
    const std::size_t at = unread.find("load x5[floordiv(t, 64)");
    ASSERT_NE(at, std::string::npos) << unread;
    unread.replace(at, unread.find('\n', at) - at, "cast 1");
  }
  expect_error(unread, "a block may end before others have stored to its mailbox");
}

// Values of 16 bits pass through the memory of other blocks between barriers.
constexpr const char* kBarrierRow = R"(kernel @row(%x: in f32[16, 128], %y: out f32[16, 128]) {
  grid r in 16 {
    v0: f16 = reduce.max tree(0, 0) cluster b0 in 2, block t0 in 64 {
      v1: f32 = load x[r, 64*b0 + t0]
      v7: f16 = cast v1
      yield v7
    }
    v8: f32 = cast v0
    v2: f16 = reduce.min tree(0, 0) cluster b1 in 2, block t1 in 64 {
      v3: f32 = load x[r, 64*b1 + t1]
      v4: f32 = sub v3, v8
      v9: f16 = cast v4
      yield v9
    }
    v10: f32 = cast v2
    cluster b2 in 2 {
      block t2 in 64 {
        v5: f32 = load x[r, 64*b2 + t2]
        v6: f32 = mul v5, v10
        store y[r, 64*b2 + t2], v6
      }
    }
  }
}
)";

TEST(LoweredForm, AMissingBarrierOfAClusterIsFound) {
  const std::string text = lowered_text(kBarrierRow);
  for (const int n : {0, 1}) expect_error(with(text, "    sync.cluster\n", "", n), "with no sync between them");
  expect_error(with(text, "sync.cluster", "sync.warp"), "with no sync between them");
  expect_error(with(text, "sync.cluster", "sync.block"), "a block may not have begun");
}

// Each block has its own part of a buffer. What other blocks do is of no account, so its own barrier is enough.
constexpr const char* kOwnParts = R"(kernel @row(%x: in f32[16, 128], %y: out f32[16, 128]) {
  grid r in 16 {
    alloc p: shared f32[2, 64]
    cluster b0 in 2 {
      block t0 in 64 {
        v0: f32 = load x[r, 64*b0 + t0]
        store p[b0, t0], v0
      }
    }
    cluster b1 in 2 {
      block t1 in 64 {
        v1: f32 = load p[b1, 63 - t1]
        store y[r, 64*b1 + t1], v1
      }
    }
  }
}
)";

TEST(LoweredForm, ABlockOfAClusterWaitsForItselfAlone) {
  const std::string text = lowered_text(kOwnParts), sync = "    sync.block\n";
  EXPECT_EQ(text.find("sync.cluster"), std::string::npos) << text;
  expect_error(with(text, sync, ""), "with no sync between them");
  // What is accessed between the halves of a barrier has no order with other blocks.
  const std::string far = "p[1 - floordiv(t, 64), 63 - mod(t, 64)]";
  const std::size_t read = text.find("load p[");
  ASSERT_NE(read, std::string::npos) << text;
  std::string changed = text;
  changed.replace(read + 5, text.find('\n', read) - read - 5, far);
  const std::string together = with(changed, sync, "    sync.cluster\n");
  expect_error(with(with(together, "    sync.arrive\n", ""), "    sync.wait\n", ""),
               "a block may end before another one");
  const std::size_t store = changed.find("store p[");
  const std::size_t line = changed.rfind('\n', store) + 1;
  expect_error(with(changed, sync, "    sync.wait\n").insert(line, "    sync.arrive\n"), "with no sync between them");
}

// Only the barrier behind the last statement keeps the memory of a block.
TEST(LoweredForm, ABlockThatEndsWhileOthersReadItsMemoryIsFound) {
  const std::string text = lowered_text(kBarrierRow), arrives = "    sync.arrive\n", waits = "    sync.wait\n";
  expect_error(with(with(text, arrives, ""), waits, ""), "a block may end before another one");
  expect_error(with(text, waits, ""), "without a sync.wait");
  expect_error(with(text, arrives, ""), "take turns");
  const std::size_t read = text.rfind("= load x5[");  // of another block's memory
  const std::size_t line = text.rfind('\n', read) + 1;
  expect_error(with(text, arrives, "").insert(line, arrives), "between sync.arrive and sync.wait comes");
}

TEST(LoweredForm, AnAccessToABlockThatMayNotHaveBegunIsFound) {
  const std::string text = lowered_text(kBarrierRow), own = "[floordiv(t, 64), mod(floordiv(t, 32), 2)]";
  expect_error(with(text, own, "[1 - floordiv(t, 64), mod(floordiv(t, 32), 2)]"), "a block may not have begun");
}

// A thread copies for others, and the copies of the next row are under way while one is read.
constexpr const char* kStages = R"(kernel @rows(%x: in f32[16, 128] align 16, %y: out f32[16, 128]) {
  grid g in 1 {
    alloc p: shared f32[2, 128]
    block t0 in 32 {
      copy.async p[0, 4*t0], x[0, 4*t0] box [4]
    }
    sync.copies 1
    seq s in 16 {
      block t1 in 32 {
        copy.async p[mod(s + 1, 2), 4*t1], x[s + 1, 4*t1] box [4] guard(14 - s)
      }
      sync.copies 1
      block t2 in 128 {
        v0: f32 = load p[mod(s, 2), 127 - t2]
        store y[s, t2], v0
      }
    }
    sync.copies 0
  }
}
)";

TEST(LoweredForm, AThreadWaitsForWhatItCopies) {
  const std::string text = lowered_text(kStages);
  const Outcome scheduled = run(kStages), lowered = run(text);
  EXPECT_EQ(scheduled.error, "");
  EXPECT_EQ(lowered.error, "") << text;
  EXPECT_EQ(std::memcmp(scheduled.values.data(), lowered.values.data(), 16 * 128 * sizeof(float)), 0);
  EXPECT_NE(text.find(" box [4] guard("), std::string::npos) << text;
  expect_error(with(text, "    sync.copies 0\n", ""), "before a sync.copies that waits for all copies");
  expect_error(with(with(text, "      sync.block\n", "", 1), "      sync.block\n", ""), "with no sync between them");
  // Behind one barrier too few, each thread sees its own copies alone.
  const std::string early =
      with(with(text, "      sync.copies 1\n", ""), "v0: f32 = load", "sync.copies 1\n      v0: f32 = load");
  expect_error(early, "with no sync between them");
  // One group too many under way: the row before the last one is read in its place.
  const Outcome late = run(with(text, "      sync.copies 1\n", "      sync.copies 2\n"));
  EXPECT_NE(std::memcmp(scheduled.values.data(), late.values.data(), 16 * 128 * sizeof(float)), 0);
}

TEST(LoweredForm, TheVerifierKnowsCopies) {
  const std::string text = lowered_text(kStages);
  EXPECT_TRUE(ir::findings(ir::parse_kernel(text).value()).empty());
  const std::vector<std::string> wide = ir::findings(ir::parse_kernel(with(text, "box [4]", "box [3]")).value());
  ASSERT_FALSE(wide.empty());
  EXPECT_NE(wide[0].find("copies other than 4, 8 or 16 bytes"), std::string::npos) << wide[0];
}

TEST(LoweredForm, ABarrierThatNotAllBlocksReachIsFound) {
  expect_error(with(lowered_text(kBarrierRow), "    sync.cluster\n", "    if (63 - t) {\n      sync.cluster\n    }\n"),
               "64 of 128 threads come to 'sync.cluster'");
}

TEST(LoweredForm, TheVerifierKnowsClusters) {
  const std::string text = lowered_text(kBarrierRow);
  const auto finding = [&](const std::string& changed) {
    const std::vector<std::string> all = ir::findings(ir::parse_kernel(changed).value());
    return all.empty() ? "" : all[0];
  };
  EXPECT_NE(finding(with(text, "cluster(2)", "cluster(3)")).find("whole warps"), std::string::npos);
  EXPECT_NE(finding(with(text, " cluster(2)", "")).find("there is none"), std::string::npos);
  EXPECT_NE(finding(with(text, "cluster(2)", "cluster(4)")).find("first axis"), std::string::npos);
}

// An index that only a condition keeps in range, and a store that several threads do.
TEST(LoweredForm, TheVerifierKnowsThreadsAndConditions) {
  const auto findings = [](const std::string& body) {
    return ir::findings(
        ir::parse_kernel("kernel @k(%x: in f32[n, 100], %y: out f32[n, 100]) {\n  grid r in n threads(128) {\n" + body +
                         "  }\n}\n")
            .value());
  };
  EXPECT_TRUE(findings("    if (99 - t) {\n      store y[r, t], 0\n    }\n").empty());
  EXPECT_FALSE(findings("    store y[r, t], 0\n").empty());
  EXPECT_TRUE(findings("    store y[r, 0], 0 guard(-t)\n").empty());
  EXPECT_FALSE(findings("    store y[r, 0], 0\n").empty());
  EXPECT_FALSE(findings("    store y[r, mod(t, 64)], 0\n").empty());
}

}  // namespace
}  // namespace fusec::compiler
