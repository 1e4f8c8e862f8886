// SPDX-License-Identifier: Apache-2.0
// The cost of kernels made by hand, whose bytes, ops and shapes of work are known.
#include "ir/cost/cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"

namespace fusec::ir {
namespace {

Target gpu() { return *named_target("sm_90"); }
Target cpu(int threads) {
  Target target = *named_target("x86-64-v3");
  target.threads = threads;
  return target;
}

Kernel kernel(const std::string& text) {
  const Result<Kernel> parsed = parse_kernel(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().str();
  if (!parsed.ok()) return {};
  const Status sound = verify(*parsed);
  EXPECT_TRUE(sound.ok()) << sound.str();
  return *parsed;
}

KernelCost cost_of(const std::string& text, const Target& target, std::vector<int64_t> extents = {},
                   Residence residence = Residence::memory, Launching launching = Launching::in_plan) {
  return cost(kernel(text), target, {extents, residence, launching});
}

constexpr int64_t kElements = int64_t{1} << 24;

// 256 threads of 4 floats; `body` makes v2 of v1.
std::string pointwise(const std::string& body) {
  return fmt::format(R"(kernel @p(%x: in f32[n] align 16, %y: out f32[n] align 16) facts(n % 1024 == 0) {{
  grid g in floordiv(n, 1024) {{
    block t in 256 {{
      v1: f32.4 = load x[1024*g + 4*t + lane]
      {}
      store y[1024*g + 4*t + lane], v2
    }}
  }}
}})",
                     body);
}

TEST(Cost, ACopyIsItsOwnBound) {
  const KernelCost c = cost_of(pointwise("v2: f32.4 = neg v1"), gpu(), {kElements});
  ASSERT_EQ(c.phases.size(), 1u);
  EXPECT_EQ(c.launches, 1);
  EXPECT_EQ(c.read, 4.0 * kElements);
  EXPECT_EQ(c.written, 4.0 * kElements);
  EXPECT_EQ(c.phases[0].reread_cache + c.phases[0].reread_memory, 0);
  EXPECT_EQ(c.phases[0].blocks, kElements / 1024);
  EXPECT_EQ(c.phases[0].threads, 256);
  EXPECT_EQ(c.phases[0].workers, 132);
  EXPECT_GE(c.predicted_us, c.bound_us);
  EXPECT_LE(c.predicted_us, 1.1 * c.bound_us);
  // 134 MB at about 3 TB/s.
  EXPECT_NEAR(c.bound_us, 44, 5);
}

TEST(Cost, OpsAreCountedByClass) {
  const auto ops = [](const std::string& body) { return cost_of(pointwise(body), gpu(), {kElements}).ops(); };
  const double n = kElements;
  EXPECT_EQ(ops("v2: f32.4 = mul v1, v1").simple, n * info(ScalarOp::mul).cost);
  EXPECT_EQ(ops("v2: f32.4 = exp v1").transcendental, n * info(ScalarOp::exp).cost);
  EXPECT_EQ(ops("v2: f32.4 = exp v1").simple, 0);
  EXPECT_EQ(ops("v2: f32.4 = div v1, v1").division, n * info(ScalarOp::div).cost);
  EXPECT_EQ(ops("v2: f32.4 = sqrt v1").division, n * info(ScalarOp::sqrt).cost);
  const OpCounts casts = ops("v3: f16.4 = cast v1\n      v2: f32.4 = cast v3");
  EXPECT_EQ(casts.conversion, 2 * n * info(ScalarOp::cast).cost);
  EXPECT_EQ(casts.total(), casts.conversion);
  // Of a value and a constant, the greater one takes a single op.
  EXPECT_EQ(ops("v2: f32.4 = max v1, 0").simple, n);
  EXPECT_EQ(ops("v2: f32.4 = max v1, v1").simple, 2 * n);
}

TEST(Cost, ManyFunctionsTakeLongerThanTheirBytes) {
  std::string body = "v2: f32.4 = erf v1";
  for (int i = 3; i < 30; ++i) body += fmt::format("\n      v{}: f32.4 = erf v{}", i, i == 3 ? 1 : i - 1);
  const KernelCost light = cost_of(pointwise("v2: f32.4 = erf v1"), gpu(), {kElements});
  const KernelCost heavy = cost_of(pointwise(body), gpu(), {kElements});
  EXPECT_EQ(light.bound_us, heavy.bound_us);
  EXPECT_GT(heavy.predicted_us, 3 * light.predicted_us);
  EXPECT_GT(heavy.phases[0].issue_us, heavy.phases[0].memory_us);
}

