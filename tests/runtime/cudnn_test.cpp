// SPDX-License-Identifier: Apache-2.0
// What is asked of cuDNN, done by a fake of it on host memory, against double loops.
#include <gtest/gtest.h>

#if FUSEC_WITH_CUDA

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "compiler/passes/passes.h"
#include "ir/text/graph_text.h"
#include "runtime/library/cudnn/build.h"
#include "runtime/library/cudnn/cudnn.h"
#include "tests/runtime/cuda_cases.h"
#include "tests/runtime/cudnn_fake.h"
#include "tests/runtime/host_device_memory.h"
#include "tests/runtime/library_case.h"
#include "tests/sanitized.h"

namespace fusec::runtime {
namespace {

using cudnn::AttentionSpec;
using cudnn::ConvSpec;
using cudnn::CudnnPlan;
using cudnn::EpilogueSpec;
using cudnn::PoolSpec;
using cudnn::TensorSpec;
using ir::ScalarOp;
using ir::TensorOp;
using testing::Case;
using testing::check;
using testing::Extents;
using testing::FakeWork;
using testing::for_all;
using testing::Image;
using testing::image_case;
using testing::image_cases;
using testing::image_extents;
using testing::spec_load;
using testing::spec_store;
using testing::window_attrs;

bool is_dense_spec(const TensorSpec& t, bool last) {
  std::vector<std::size_t> axes;
  if (last) axes.push_back(1);
  for (std::size_t i = t.dims.size(); i-- > 2;) axes.push_back(i);
  if (!last) axes.push_back(1);
  axes.push_back(0);
  int64_t next = 1;
  for (const std::size_t axis : axes) {
    if (t.strides[axis] != next) return false;
    next *= t.dims[axis];
  }
  return true;
}

// Takes what the flags say.
struct FakeBackend : cudnn::Backend {
  std::size_t most_posts = 3;
  bool fuses = true, takes_views = true, takes_last = true, takes_first = true;
  std::vector<std::string> plans = {"eng0"};  // of every convolution that it takes
  std::vector<std::string> broken;            // of these, the ones that cannot be built
  int64_t most_images = 32;                   // but for 32
  std::vector<ConvSpec> convs;                // that were taken
  std::vector<PoolSpec> pools;

  static Result<std::unique_ptr<CudnnPlan>> make(std::string name, std::size_t workspace,
                                                 std::function<void(void* const*)> work) {
    return std::unique_ptr<CudnnPlan>(std::make_unique<FakeWork>(std::move(name), workspace, std::move(work)));
  }
  static Result<std::unique_ptr<CudnnPlan>> no() { return Status(StatusCode::unsupported, "the fake objects"); }

  Result<std::vector<cudnn::CudnnPlanInfo>> conv_plans(const ConvSpec& s) override {
    if (!takes(s)) return no().status();
    std::vector<cudnn::CudnnPlanInfo> out;
    for (const std::string& plan : plans) out.push_back({plan});
    return out;
  }

  Result<std::vector<cudnn::CudnnPlanInfo>> attention_plans(const AttentionSpec&) override { return no().status(); }

