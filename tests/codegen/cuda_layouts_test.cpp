// SPDX-License-Identifier: Apache-2.0
// Graphs that permute, slice and combine layouts, lowered for a GPU. The kernels, run by their evaluator, give the bits
// of the graph's, the verifier proves them free of races, and the text of both writers does the same under the
// emulation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "ir/eval/graph.h"
#include "ir/eval/kernel.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/codegen/cuda_emulation_run.h"

namespace fusec::codegen_test {
namespace {

struct Layout {
  std::string text;  // of a graph
  ir::Kernel kernel;
  ir::KernelStep step;
  Extents extents;
  ir::Graph optimized;
  std::vector<Tensor> constants;
};

// The only kernel of a graph for a GPU of so many multiprocessors: few make large tiles of small tensors.
Result<Layout> lower_layout(const std::string& text, int multiprocessors) {
  Target target = named_target("sm_90").value();
  target.sm_count = multiprocessors;
  FUSEC_ASSIGN(ir::Graph graph, ir::parse_graph(text, {}));
  FUSEC_TRY(compiler::optimize(graph, target, {}));
  FUSEC_ASSIGN(const compiler::Partition parts, compiler::partition(graph, target, {}));
  FUSEC_ASSIGN(const ir::Program program, compiler::lower(graph, parts, target, {}));
  if (program.slots.size() != 1) return Status(StatusCode::internal, "more than one kernel");
  Layout out{text, {}, std::get<ir::KernelStep>(program.slots[0].variants[0].candidates[0].steps[0].v), {}, {}, {}};
  out.kernel = program.kernels[out.step.kernel];
  for (uint32_t i = 0; i < out.step.extents.size(); ++i)
    out.extents[out.kernel.extents[ir::ExtentId{i}]] = out.step.extents[i].value();
  // The step's allocations are the program's inputs in order, then its outputs, then its constants.
  for (ir::View& view : out.step.args) {
    const ir::Allocation& alloc = program.allocs[view.alloc];
    std::size_t position = alloc.ordinal;
    if (alloc.kind != ir::AllocKind::input) position += program.inputs.size();
    if (alloc.kind == ir::AllocKind::constant) position += program.outputs.size();
    view.alloc = ir::AllocId{static_cast<uint32_t>(position)};
  }
  out.constants = program.constants;
  out.optimized = std::move(graph);
  return out;
}

// The kernel with numbers for its extents: what the verifier cannot prove for all it can for these.
ir::Kernel with_numbers(const Layout& layout) {
  ir::Kernel kernel = layout.kernel;
  const auto fix = [&](ir::IndexExpr& e) {
    e = e.substitute([&](ir::SymbolId symbol) -> std::optional<ir::IndexExpr> {
      const auto extent = symbol.extent();
      return extent ? std::optional<ir::IndexExpr>(layout.extents.at(kernel.extents[*extent])) : std::nullopt;
    });
  };
  for (ir::Buffer& buffer : kernel.buffers)
    for (ir::IndexExpr& e : buffer.shape) fix(e);
  for_each_stmt(kernel.body, [&](ir::Stmt& stmt) { for_each_index(stmt, fix); });
  kernel.extents = {};
  kernel.divisible.clear();
  return kernel;
}

// `graph`: of the layout's text, or what optimize made of it.
void expect_like(const Layout& layout, const ir::Graph& graph) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Type& type = graph.type(graph.inputs[i]);
    std::vector<int64_t> shape;
    for (const Dim& d : type.shape) shape.push_back(d.value());
    tensors.push_back(ir::random_tensor(type.dtype, shape, i + 1).value());
  }
  const auto expected = ir::evaluate(graph, tensors);
  ASSERT_TRUE(expected.ok()) << expected.status().str();
  for (const Tensor& t : *expected) {
    tensors.push_back(Tensor::make(t.dtype(), t.shape()).value());
    std::memset(tensors.back().as<char>(), 0x5a, tensors.back().bytes());
  }
  tensors.insert(tensors.end(), layout.constants.begin(), layout.constants.end());
  const ir::Kernel kernel = with_numbers(layout);
  std::vector<Tensor> args;
  for (std::size_t p = 0; p < layout.step.args.size(); ++p) {
    const ir::View& view = layout.step.args[p];
    const ir::Buffer& buffer = kernel.buffers[kernel.params[p]];
    const Tensor& whole = tensors[view.alloc.index];
    args.push_back(Tensor::borrow(
        buffer.dtype, {num_elements(buffer.shape).value()},
        const_cast<char*>(whole.as<char>()) + view.offset.value() * static_cast<int64_t>(size_of(buffer.dtype)), {1}));
  }
  const auto done = ir::evaluate(kernel, args, {});
  ASSERT_TRUE(done.ok()) << done.status().str() << layout.text << ir::print(layout.kernel);
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const Tensor& got = tensors[graph.inputs.size() + i];
    EXPECT_EQ(std::memcmp(got.as<char>(), (*expected)[i].as<char>(), got.bytes()), 0)
        << layout.text << ir::print(layout.kernel);
  }
  for (const std::string& finding : ir::findings(kernel)) ADD_FAILURE() << finding << "\n" << ir::print(layout.kernel);
}