std::string strided(const char* index) {
  return fmt::format(R"(kernel @s(%x: in f32[1024, 1024], %y: out f32[1024, 1024]) {{
  grid g in 1024 {{
    block t in 1024 {{
      v1: f32 = load x[{}]
      store y[g, t], v1
    }}
  }}
}})",
                     index);
}

TEST(Cost, StridedLoadsCostMore) {
  // A block reads a row, or a column of which each element lies in a sector of its own.
  const KernelCost rows = cost_of(strided("g, t"), gpu());
  const KernelCost columns = cost_of(strided("t, g"), gpu());
  EXPECT_EQ(rows.read, columns.read);
  EXPECT_EQ(rows.bound_us, columns.bound_us);
  EXPECT_GT(columns.phases[0].moved_cache, 4 * rows.phases[0].moved_cache);
  EXPECT_GT(columns.predicted_us, 1.5 * rows.predicted_us);
}

constexpr char kSerialSum[] = R"(kernel @s(%x: in f32[4194304] align 16, %y: out f32[1]) {
  grid g in 1 {
    v1: f32 = reduce.add tree(1024, 1024) block t in 256 {
      v2: f32.4 = reduce.add tree(1, 0) seq s in 4096 {
        v3: f32.4 = load x[1024*s + 4*t + lane]
        yield v3
      }
      yield v2
    }
    store y[0], v1
  }
})";
constexpr char kSplitSum[] = R"(kernel @s(%x: in f32[4194304] align 16, %y: out f32[1]) {
  alloc part: scratch f32[256]
  grid g in 256 {
    v1: f32 = reduce.add tree(1024, 1024) block t in 256 {
      v2: f32.4 = reduce.add tree(1, 0) seq s in 16 {
        v3: f32.4 = load x[16384*g + 1024*s + 4*t + lane]
        yield v3
      }
      yield v2
    }
    store part[g], v1
  }
  grid h in 1 {
    v4: f32 = reduce.add tree(256, 0) block u in 256 {
      v5: f32 = load part[u]
      yield v5
    }
    store y[0], v4
  }
})";

TEST(Cost, ASerialSumIsSlowAndASplitOneFast) {
  const KernelCost serial = cost_of(kSerialSum, gpu()), split = cost_of(kSplitSum, gpu());
  EXPECT_EQ(serial.phases[0].workers, 1);
  EXPECT_EQ(serial.launches, 1);
  EXPECT_EQ(split.launches, 2);
  EXPECT_EQ(split.phases[0].workers, 132);
  EXPECT_EQ(serial.read, split.read);
  // One SM takes some 228 GB/s of 16 MiB, all take 3 TB/s.
  EXPECT_GT(serial.predicted_us, 60);
  EXPECT_LT(split.predicted_us, serial.predicted_us / 5);
  EXPECT_GT(serial.predicted_us, 5 * serial.bound_us);
  EXPECT_LT(split.predicted_us, 2.5 * split.bound_us);
}

// A row of `columns` floats by each block, read twice.
std::string twice(int64_t columns) {
  return fmt::format(R"(kernel @t(%x: in f32[n, {0}], %y: out f32[n, {0}]) {{
  grid g in n {{
    v1: f32 = reduce.max tree(1024, 1024) block t in 256 {{
      v2: f32.4 = reduce.max tree(1, 0) seq s in {1} {{
        v3: f32.4 = load x[g, 1024*s + 4*t + lane]
        yield v3
      }}
      yield v2
    }}
    block u in 256 {{
      seq r in {1} {{
        v4: f32.4 = load x[g, 1024*r + 4*u + lane]
        v5: f32.4 = sub v4, v1
        store y[g, 1024*r + 4*u + lane], v5
      }}
    }}
  }}
}})",
                     columns, columns / 1024);
}

TEST(Cost, WhatIsReadAgainComesFromTheFirstCacheThatKeptIt) {
  // 8 KiB rows stay in the SM, rows of 16 KiB in L2, and 2 MiB of each of 1024 blocks nowhere.
  const KernelCost near = cost_of(twice(2048), gpu(), {4096});
  EXPECT_EQ(near.phases[0].reread_cache + near.phases[0].reread_memory, 0);
  const KernelCost cached = cost_of(twice(4096), gpu(), {4096});
  EXPECT_GT(cached.phases[0].reread_cache, 0.5 * cached.read);
  const KernelCost far = cost_of(twice(524288), gpu(), {1024});
  EXPECT_GT(far.phases[0].reread_memory, 0.9 * far.read);
  EXPECT_EQ(far.read, 4.0 * 524288 * 1024);
  EXPECT_GT(far.predicted_us, 1.3 * far.bound_us);
}