  Result<std::unique_ptr<CudnnPlan>> conv(const ConvSpec& s) override {
    const auto has = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), s.plan) != list.end();
    };
    if (s.in.dims[0] != 32 && s.in.dims[0] > most_images) return no();
    if (!takes(s) || (!s.plan.empty() && (!has(plans) || has(broken)))) return no();
    convs.push_back(s);
    return make("conv" + s.plan, 640, [s](void* const* p) { run_conv(s, p); });
  }

  bool takes(const ConvSpec& s) const {
    if (s.in.dims.size() < 4 || s.epilogues.size() > (fuses ? most_posts : 0)) return false;
    const bool last = is_dense_spec(s.filter, true), first = is_dense_spec(s.filter, false);
    if (!(last && takes_last) && !(first && takes_first)) return false;
    const bool dense = (last && takes_last && is_dense_spec(s.in, true) && is_dense_spec(s.out, true)) ||
                       (first && takes_first && is_dense_spec(s.in, false) && is_dense_spec(s.out, false));
    return takes_views || dense;
  }

  static double apply(const EpilogueSpec& epilogue, double value, const Extents& at, void* operand) {
    if (!epilogue.operand) return ir::eval_scalar(ScalarOp::relu, value, 0, 0);
    return value + spec_load(*epilogue.operand, operand, at);
  }

  static void run_conv(const ConvSpec& s, void* const* p) {
    const int64_t groups = s.in.dims[1] / s.filter.dims[1];
    for_all(s.out.dims, [&](const Extents& at) {
      double sum = 0;
      for_all({s.filter.dims.begin() + 1, s.filter.dims.end()}, [&](const Extents& k) {
        Extents x = at, w{at[1]};
        w.insert(w.end(), k.begin(), k.end());
        x[1] = at[1] / (s.filter.dims[0] / groups) * s.filter.dims[1] + k[0];
        for (std::size_t i = 0; i + 2 < at.size(); ++i) {
          x[2 + i] = at[2 + i] * s.window.strides[i] + k[1 + i] * s.window.dilations[i] - s.window.before[i];
          if (x[2 + i] < 0 || x[2 + i] >= s.in.dims[2 + i]) return;
        }
        sum += spec_load(s.in, p[0], x) * spec_load(s.filter, p[1], w);
      });
      std::size_t next = 2;
      for (const EpilogueSpec& epilogue : s.epilogues)
        sum = apply(epilogue, sum, at, epilogue.operand ? p[next++] : nullptr);
      spec_store(s.out, p[next], at, sum);
    });
  }

  Result<std::unique_ptr<CudnnPlan>> attention(const AttentionSpec&) override { return no(); }

  // As cuDNN's documentation has it: the same padding at both ends, the window in full when padding counts.
  Result<std::unique_ptr<CudnnPlan>> pool(const PoolSpec& s) override {
    pools.push_back(s);
    for (std::size_t i = 0; i < s.kernel.size(); ++i) {
      const int64_t room = s.in.dims[2 + i] + 2 * s.padding[i] - s.kernel[i];
      EXPECT_GE(room, 0);
      EXPECT_EQ(room / s.strides[i] + 1, s.out.dims[2 + i]);
    }
    return make("pooling", 0, [s](void* const* p) {
      for_all(s.out.dims, [&](const Extents& at) {
        double sum = 0, best = -INFINITY, places = 0;
        for_all(s.kernel, [&](const Extents& k) {
          Extents x = at;
          bool inside = true;
          for (std::size_t i = 0; i < k.size(); ++i) {
            x[2 + i] = at[2 + i] * s.strides[i] + k[i] - s.padding[i];
            inside = inside && x[2 + i] >= 0 && x[2 + i] < s.in.dims[2 + i];
          }
          if (inside) sum += spec_load(s.in, p[0], x), best = std::max(best, spec_load(s.in, p[0], x));
          places += inside || s.count_include_pad;
        });
        spec_store(s.out, p[1], at, s.is_max ? best : sum / places);
      });
    });
  }

  Result<std::unique_ptr<CudnnPlan>> copy(const TensorSpec& from, const TensorSpec& to) override {
    return make("copy", 0, [from, to](void* const* p) {
      for_all(to.dims, [&](const Extents& at) { spec_store(to, p[1], at, spec_load(from, p[0], at)); });
    });
  }
  Result<std::unique_ptr<CudnnPlan>> fill(const TensorSpec& out, double value) override {
    return make("fill", 0, [out, value](void* const* p) {
      for_all(out.dims, [&](const Extents& at) { spec_store(out, p[0], at, value); });
    });
  }
  Result<std::unique_ptr<CudnnPlan>> epilogue(const EpilogueSpec& epilogue, const TensorSpec& out) override {
    return make(epilogue.operand ? "add" : "activation", 0, [epilogue, out](void* const* p) {
      void* const to = p[epilogue.operand ? 1 : 0];
      for_all(out.dims,
              [&](const Extents& at) { spec_store(out, to, at, apply(epilogue, spec_load(out, to, at), at, p[0])); });
    });
  }
};

