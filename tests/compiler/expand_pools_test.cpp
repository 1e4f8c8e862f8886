// SPDX-License-Identifier: Apache-2.0
// Pools that are written out give what the pools give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {
namespace {

using ir::TensorOp;
using Ints = std::vector<int64_t>;

struct Pool {
  Ints in, kernel, strides, pads, dilations;
  bool ceil = false;
  DType dtype = DType::f32;
  bool last = true, symbolic = false;
};

constexpr int64_t kBatch = 2, kChannels = 3;

// kind: 0: the largest, 1: the mean of what lies inside, 2: that of the padding too.
ir::Graph make_graph(const Pool& p, int kind) {
  ir::Graph g;
  Shape shape{Dim::symbol("N")};
  if (!p.last) shape.push_back(kChannels);
  for (const int64_t extent : p.in) shape.push_back(extent);
  if (p.last) shape.push_back(kChannels);
  g.symbols = {"N"};
  if (p.symbolic) {
    shape[p.last ? 1 : 2] = Dim::symbol("H");
    g.symbols.push_back("H");
  }
  ir::Attrs attrs{
      {"kernel", p.kernel},       {"strides", p.strides},         {"pads", p.pads},
      {"dilations", p.dilations}, {"ceil_mode", int64_t{p.ceil}}, {"layout", std::string(p.last ? "last" : "first")}};
  if (kind > 0) attrs.set("count_include_pad", int64_t{kind - 1});
  const ir::ValueId x = add_input(g, "x", {p.dtype, shape});
  add_output(g, add_node(g, kind == 0 ? TensorOp::max_pool : TensorOp::avg_pool, {x}, attrs), "y");
  return g;
}

bool expand(ir::Graph& g, const Target& target, const Options& options = {}) {
  const Result<bool> changed = run_pass(*find_pass("expand_pools"), g, {target, options});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  EXPECT_TRUE(verify(g, ir::GraphForm::optimized).ok()) << ir::print(g);
  g = compact(g);
  return *changed;
}

bool has_pool(const ir::Graph& g) {
  return std::any_of(g.order.begin(), g.order.end(), [&](ir::NodeId id) {
    return g.nodes[id].op == TensorOp::max_pool || g.nodes[id].op == TensorOp::avg_pool;
  });
}

double at(const Tensor& t, int64_t i) {
  return ir::load_double(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())));
}

// Of an average: one unit in the last place of 16-bit types, which both sides round to once; a few of others, whose
// sums differ in order and in the type they are added in.
double average_tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-15 : dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

// Some elements are NaN or infinite.
Tensor image(const Pool& p, bool special) {
  Ints shape{kBatch};
  if (!p.last) shape.push_back(kChannels);
  shape.insert(shape.end(), p.in.begin(), p.in.end());
  if (p.last) shape.push_back(kChannels);
  Tensor x = *ir::random_tensor(p.dtype, shape, 3);
  if (!special || !is_float(p.dtype)) return x;
  for (int64_t i = 0; i < x.num_elements(); i += 7) {
    const double value = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : INFINITY;
    ir::store_double(p.dtype, static_cast<char*>(x.data()) + i * static_cast<int64_t>(size_of(p.dtype)), value);
  }
  return x;
}

void expect_same(const Pool& p, int kind) {
  const ir::Graph before = make_graph(p, kind);
  ir::Graph after = before;
  Options options;
  options.use_library = false;  // all that are no small windows
  if (!expand(after, *named_target("sm_90"), options)) {
    EXPECT_EQ(kind, 0) << ir::print(before);
    return;
  }
  EXPECT_FALSE(has_pool(after));
  for (const bool special : {false, true}) {
    const std::vector<Tensor> inputs{image(p, special && kind == 0)};
    const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
    ASSERT_EQ((*want)[0].shape(), (*got)[0].shape());
    for (int64_t i = 0; i < (*want)[0].num_elements(); ++i) {
      const double w = at((*want)[0], i), g = at((*got)[0], i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      ASSERT_NEAR(g, w, kind == 0 ? 0 : average_tolerance(p.dtype) * (std::abs(w) + 1)) << i << "\n"
                                                                                        << ir::print(before);
    }
  }
}

bool fits(const Pool& p) {
  for (std::size_t i = 0; i < p.in.size(); ++i) {
    if (p.in[i] + p.pads[i] + p.pads[i + p.in.size()] < p.dilations[i] * (p.kernel[i] - 1) + 1) return false;
  }
  return true;
}

// An extent that is not known makes it reductions over axes.
TEST(ExpandPools, GivesWhatThePoolGives) {
  const std::vector<Ints> paddings{{0, 0, 0, 0}, {1, 2, 0, 3}, {4, 0, 4, 1}};
  for (const int64_t kernel : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        for (const Ints& pads : paddings) {
          for (const int64_t extent : {1, 4, 9}) {
            for (const int variant : {0, 1, 2, 3}) {
              Pool p{{extent, extent + 2}, {kernel, kernel}, {stride, stride}, pads, {dilation, dilation}};
              p.ceil = variant % 2 == 1;
              p.symbolic = variant / 2 == 1;
              if (!fits(p)) continue;
              for (const int kind : {0, 1, 2}) expect_same(p, kind);
            }
          }
        }
      }
    }
  }
}