// A row of 65,536 floats by a cluster of four blocks, whose 256 threads hold 64 each.
constexpr const char* kClusterRow = R"(kernel @c(%x: in f32[n, 65536] align 16, %y: out f32[n, 65536] align 16) {
  grid g in n {
    alloc row: reg f32[4, 256, 16, 4]
    v0: f32 = reduce.max tree(1024, 1024) cluster b0 in 4, block t0 in 256 {
      v1: f32.4 = reduce.max tree(1, 0) unroll s0 in 16 {
        v2: f32.4 = load x[g, 16384*b0 + 1024*s0 + 4*t0 + lane]
        store row[b0, t0, s0, lane], v2
        yield v2
      }
      yield v1
    }
    cluster b1 in 4 {
      block t1 in 256 {
        unroll s1 in 16 {
          v3: f32.4 = load row[b1, t1, s1, lane]
          v4: f32.4 = sub v3, v0
          store y[g, 16384*b1 + 1024*s1 + 4*t1 + lane], v4
        }
      }
    }
  }
})";

TEST(Cost, AClusterReadsItsRowOnceInAllItsBlocks) {
  const KernelCost c = cost_of(kClusterRow, gpu(), {1024});
  EXPECT_EQ(c.phases[0].blocks, 4096);
  EXPECT_EQ(c.phases[0].threads, 256);
  EXPECT_EQ(c.phases[0].resident, 2);
  EXPECT_EQ(c.phases[0].reread_cache + c.phases[0].reread_memory, 0);
  EXPECT_LT(c.predicted_us, 1.2 * c.bound_us);
  // One row is the work of four SMs.
  EXPECT_EQ(cost_of(kClusterRow, gpu(), {1}).phases[0].workers, 4);
}

TEST(Cost, TinyLaunchesCostTheirLaunch) {
  const Target target = gpu();
  const KernelCost c = cost_of(pointwise("v2: f32.4 = neg v1"), target, {1024}, Residence::near);
  EXPECT_GT(c.predicted_us, target.model.dependent_launch);
  EXPECT_LT(c.predicted_us, target.model.dependent_launch + 2);
  const KernelCost alone = cost_of(pointwise("v2: f32.4 = neg v1"), target, {1024}, Residence::near, Launching::alone);
  EXPECT_GT(alone.predicted_us, c.predicted_us + 1);
}

TEST(Cost, DataNearbyIsFaster) {
  const std::string text = pointwise("v2: f32.4 = neg v1");
  const KernelCost far = cost_of(text, gpu(), {1 << 21}), near = cost_of(text, gpu(), {1 << 21}, Residence::near);
  EXPECT_LT(near.predicted_us, far.predicted_us);
  // What no cache holds is as far away either way.
  EXPECT_EQ(cost_of(text, gpu(), {1 << 26}).predicted_us,
            cost_of(text, gpu(), {1 << 26}, Residence::near).predicted_us);
}

TEST(Cost, GuardsAndPredicatesTakeTheirShare) {
  const auto bytes = [](const char* trips) {
    return cost_of(fmt::format(R"(kernel @g(%x: in f32[n], %y: out f32[n]) {{
  grid g in floordiv(n, 256) {{
    seq s in {} {{
      block t in 256 {{
        v1: f32 = load x[256*g + t]
        store y[256*g + t], v1
      }}
    }}
  }}
}})",
                               trips),
                   gpu(), {1 << 20})
        .written;
  };
  EXPECT_EQ(bytes("1"), 4.0 * (1 << 20));
  EXPECT_NEAR(bytes("max(0, min(1, 2048 - g))"), 2.0 * (1 << 20), 0.3 * (1 << 20));
}

TEST(Cost, GatheredRowsOfASerialThreadAreSlow) {
  const auto rows = [](const char* text) { return cost_of(text, gpu(), {128}).predicted_us; };
  const double serial = rows(R"(kernel @g(%i: in i64[n], %x: in f32[32000, 1024], %y: out f32[n]) {
  grid g in 1 {
    block t in n {
      v1: i64 = load i[t]
      v2: f32 = reduce.add tree(1, 0) seq s in 1024 {
        v3: f32 = load x[v1, s] clamp(0)
        yield v3
      }
      store y[t], v2
    }
  }
})");
  const double parallel = rows(R"(kernel @g(%i: in i64[n], %x: in f32[32000, 1024], %y: out f32[n]) {
  grid g in n {
    v1: i64 = load i[g]
    v2: f32 = reduce.add tree(1024, 0) block t in 1024 {
      v3: f32 = load x[v1, t] clamp(0)
      yield v3
    }
    store y[g], v2
  }
})");
  EXPECT_GT(serial, 100);
  EXPECT_LT(parallel, 10);
}