class Cudnn : public ::testing::Test {
 protected:
  std::shared_ptr<Library> make(const Options& options = {}) { return make_cudnn_library(options, memory_, fake_); }
  std::string run(Case c, double tolerance = 3e-6) { return check(*make(), c, tolerance); }

  std::shared_ptr<testing::HostDeviceMemory> memory_ = std::make_shared<testing::HostDeviceMemory>();
  std::shared_ptr<FakeBackend> fake_ = std::make_shared<FakeBackend>();
};

TEST_F(Cudnn, ConvolutionsWhateverItTakes) {
  for (const bool fuses : {true, false}) {
    for (const bool views : {true, false}) {
      for (const int layouts : {3, 2, 1}) {
        fake_->fuses = fuses, fake_->takes_views = views;
        fake_->takes_last = (layouts & 2) != 0, fake_->takes_first = (layouts & 1) != 0;
        for (const Image& s : image_cases()) {
          for (const bool last : {true, false}) {
            for (const bool constant : testing_support::sampled(std::vector{true, false})) {
              SCOPED_TRACE(::testing::PrintToString(s.kernel) +
                           ::testing::PrintToString(std::vector{fuses, views, last, constant}) +
                           std::to_string(layouts));
              EXPECT_EQ(run(image_case(s, last, constant, constant ? 0 : 3)).substr(0, 6), "cudnn ");
            }
          }
        }
      }
    }
  }
}

TEST_F(Cudnn, Types) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f16, 2e-3}, {DType::bf16, 1.6e-2}, {DType::f64, 1e-15}}) {
    for (const bool fuses : {true, false}) {
      fake_->fuses = fuses;
      EXPECT_EQ(run(image_case(image_cases()[0], true, true, 0, dtype), tolerance),
                fuses ? "cudnn conv" : "cudnn conv + add + add + activation");
    }
  }
  EXPECT_TRUE(make()->get_unsupported_reason(*image_case(image_cases()[0], true, true, 0, DType::i32).step));
}

// cuDNN has plans for slices of wider 16-bit images that take them for dense.
TEST_F(Cudnn, SlicesOf16BitImagesAreCopied) {
  const Image& slices = image_cases()[1];
  EXPECT_EQ(run(image_case(slices, true, true, 3, DType::f16), 2e-3), "cudnn copy + conv + copy");
  EXPECT_EQ(run(image_case(slices, true, true, 3, DType::f32)), "cudnn conv");
}