void expect_like_graph(const Layout& layout) {
  const auto graph = ir::parse_graph(layout.text, {});
  ASSERT_TRUE(graph.ok());
  expect_like(layout, *graph);
}

// y = transpose(x) or transpose(x) + b, of 4 axes.
std::string permuted(DType dtype, const std::vector<int64_t>& shape, const std::vector<int>& perm, bool addend) {
  const std::string t(to_string(dtype));
  std::vector<int64_t> turned;
  for (const int axis : perm) turned.push_back(shape[static_cast<std::size_t>(axis)]);
  const std::string in = fmt::format("{}[{}]", t, fmt::join(shape, ", ")),
                    out = fmt::format("{}[{}]", t, fmt::join(turned, ", "));
  return fmt::format("graph @main(%x: {}{}) {{\n  %0 = transpose %x {{perm = [{}]}}: {}\n", in,
                     addend ? ", %b: " + out : "", fmt::join(perm, ", "), out) +
         (addend ? "  %1 = max %0, %b: " + out + "\n  return %1 as \"y\"\n}\n" : "  return %0 as \"y\"\n}\n");
}

std::vector<std::vector<int>> permutations() {
  std::vector<int> perm{0, 1, 2, 3};
  std::vector<std::vector<int>> out;
  while (std::next_permutation(perm.begin(), perm.end())) out.push_back(perm);
  return out;
}

constexpr DType kSizes[] = {DType::u8, DType::f16, DType::f32, DType::i64};

TEST(CudaLayouts, EveryPermutationOfFourAxes) {
  for (const DType dtype : kSizes)
    for (const auto& perm : sampled(permutations()))
      for (const bool addend : {false, true}) {
        const auto layout = lower_layout(permuted(dtype, {3, 20, 2, 40}, perm, addend), addend ? 1 : 132);
        ASSERT_TRUE(layout.ok()) << layout.status().str();
        expect_like_graph(*layout);
        if (HasFailure()) return;
      }
}

// Rows of the output that are joined with the next ones, and tiles of whole rows.
TEST(CudaLayouts, ShortRowsOfTheOutput) {
  for (const DType dtype : kSizes)
    for (const auto& [shape, perm] :
         sampled(std::vector<std::pair<std::vector<int64_t>, std::vector<int>>>{{{12, 9, 10, 32}, {2, 3, 1, 0}},
                                                                                {{12, 9, 10, 32}, {3, 1, 2, 0}},
                                                                                {{24, 3, 16, 48}, {1, 3, 2, 0}},
                                                                                {{12, 9, 10, 32}, {2, 1, 3, 0}},
                                                                                {{4, 40, 6, 32}, {0, 2, 3, 1}},
                                                                                {{9, 2, 3, 50}, {2, 3, 1, 0}}})) {
      const auto layout = lower_layout(permuted(dtype, shape, perm, dtype == DType::f16), 1);
      ASSERT_TRUE(layout.ok()) << layout.status().str();
      expect_like_graph(*layout);
      if (HasFailure()) return;
    }
}