constexpr char kHostRows[] = R"(kernel @h(%x: in f32[n, 4096], %y: out f32[n, 4096]) {
  grid g in n {
    seq s in 512 {
      v1: f32.8 = load x[g, 8*s + lane]
      v2: f32.8 = exp v1
      store y[g, 8*s + lane], v2
    }
  }
})";

TEST(Cost, ThreadsOfACpuShareTasks) {
  const double one = cost_of(kHostRows, cpu(1), {1024}).predicted_us;
  const double four = cost_of(kHostRows, cpu(4), {1024}).predicted_us;
  EXPECT_LT(four, 0.5 * one);
  EXPECT_GT(four, 0.2 * one);
  // A single task has one thread.
  EXPECT_EQ(cost_of(kHostRows, cpu(4), {1}).predicted_us, cost_of(kHostRows, cpu(1), {1}).predicted_us);
}

TEST(Cost, PlainStoresOfACpuFetchTheirLines) {
  std::string text = kHostRows;
  const Target target = cpu(2);
  const double plain = cost_of(text, target, {32768}).phases[0].memory_us;
  text.replace(text.find("store y"), 7, "store.stream y");
  text.replace(text.find("out f32[n, 4096]"), 16, "out f32[n, 4096] align 64");
  EXPECT_LT(cost_of(text, target, {32768}).phases[0].memory_us, 0.9 * plain);
}

TEST(Cost, FollowsTheModel) {
  const std::string text = pointwise("v2: f32.4 = exp v1");
  Target slow = gpu();
  slow.model.memory_copy.value /= 2;
  slow.model.memory_read.value /= 2;
  EXPECT_GT(cost_of(text, slow, {kElements}).predicted_us, 1.7 * cost_of(text, gpu(), {kElements}).predicted_us);
  EXPECT_EQ(cost_of(text, slow, {kElements}).predicted_us, cost_of(text, slow, {kElements}).predicted_us);
}

TEST(Cost, EmptyAndUnknownExtentsAreFinite) {
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{0}, std::vector<int64_t>{}}) {
    for (const Target& target : {gpu(), cpu(2)}) {
      const KernelCost c = cost_of(pointwise("v2: f32.4 = neg v1"), target, extents);
      EXPECT_EQ(c.read + c.written, 0);
      EXPECT_TRUE(std::isfinite(c.predicted_us) && std::isfinite(c.bound_us));
      EXPECT_GT(c.predicted_us, 0);
    }
  }
}

TEST(Cost, RoundedToThreeDigits) {
  EXPECT_EQ(rounded(123.4567), 123);
  EXPECT_EQ(rounded(1.23456), 1.23);
  EXPECT_EQ(rounded(0.0123456), 0.0123);
  EXPECT_EQ(rounded(987654), 988000);
  EXPECT_EQ(rounded(999.9), 1000);
  EXPECT_EQ(rounded(0), 0);
  EXPECT_EQ(rounded(std::nan("")), 0);
}

TEST(MachineModel, TheTableHasEveryFigure) {
  const std::vector<FigureInfo> figures = machine_figures();
  EXPECT_EQ(figures.size() * sizeof(Figure), sizeof(MachineModel));
  for (const std::string& name : target_names()) {
    const Target target = *named_target(name);
    for (const FigureInfo& figure : figures) {
      EXPECT_GT((target.model.*figure.member).value, 0) << name << " " << figure.name;
      EXPECT_NE((target.model.*figure.member).source, FigureSource::measured) << name << " " << figure.name;
    }
  }
  EXPECT_EQ(gpu().model.memory_copy.source, FigureSource::reference);
  EXPECT_EQ(named_target("sm_80")->model.memory_copy.source, FigureSource::published);
}

TEST(MachineModel, TheDigestFollowsTheValues) {
  MachineModel model = gpu().model;
  const std::string digest = machine_digest(model);
  EXPECT_EQ(digest.size(), 16u);
  model.launch.source = FigureSource::measured;
  EXPECT_EQ(machine_digest(model), digest);
  for (const FigureInfo& figure : machine_figures()) {
    MachineModel other = model;
    (other.*figure.member).value += 1;
    EXPECT_NE(machine_digest(other), digest) << figure.name;
  }
}

}  // namespace
}  // namespace fusec::ir