// No channels, and no image inside of the padding: bias, addend and relu of zeros.
TEST_F(Cudnn, NothingToSum) {
  const Image no_channels{2, 0, 8, {5, 7}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  const Image no_image{2, 3, 8, {0, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  for (const bool last : {false, true}) {
    for (const bool constant : {false, true}) {
      EXPECT_EQ(run(image_case(no_channels, last, constant)), "cudnn conv");
      EXPECT_EQ(run(image_case(no_image, last, constant)), "cudnn conv");
    }
  }
  EXPECT_TRUE(make()->algorithms(image_case(no_image, true).call).empty());
}

TEST_F(Cudnn, TheAddendComesBeforeTheBias) {
  run(image_case(image_cases()[0], true));
  ASSERT_EQ(fake_->convs.size(), 1U);
  ASSERT_EQ(fake_->convs[0].epilogues.size(), 3U);
  EXPECT_EQ(fake_->convs[0].epilogues[0].operand->dims, fake_->convs[0].out.dims);
  EXPECT_EQ(fake_->convs[0].epilogues[1].operand->dims, (Extents{1, 16, 1, 1}));
  EXPECT_FALSE(fake_->convs[0].epilogues[2].operand);
}

// cuDNN's ready-made plans have a bias; zeros are made once.
TEST_F(Cudnn, AnEpilogueWithoutABiasGetsZeros) {
  const auto library = make();
  for (int i = 0; i < 2; ++i) {
    Case c = image_case(image_cases()[0], false);
    c.step->bias = -1;
    EXPECT_EQ(check(*library, c), "cudnn conv");
  }
  ASSERT_FALSE(fake_->convs.empty());
  ASSERT_EQ(fake_->convs[0].epilogues.size(), 3U);
  EXPECT_EQ(fake_->convs[0].epilogues[1].operand->dims, (Extents{1, 16, 1, 1}));
  EXPECT_EQ(memory_->made, 1);
  fake_->most_posts = 2;
  Case c = image_case(image_cases()[0], false);
  c.step->bias = -1;
  EXPECT_EQ(check(*make(), c), "cudnn conv");
  EXPECT_EQ(fake_->convs.back().epilogues.size(), 2U);
  Case bare = image_case(image_cases()[0], false);
  bare.step->bias = -1;
  bare.step->epilogues.clear();
  EXPECT_EQ(check(*make(), bare), "cudnn conv");
  EXPECT_EQ(fake_->convs.back().epilogues.size(), 0U);
}

TEST_F(Cudnn, FiltersArePackedOnce) {
  const auto library = make();
  Case c = image_case(image_cases()[0], true);
  for (int i = 0; i < 3; ++i) check(*library, c);
  EXPECT_EQ(memory_->made, 1);
  EXPECT_EQ(fake_->convs.back().filter.strides, (Extents{27, 1, 9, 3}));
  Case planes = image_case(image_cases()[0], false);
  check(*library, planes);
  EXPECT_EQ(memory_->made, 1);  // a channels-first filter is what the model holds
}

// A batch of 1, one channel, one place: strides of extents 1 are what a dense image has.
TEST_F(Cudnn, StridesOfUnitAxes) {
  fake_->takes_views = false;
  for (const Image& s : image_cases()) {
    SCOPED_TRACE(::testing::PrintToString(s.kernel));
    EXPECT_EQ(run(image_case(s, true)), "cudnn conv");
  }
}

TEST_F(Cudnn, Pools) {
  struct Shape {
    Extents in, kernel, strides, pads, out;
    bool ceil = false;
    const char *average = "cudnn pooling", *including = "cudnn pooling", *max = "cudnn pooling";
  };
  const char* const alike = "unsupported: both ends are padded alike";
  const char* const past = "unsupported: no places past the padding are counted";
  const std::vector<Shape> shapes = {
      {{7, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {4, 4}},
      {{8, 6}, {2, 3}, {2, 1}, {0, 1, 0, 1}, {4, 6}},
      {{9}, {3}, {3}, {0, 0}, {3}},
      {{5, 4, 6}, {3, 2, 2}, {1, 2, 2}, {1, 0, 0, 1, 0, 0}, {5, 2, 3}},
      {{7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      // the end is padded less than the beginning, but the last window would reach no further
      {{8, 8}, {3, 3}, {2, 2}, {1, 1, 0, 0}, {4, 4}},
      {{8, 8}, {2, 2}, {1, 1}, {0, 0, 1, 1}, {8, 8}, false, alike, alike, alike},
      {{8, 1}, {2, 2}, {2, 2}, {0, 0, 0, 1}, {4, 1}, false, alike, alike, alike},  // one window, larger than what is
                                                                                   // alike
      {{8, 8}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {4, 4}, true, alike, alike, alike},
      {{7, 7}, {2, 2}, {2, 2}, {1, 1, 0, 0}, {4, 4}},
      {{6, 6}, {2, 2}, {2, 2}, {1, 1, 0, 0}, {4, 4}, true, "cudnn pooling", past, "cudnn pooling"},
  };
  for (const Shape& s : shapes) {
    for (const int kind : {0, 1, 2}) {
      SCOPED_TRACE(::testing::PrintToString(s.in) + ::testing::PrintToString(s.kernel) + std::to_string(kind));
      Case c(kind == 2 ? TensorOp::max_pool : TensorOp::avg_pool,
             window_attrs(s.kernel, s.strides, s.pads, s.ceil, kind == 1, kind == 2));
      c.add(image_extents(2, 5, s.in, true));
      c.add(image_extents(2, 5, s.out, true));
      EXPECT_EQ(run(std::move(c)), kind == 0 ? s.average : kind == 1 ? s.including : s.max);
    }
  }
}

// Windows of padding alone.
TEST_F(Cudnn, PoolsOfNothing) {
  for (const bool last : {false, true}) {
    for (const int kind : {0, 1, 2}) {
      for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
        Case c(kind == 2 ? TensorOp::max_pool : TensorOp::avg_pool,
               window_attrs({3, 2}, {1, 2}, {2, 1, 2, 1}, false, kind == 1, kind == 2));
        c.step->compute = compute_type(dtype);
        c.add(image_extents(2, 5, {0, 4}, last), {}, false, dtype);
        c.add(image_extents(2, 5, {2, 3}, last), {}, false, dtype);
        EXPECT_EQ(run(std::move(c)), "cudnn fill");
      }
    }
  }
}

// Whether the library takes this pool of the graph for a batch of 2 and this extent of its first spatial axis.
bool takes_pool(Library& library, const ir::Graph& graph, const ir::Node& node, int64_t extent) {
  const DType dtype = graph.type(node.output).dtype;
  Case c(node.op.tensor(), node.attrs);
  c.step->compute = compute_type(dtype);
  for (const ir::ValueId v : {node.inputs[0], node.output}) {
    Extents shape;
    for (const Dim& d : graph.type(v).shape) {
      shape.push_back(*d.eval({{"N", 2}, {"H", extent}}));
    }
    if (testing::count(shape) == 0) return true;  // a step without results is not bound
    c.add(shape, {}, false, dtype);
  }
  return !library.get_unsupported_reason(*c.step) && library.bind(c.call).ok();
}

struct PoolGraph {
  ir::Graph graph;
  ir::Node node;
};

// nullopt: the window does not fit.
std::optional<PoolGraph> pool_graph(TensorOp op, DType dtype, Shape shape, const ir::Attrs& attrs) {
  if (!ir::infer_type(op, {{dtype, shape}}, attrs).ok()) return std::nullopt;
  PoolGraph p;
  p.graph.symbols = {"N", "H"};
  const ir::ValueId x = add_input(p.graph, "x", {dtype, std::move(shape)});
  const ir::ValueId y = add_node(p.graph, op, {x}, attrs);
  p.node = p.graph.nodes[p.graph.values[y].producer];
  return p;
}

// The compiler decides by the same table as the library, but for extents that it may not know.
TEST_F(Cudnn, TheCompilerKnowsWhichPoolsItTakes) {
  const auto library = make();
  int taken = 0, lacking = 0;
  const auto expect_known = [&](const PoolGraph& p, bool known) {
    const auto lacks = compiler::library_lacks(ir::library_capabilities("cudnn"), p.graph, p.node);
    bool always = true;
    const int64_t least = known ? 1 : 0, most = known ? 1 : 12;
    const auto &kernel = p.node.attrs.ints("kernel"), &pads = p.node.attrs.ints("pads"),
               &dilations = p.node.attrs.ints("dilations");
    for (int64_t extent = least; extent <= most; ++extent) {
      const bool fits = known || extent + pads[0] + pads[kernel.size()] > dilations[0] * (kernel[0] - 1);
      if (fits) always = always && takes_pool(*library, p.graph, p.node, extent);
    }
    EXPECT_TRUE(lacks || always) << ir::print(p.graph);
    EXPECT_FALSE(known && lacks && always) << *lacks << "\n" << ir::print(p.graph);
    ++(lacks ? lacking : taken);
  };
  int64_t number = 0;
  for_all({2, 3, 3, 4, 4, 2, 2, 8}, [&](const Extents& at) {
    if (number++ % testing_support::many_or(1, 5) != 0) return;
    const bool ceil = at[0] == 1;
    const int64_t kernel = at[1] + 1, stride = at[2] + 1, before = at[3], after = at[4], dilation = at[5] + 1;
    const bool with_width = at[6] == 1;
    const Dim extent = at[7] == 7 ? Dim::symbol("H") : Dim(at[7] + 1);
    for (const int kind : {0, 1, 2}) {
      const Extents pads = with_width ? Extents{before, 0, after, 0} : Extents{before, after};
      ir::Attrs attrs =
          window_attrs(with_width ? Extents{kernel, 1} : Extents{kernel},
                       with_width ? Extents{stride, 1} : Extents{stride}, pads, ceil, kind == 1, kind == 2);
      attrs.set("dilations", with_width ? Extents{dilation, 1} : Extents{dilation});
      const Shape shape = with_width ? Shape{Dim::symbol("N"), extent, 3, 4} : Shape{Dim::symbol("N"), extent, 4};
      const auto p = pool_graph(kind == 2 ? TensorOp::max_pool : TensorOp::avg_pool, DType::f32, shape, attrs);
      if (p) expect_known(*p, extent.is_const());
    }
  });
  EXPECT_GT(taken, testing_support::many_or(500, 100));
  EXPECT_GT(lacking, testing_support::many_or(500, 100));
}

TEST_F(Cudnn, TheCompilerKnowsWhichTypesAndRanksItPools) {
  const auto library = make();
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::i64}) {
    for (const std::size_t axes : {1U, 2U, 3U, 4U}) {
      const Extents two(axes, 2), one(axes, 1), none(2 * axes, 0);
      Shape shape(axes + 2, 4);
      const auto p = pool_graph(TensorOp::max_pool, dtype, shape, window_attrs(two, one, none, false, false, true));
      ASSERT_TRUE(p);
      const bool known = !compiler::library_lacks(ir::library_capabilities("cudnn"), p->graph, p->node);
      EXPECT_EQ(known, takes_pool(*library, p->graph, p->node, 4)) << axes << to_string(dtype);
    }
  }
}

TEST_F(Cudnn, Refusals) {
  Case matmul(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  EXPECT_EQ(make()->get_unsupported_reason(*matmul.step), "cuDNN is not asked for matmul");
  fake_->takes_last = fake_->takes_first = false;
  EXPECT_EQ(run(image_case(image_cases()[0], true)), "unsupported: the fake objects");
}

// Slices that begin at odd places are said to; memory of the caller is asked for no more than that.
TEST_F(Cudnn, Alignments) {
  Case c = image_case(image_cases()[0], true);
  c.call.args[0].offset = 4 * 6;
  c.call.args[1].offset = 4;
  auto op = make()->bind(c.call);
  ASSERT_TRUE(op.ok());
  EXPECT_EQ(fake_->convs[0].in.alignment, 8);
  EXPECT_EQ(fake_->convs[0].filter.alignment, 16);  // packed
  EXPECT_EQ(fake_->convs[0].out.alignment, 16);
  const std::size_t last = c.call.args.size() - 1;
  EXPECT_EQ((*op)->alignment(0), 8);
  EXPECT_EQ((*op)->alignment(1), 1);
  EXPECT_EQ((*op)->alignment(last), 16);
}

TEST_F(Cudnn, Choices) {
  fake_->plans = {"eng0", "eng1_k2=4", "eng7"};
  fake_->broken = {"eng7"};
  const auto library = make();
  Case c = image_case(image_cases()[0], true);
  std::vector<std::string> ids;
  for (const Algorithm& algorithm : library->algorithms(c.call)) ids.push_back(algorithm.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"direct/fused eng0", "direct/fused eng1_k2=4", "direct/fused eng7",
                                           "direct/bare eng0", "direct/bare eng1_k2=4", "direct/bare eng7",
                                           "first/fused eng0", "first/fused eng1_k2=4", "first/fused eng7"}));
  EXPECT_TRUE(fake_->convs.empty());
  c.call.algorithm = "direct/fused eng1_k2=4";
  EXPECT_EQ(check(*library->clone(0), c), "cudnn conveng1_k2=4");
  c.call.algorithm = "direct/bare eng1_k2=4";
  EXPECT_EQ(check(*library, c), "cudnn conveng1_k2=4 + add + add + activation");
  c.call.algorithm = "first/fused eng0";
  EXPECT_EQ(check(*library, c), "cudnn copy + conveng0 + copy");
  EXPECT_TRUE(is_dense_spec(fake_->convs.back().in, false));
  EXPECT_TRUE(is_dense_spec(fake_->convs.back().filter, false));
  for (const char* gone : {"direct/fused eng9", "direct/fused eng7", "nonsense"}) {
    c.call.algorithm = gone;
    EXPECT_EQ(library->bind(c.call).status().code(), StatusCode::unsupported) << gone;
  }
  fake_->fuses = false;
  EXPECT_EQ(library->algorithms(c.call).size(), 6U);
}

// Channels first is listed beside channels last only where cuDNN converts images and a constant filter on each call.
TEST_F(Cudnn, StagingIsListedWhereItMayPay) {
  const auto count = [&](const Case& c) { return make()->algorithms(c.call).size(); };
  const Image window = image_cases()[0], point{1, 8, 8, {9, 9}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}};
  Image grouped{1, 8, 8, {9, 9}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  EXPECT_EQ(count(image_case(window, true)), 3U);  // fused and bare as it lies, fused channels first
  EXPECT_EQ(count(image_case(window, false)), 2U);
  EXPECT_EQ(count(image_case(window, true, false)), 2U);
  EXPECT_EQ(count(image_case(window, true, true, 0, DType::f16)), 2U);
  EXPECT_EQ(count(image_case(point, true)), 2U);
  EXPECT_EQ(count(image_case(grouped, true)), 3U);
  grouped.groups = 8;
  EXPECT_EQ(count(image_case(grouped, true)), 2U);
}

TEST_F(Cudnn, EqualConvolutionsShareOnePlan) {
  const auto library = make();
  Case c = image_case(image_cases()[0], true), other = image_case(image_cases()[3], true);
  const auto a = library->bind(c.call), b = library->bind(c.call), d = library->bind(other.call);
  ASSERT_TRUE(a.ok() && b.ok() && d.ok());
  EXPECT_EQ(fake_->convs.size(), 2U);
}

TEST_F(Cudnn, EqualPlansThatSeveralThreadsAskForAreBuiltOnce) {
  struct Slow : FakeBackend {
    std::atomic<int> builds = 0, asking = 0;
    Result<std::unique_ptr<CudnnPlan>> conv(const ConvSpec&) override {
      ++builds;
      while (asking < 8) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // so that the others are inside of get()
      return make("conv", 0, [](void* const*) {});
    }
  } backend;
  cudnn::GraphPlans plans;
  ConvSpec one, other;
  other.plan = "eng1";
  std::array<std::shared_ptr<const CudnnPlan>, 8> got;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      ++backend.asking;
      if (auto work = plans.get(backend, i % 2 == 0 ? one : other); work.ok()) got[i] = *work;
    });
  }
  threads.clear();
  EXPECT_EQ(backend.builds, 2);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] != nullptr && got[i] == got[i % 2]);
  EXPECT_NE(got[0], got[1]);
}