// Tiles that fit and that do not, aligned and not, of one and of several operands.
std::vector<Layout> tiles() {
  std::vector<Layout> out;
  const auto add = [&](const std::string& text) {
    auto layout = lower_layout(text, 1);
    EXPECT_TRUE(layout.ok()) << layout.status().str() << text;
    if (layout.ok()) out.push_back(std::move(*layout));
  };
  for (const DType dtype : kSizes)
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{2, 1, 128, 64}, {1, 2, 72, 136}, {1, 2, 37, 70}, {1, 1, 33, 51}})
      for (const bool addend : {false, true}) add(permuted(dtype, shape, {0, 1, 3, 2}, addend));
  for (const std::string t : {"f16", "f32"}) {
    // Operands in both layouts, and along one axis.
    add(fmt::format(R"(graph @main(%x: {0}[2, 72, 130], %u: {0}[2, 72, 130], %v: {0}[2, 130, 72], %c: {0}[72],
                %r: {0}[130, 1]) {{
  %0 = transpose %x {{perm = [0, 2, 1]}}: {0}[2, 130, 72]
  %1 = transpose %u {{perm = [0, 2, 1]}}: {0}[2, 130, 72]
  %2 = max %0, %1: {0}[2, 130, 72]
  %3 = max %2, %v: {0}[2, 130, 72]
  %4 = max %3, %c: {0}[2, 130, 72]
  %5 = max %4, %r: {0}[2, 130, 72]
  return %5 as "y"
}}
)",
                    t));
    // A part of the input, whose rows begin off the alignment.
    add(fmt::format(R"(graph @main(%x: {0}[64, 77]) {{
  %0 = slice %x {{starts = [0, 3], sizes = [64, 72], steps = [1, 1]}}: {0}[64, 72]
  %1 = transpose %0 {{perm = [1, 0]}}: {0}[72, 64]
  return %1 as "y"
}}
)",
                    t));
  }
  return out;
}

// Boxes of several loops, and planes that threads interleave or take apart.
std::vector<Layout> boxes() {
  std::vector<Layout> out;
  const auto add = [&](const std::string& text) {
    auto layout = lower_layout(text, 1);
    EXPECT_TRUE(layout.ok()) << layout.status().str() << text;
    if (layout.ok()) out.push_back(std::move(*layout));
  };
  for (const std::string t : {"f16", "f32", "u8"}) {
    // A row, a column and a number for each channel.
    add(fmt::format(R"(graph @main(%x: {0}[100, 1], %y: {0}[1, 808]) {{
  %0 = max %x, %y: {0}[100, 808]
  return %0 as "z"
}}
)",
                    t));
    for (const char* shape : {"6, 10, 392", "5, 3, 49", "7, 9, 1000"})
      add(fmt::format(R"(graph @main(%x: {0}[{1}], %s: {0}[{2}, 1]) {{
  %0 = max %x, %s: {0}[{1}]
  return %0 as "z"
}}
)",
                      t, shape,
                      shape[0] == '6'   ? "10"
                      : shape[0] == '5' ? "3"
                                        : "9"));
    // Images to channels-last and back, and pixel shuffles.
    add(fmt::format(R"(graph @main(%x: {0}[5, 3, 160], %b: {0}[3]) {{
  %0 = transpose %x {{perm = [0, 2, 1]}}: {0}[5, 160, 3]
  %1 = max %0, %b: {0}[5, 160, 3]
  return %1 as "z"
}}
)",
                    t));
    add(fmt::format(R"(graph @main(%x: {0}[5, 160, 3]) {{
  %0 = transpose %x {{perm = [0, 2, 1]}}: {0}[5, 3, 160]
  return %0 as "z"
}}
)",
                    t));
    add(fmt::format(R"(graph @main(%x: {0}[3, 2, 2, 6, 32]) {{
  %0 = transpose %x {{perm = [0, 3, 1, 4, 2]}}: {0}[3, 6, 2, 32, 2]
  %1 = reshape %0 {{shape = [3, 12, 64]}}: {0}[3, 12, 64]
  return %1 as "z"
}}
)",
                    t));
  }
  // The two halves of a rotation.
  add(R"(graph @main(%x: bf16[2, 3, 40, 32], %c: bf16[40, 16], %s: bf16[40, 16]) {
  %0 = slice %x {starts = [0, 0, 0, 0], sizes = [2, 3, 40, 16], steps = [1, 1, 1, 1]}: bf16[2, 3, 40, 16]
  %1 = slice %x {starts = [0, 0, 0, 16], sizes = [2, 3, 40, 16], steps = [1, 1, 1, 1]}: bf16[2, 3, 40, 16]
  %2 = mul %0, %c: bf16[2, 3, 40, 16]
  %3 = mul %1, %s: bf16[2, 3, 40, 16]
  %4 = max %2, %3: bf16[2, 3, 40, 16]
  %5 = mul %1, %c: bf16[2, 3, 40, 16]
  %6 = mul %0, %s: bf16[2, 3, 40, 16]
  %7 = min %5, %6: bf16[2, 3, 40, 16]
  %8 = concat %4, %7 {axis = 3}: bf16[2, 3, 40, 32]
  return %8 as "y"
}
)");
  return out;
}