TEST(ExpandPools, TypesRanksAndLayouts) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i64, DType::u32}) {
    for (const bool last : {true, false}) {
      for (const bool symbolic : {true, false}) {
        for (const int kind : {0, 1, 2}) {
          if (kind > 0 && !is_float(dtype)) continue;
          expect_same({{6, 5}, {3, 2}, {2, 1}, {1, 0, 2, 1}, {2, 1}, true, dtype, last, symbolic}, kind);
          expect_same({{9}, {4}, {2}, {1, 2}, {2}, false, dtype, last, symbolic}, kind);
          expect_same({{4, 3, 5}, {3, 2, 3}, {1, 1, 2}, {1, 0, 1, 1, 1, 1}, {1, 1, 1}, false, dtype, last, symbolic},
                      kind);
          expect_same({{60, 9}, {55, 5}, {1, 2}, {1, 2, 3, 0}, {1, 1}, true, dtype, last, symbolic}, kind);
          const Ints pads{1, 0, 0, 1, 0, 0, 0, 1};
          expect_same({{2, 3, 2, 2}, {2, 2, 1, 2}, {1, 1, 1, 2}, pads, {1, 1, 1, 1}, false, dtype, last, symbolic},
                      kind);
        }
      }
    }
  }
}

// Of 16-bit types, sums pass what the type counts to without loss.
TEST(ExpandPools, SumsAreWide) {
  for (const int64_t kernel : {7, 60}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Pool p{{kernel + 1, kernel}, {kernel, kernel}, {1, 1}, {0, 0, 0, 0}, {1, 1}, false, dtype};
      ir::Graph g = make_graph(p, 1);
      Options options;
      options.use_library = false;
      ASSERT_TRUE(expand(g, *named_target("sm_90"), options));
      Tensor x = image(p, false);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        ir::store_double(dtype, static_cast<char*>(x.data()) + 2 * i, i % 2 == 0 ? 30000 : 20000);
      }
      const auto y = ir::evaluate(g, {x});
      ASSERT_TRUE(y.ok());
      const auto want = ir::evaluate(make_graph(p, 1), {x});
      for (int64_t i = 0; i < (*y)[0].num_elements(); ++i) EXPECT_EQ(at((*y)[0], i), at((*want)[0], i));
    }
  }
}

TEST(ExpandPools, LeavesOthers) {
  Pool usual{{12, 12}, {5, 5}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  Pool dilated = usual;
  dilated.dilations = {2, 1};
  for (const int kind : {0, 1, 2}) {
    ir::Graph g = make_graph(dilated, kind);
    EXPECT_FALSE(expand(g, *named_target("x86-64-v3"))) << "plain loops do it";
    EXPECT_TRUE(expand(g, *named_target("sm_90")));
    g = make_graph(usual, kind);
    const bool is_max = kind == 0;
    EXPECT_EQ(expand(g, *named_target("sm_90")), !is_max) << "cuDNN does it, but slowly where it is an average";
    usual.symbolic = true;
    g = make_graph(usual, kind);
    EXPECT_FALSE(expand(g, *named_target("sm_90"))) << "cuDNN does it whatever the extent";
    usual.symbolic = false;
  }
  Pool small{{8, 8}, {2, 2}, {1, 1}, {0, 0, 1, 1}, {1, 1}};  // cuDNN does not, but partition
  ir::Graph g = make_graph(small, 0);
  EXPECT_FALSE(expand(g, *named_target("sm_90")));
  EXPECT_TRUE(expand(g = make_graph(small, 1), *named_target("sm_90")));
}

// Nothing is left to a library, whatever the options leave out.
TEST(ExpandPools, PartitionMakesKernelsOfIt) {
  Options options;
  for (const Pass& pass : pipeline()) options.disabled_passes.emplace_back(pass.name);
  for (const bool symbolic : {true, false}) {
    for (const int kind : {0, 1, 2}) {
      ir::Graph g =
          make_graph({{9, 12}, {3, 5}, {1, 2}, {1, 0, 2, 1}, {2, 1}, true, DType::f16, false, symbolic}, kind);
      const Target target = *named_target("sm_90");
      ASSERT_TRUE(optimize(g, target, options).ok());
      const auto parts = partition(g, target, options);
      ASSERT_TRUE(parts.ok()) << parts.status().str();
      for (const Region& region : parts->regions) EXPECT_NE(region.kind, RegionKind::anchor);
    }
  }
}

}  // namespace
}  // namespace fusec::compiler