TEST_F(Cudnn, OptionsReachTheBackend) {
  Options options;
  options.tf32 = true;
  options.workspace_limit = 12345;
  Case c = image_case(image_cases()[0], true);
  check(*make(options), c);
  EXPECT_TRUE(fake_->convs[0].tf32);
  EXPECT_EQ(fake_->convs[0].workspace_limit, 12345U);
}

// The plan for 32 images serves every batch; where it does not, nothing else is tried.
TEST_F(Cudnn, BatchInvariantPlans) {
  Options options;
  options.batch_invariant = true;
  fake_->plans = {"eng1", "eng2"};
  fake_->broken = {"eng1"};
  for (const int64_t images : {1, 3}) {
    Image image = image_cases()[0];
    image.n = images;
    fake_->convs.clear();
    Case c = image_case(image, true);
    EXPECT_EQ(check(*make(options), c), "cudnn conveng2");
    ASSERT_EQ(fake_->convs.size(), 2U);
    EXPECT_EQ(fake_->convs[0].in.dims[0], 32);
    EXPECT_EQ(fake_->convs[0].out.dims[0], 32);
    EXPECT_EQ(fake_->convs[0].epilogues[0].operand->dims[0], 32);
    EXPECT_EQ(fake_->convs[0].epilogues[1].operand->dims[0], 1);
    EXPECT_EQ(fake_->convs[1].in.dims[0], images);
    EXPECT_EQ(fake_->convs[1].plan, "eng2");
  }
  fake_->most_images = 3;
  Image other = image_cases()[0];
  other.n = 4;
  const Case c = image_case(other, true);
  const auto op = make(options)->bind(c.call);
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(op.status().message().find("batch-invariant"), std::string::npos);
}