// The maximum over a window of `places` x `places` elements of images of 9 x `width` pixels and 16 channels, 0 around
// them: as a depthwise convolution is unrolled, but exact in any order.
std::string window_text(const std::string& dtype, int width, int places) {
  const int reach = places / 2;
  const auto part = [](int extent, int move) {  // start, size, before, after
    return std::array{std::max(0, move), extent - std::abs(move), std::max(0, -move), std::max(0, move)};
  };
  std::string text, all;
  int number = 0;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      const auto y = part(9, dy), x = part(width, dx);
      text += fmt::format(
          "  %{} = slice %x {{starts = [0, {}, {}, 0], sizes = [96, {}, {}, 16], steps = [1, 1, 1, 1]}}: "
          "{}[96, {}, {}, 16]\n",
          number, y[0], x[0], y[1], x[1], dtype, y[1], x[1]);
      text += fmt::format(
          "  %{} = pad %{}, %c {{before = [0, {}, {}, 0], after = [0, {}, {}, 0], mode = \"constant\"}}: "
          "{}[96, 9, {}, 16]\n",
          number + 1, number, y[2], x[2], y[3], x[3], dtype, width);
      if (!all.empty())
        text += fmt::format("  %{} = max {}, %{}: {}[96, 9, {}, 16]\n", number + 2, all, number + 1, dtype, width);
      all = fmt::format("%{}", all.empty() ? number + 1 : number + 2);
      number += 3;
    }
  }
  return fmt::format(
      "graph @main(%x: {0}[96, 9, {1}, 16]) {{\n  %c = constant {0}[] {{0}}\n{2}  return {3} as \"y\"\n}}\n", dtype,
      width, text, all);
}

// Windows of a width that a thread's neighbours divide, and of one that they do not.
std::vector<Layout> windows() {
  std::vector<Layout> out;
  for (const std::string dtype : {"f16", "f32", "u8"}) {
    for (const int width : {12, 11}) {
      for (const int places : {3, 5}) {
        auto layout = lower_layout(window_text(dtype, width, places), 1);
        EXPECT_TRUE(layout.ok()) << layout.status().str();
        if (layout.ok()) out.push_back(std::move(*layout));
      }
    }
  }
  return out;
}

// Four neighbours read (places + 3) * places elements, where one reads places * places.
TEST(CudaLayouts, NeighboursShareTheLoadsOfWindows) {
  for (const Layout& layout : sampled(windows())) {
    const bool small = layout.text.find("starts = [0, 2,") == std::string::npos;
    int loads = 0;
    for_each_stmt(layout.kernel.body, [&](const ir::Stmt& stmt) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      loads += load != nullptr && layout.kernel.buffers[load->buffer].space == ir::Space::in ? 1 : 0;
    });
    EXPECT_EQ(loads, small ? 18 : 40) << ir::print(layout.kernel);
    EXPECT_EQ(layout.kernel.params.size(), 2U);
  }
}

TEST(CudaLayouts, WindowsGiveTheBitsOfTheGraph) {
  for (const Layout& layout : sampled(windows(), 6)) {
    expect_like_graph(layout);
    if (HasFailure()) return;
  }
}

TEST(CudaLayouts, WindowsOfBothWritersRun) {
  std::vector<EmulationCase> cases;
  for (const Layout& layout : windows()) cases.push_back({ir::print(layout.kernel), {layout.extents}, {}});
  expect_cuda_like_evaluator(cases);
}

struct Depthwise {
  std::string dtype;
  int height, width, places, stride = 1, dilation = 1;
};

// A depthwise convolution of 16 images with 16 channels, and zeros around them.
std::string depthwise_text(const Depthwise& d) {
  const int pad = d.dilation * (d.places - 1) / 2;
  const auto results = [&](int extent) { return (extent + 2 * pad - d.dilation * (d.places - 1) - 1) / d.stride + 1; };
  std::vector<double> weights;
  for (int i = 0; i < d.places * d.places * 16; ++i) weights.push_back((i * 37 % 101 - 50) / 64.0);
  return fmt::format(
      "graph @main(%x: {0}[16, {1}, {2}, 16]) {{\n  %w = constant {0}[16, 1, {3}, {3}] {{{4}}}\n"
      "  %0 = conv %x, %w {{strides = [{5}, {5}], pads = [{6}, {6}, {6}, {6}], dilations = [{7}, {7}], groups = 16, "
      "layout = \"last\"}}: {0}[16, {8}, {9}, 16]\n  return %0 as \"y\"\n}}\n",
      d.dtype, d.height, d.width, d.places, fmt::join(weights, ", "), d.stride, pad, d.dilation, results(d.height),
      results(d.width));
}

// Windows that reach over the edges by half of them, by all of an image, in steps, and with gaps.
std::vector<Layout> depthwise() {
  std::vector<Layout> out;
  for (const Depthwise& d : std::vector<Depthwise>{{"f16", 14, 14, 3},
                                                   {"f16", 14, 21, 7},
                                                   {"bf16", 15, 11, 5},
                                                   {"f32", 12, 16, 5},
                                                   {"f16", 23, 28, 3, 2},
                                                   {"f16", 28, 28, 5, 2},
                                                   {"f32", 27, 25, 5, 3},
                                                   {"f16", 12, 14, 3, 1, 2},
                                                   {"f16", 9, 14, 11},
                                                   {"f16", 16, 14, 9}}) {
    auto layout = lower_layout(depthwise_text(d), 1);
    EXPECT_TRUE(layout.ok()) << layout.status().str();
    if (!layout.ok()) continue;
    EXPECT_NE(ir::print(layout->kernel).find(fmt::format(" in {} {{\n", d.places)), std::string::npos)
        << ir::print(layout->kernel);
    EXPECT_EQ(layout->kernel.params.size(), 3U) << "one input, weights, results";
    out.push_back(std::move(*layout));
  }
  return out;
}

TEST(CudaLayouts, LoopsOverRowsOfWindowsGiveTheBitsOfTheGraph) {
  for (const Layout& layout : sampled(depthwise())) {
    expect_like(layout, layout.optimized);
    if (HasFailure()) return;
  }
}

TEST(CudaLayouts, LoopsOverRowsOfWindowsOfBothWritersRun) {
  std::vector<EmulationCase> cases;
  for (const Layout& layout : sampled(depthwise(), 3))
    cases.push_back({ir::print(layout.kernel), {layout.extents}, {}});
  expect_cuda_like_evaluator(cases);
}

struct FewChannels {
  std::string dtype;
  int channels, height, width, places, stride, pad, dilation = 1;
  bool computed = false;  // from x so that 0, which is what is loaded behind the image, makes NaN
};