// Engines that lose NaN or -inf are left out in exact numerics alone.
TEST_F(Cudnn, EnginesAreLeftOutInExactAlone) {
  const auto left_out = [&](Numerics numerics, DType dtype, const char* epilogues) {
    Options options;
    options.numerics = numerics;
    Case c = image_case(image_cases()[0], true, true, 0, dtype, epilogues);
    fake_->convs.clear();
    EXPECT_EQ(check(*make(options)->clone(0), c, 2e-3), "cudnn conv");
    return cudnn::barred_engines(fake_->convs.at(0));
  };
  using Names = std::vector<std::string>;
  for (const char* epilogues : {"b", "bar"}) {
    EXPECT_EQ(left_out(Numerics::precise, DType::f16, epilogues), Names());
    EXPECT_EQ(left_out(Numerics::fast, DType::f16, epilogues), Names());
    EXPECT_EQ(left_out(Numerics::exact, DType::f32, epilogues), Names());
  }
  EXPECT_EQ(left_out(Numerics::exact, DType::f16, "bar"), (Names{"eng6_k25=2", "eng39_"}));
  EXPECT_EQ(left_out(Numerics::exact, DType::f16, "b"), (Names{"eng6_k25=2", "eng32_", "eng47_"}));
}

// Engine 5 is left out where it computes wrong values: filters per group that are padded more in front.
TEST_F(Cudnn, WrongEnginesAreAlwaysLeftOut) {
  const auto left_out = [&](int64_t before, int64_t after, int64_t groups, DType dtype) {
    fake_->convs.clear();
    Case c = image_case({2, 4, 4, {5, 5}, {3, 3}, {1, 1}, {0, before, 0, after}, {1, 1}, groups}, true, true, 0, dtype);
    EXPECT_EQ(check(*make(Options())->clone(0), c, 2e-3), "cudnn conv");
    return !cudnn::barred_engines(fake_->convs.at(0)).empty();
  };
  EXPECT_TRUE(left_out(1, 0, 4, DType::f32));
  EXPECT_FALSE(left_out(0, 1, 4, DType::f32));
  EXPECT_FALSE(left_out(1, 1, 4, DType::f32));
  EXPECT_FALSE(left_out(1, 0, 1, DType::f32));
  EXPECT_FALSE(left_out(1, 0, 4, DType::f16));
}

}  // namespace
}  // namespace fusec::runtime

#endif