// A convolution of few channels whose products and sums are exact: of whole numbers.
std::string few_channels_text(const FewChannels& c) {
  const auto results = [&](int extent) {
    return (extent + 2 * c.pad - c.dilation * (c.places - 1) - 1) / c.stride + 1;
  };
  std::vector<double> weights;
  for (int i = 0; i < c.places * c.places * c.channels * 24; ++i) weights.push_back((i * 37 % 13 - 6) / 8.0);
  const std::string image = fmt::format("f32[3, {}, {}, {}]", c.channels, c.height, c.width);
  return fmt::format(
             "graph @main(%x: {}) {{\n  %w = constant {}[24, {}, {}, {}] {{{}}}\n  %o = constant f32[] {{inf}}\n",
             image, c.dtype, c.channels, c.places, c.places, fmt::join(weights, ", ")) +
         fmt::format(
             "  %0 = round %x: {1}\n  %1 = mul %x, %o: {1}\n  %a = abs %1: {1}\n  %m = {2}: {1}\n"
             "  %2 = cast %m {{to = {0}}}: {0}{3}\n",
             c.dtype, image, c.computed ? "min %a, %0" : "max %0, %0", image.substr(3)) +
         fmt::format(
             "  %3 = conv %2, %w {{strides = [{0}, {0}], pads = [{1}, {1}, {1}, {1}], dilations = [{2}, {2}], "
             "groups = 1, layout = \"first\"}}: {3}[3, 24, {4}, {5}]\n  %4 = relu %3: {3}[3, 24, {4}, {5}]\n"
             "  %5 = transpose %4 {{perm = [0, 2, 3, 1]}}: {3}[3, {4}, {5}, 24]\n  return %5 as \"y\"\n}}\n",
             c.stride, c.pad, c.dilation, c.dtype, results(c.height), results(c.width));
}

// Windows that overlap along lines, by one place and by most, and that do not; with lines that make whole accesses and
// not; chunks of terms; lines of windows that two blocks share.
std::vector<Layout> patches() {
  std::vector<Layout> out;
  const std::vector<FewChannels> all = {{"f16", 4, 9, 19, 2, 1, 1},   {"f16", 3, 20, 70, 7, 2, 3},
                                        {"bf16", 3, 13, 33, 3, 1, 1}, {"f16", 3, 13, 30, 3, 2, 1, 1, true},
                                        {"f16", 1, 12, 40, 5, 1, 0},  {"f16", 3, 30, 60, 11, 4, 2},
                                        {"f16", 3, 16, 64, 4, 4, 0},  {"f16", 2, 12, 40, 3, 1, 2, 2}};
  for (const FewChannels& c : sampled(all))
    for (const int multiprocessors : {1, 132}) {
      auto layout = lower_layout(few_channels_text(c), multiprocessors);
      EXPECT_TRUE(layout.ok()) << layout.status().str();
      if (!layout.ok()) continue;
      EXPECT_NE(ir::print(layout->kernel).find(" = mma "), std::string::npos) << ir::print(layout->kernel);
      out.push_back(std::move(*layout));
    }
  return out;
}

TEST(CudaLayouts, PatchesGiveTheBitsOfTheGraph) {
  for (const Layout& layout : patches()) {
    expect_like_graph(layout);
    if (HasFailure()) return;
  }
}

TEST(CudaLayouts, PatchesOfBothWritersRun) {
  std::vector<EmulationCase> cases;
  for (const Layout& layout : sampled(patches(), 2)) cases.push_back({ir::print(layout.kernel), {layout.extents}, {}});
  expect_cuda_like_evaluator(cases);
}

TEST(CudaLayouts, BoxesGiveTheBitsOfTheGraph) {
  for (const Layout& layout : sampled(boxes())) {
    expect_like_graph(layout);
    if (HasFailure()) return;
  }
}

TEST(CudaLayouts, BoxesOfBothWritersRun) {
  std::vector<EmulationCase> cases;
  for (const Layout& layout : boxes()) cases.push_back({ir::print(layout.kernel), {layout.extents}, {}});
  expect_cuda_like_evaluator(cases);
}

TEST(CudaLayouts, TilesGiveTheBitsOfTheGraph) {
  for (const Layout& layout : sampled(tiles())) {
    EXPECT_NE(ir::print(layout.kernel).find("shared"), std::string::npos) << layout.text;
    expect_like_graph(layout);
    if (HasFailure()) return;
  }
}

TEST(CudaLayouts, TilesOfBothWritersRun) {
  std::vector<EmulationCase> cases;
  for (const Layout& layout : tiles()) cases.push_back({ir::print(layout.kernel), {layout.extents}, {}});
  expect_cuda_like_evaluator(cases);
}

}  // namespace
}  // namespace fusec::codegen_test
