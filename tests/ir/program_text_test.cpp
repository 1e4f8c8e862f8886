// SPDX-License-Identifier: Apache-2.0
#include "ir/text/program_text.h"

#include <gtest/gtest.h>

#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

TEST(ProgramText, EveryPart) {
  const Dim n = Dim::symbol("N");
  Program p;
  p.name = "mlp";
  p.symbols = {"N"};
  p.imported_ops = 3;
  p.input_names = {"x"};
  p.output_names = {"y"};
  p.input_types = {{DType::f32, {n, 8}}};
  p.output_types = {{DType::f32, {n, 4}}};
  const AllocId x = p.allocs.push_back({AllocKind::input, "x", DType::f32, 8 * n, 0});
  const AllocId y = p.allocs.push_back({AllocKind::output, "y", DType::f32, 4 * n, 0});
  const AllocId w = p.allocs.push_back({AllocKind::constant, "", DType::f32, 32, 0});
  const AllocId t = p.allocs.push_back({AllocKind::temporary, "", DType::f32, 4 * n, 0});
  auto kernel = parse_kernel(
      "kernel @relu(%x: in f32[n], %y: out f32[n]) facts(n % 4 == 0) {\n  grid i in n {\n    v0: f32 = load x[i]\n"
      "    v1: f32 = relu v0\n    store y[i], v1\n  }\n}\n");
  ASSERT_TRUE(kernel.ok());
  const KernelId k = p.kernels.push_back(std::move(*kernel));
  LibraryStep call;
  call.op = TensorOp::matmul;
  call.attrs = {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}};
  call.args = {{x, 0, {n, 8}, {8, 1}}, {w, 0, {4, 8}, {8, 1}}, {t, 0, {n, 4}, {4, 1}}};
  LibraryStep fused = call;
  fused.args.back().alloc = y;
  fused.epilogues = {{ScalarOp::relu, -1, 0, 0}, {ScalarOp::clamp, -1, 0, 6}};
  const KernelStep launch{k, {{t, 0, {n, 4}, {4, 1}}, {y, 4, {4, n - 1}, {1, 4}}}, {4 * n}};
  Slot slot;
  slot.variants.push_back(
      {{n - 32}, {{{{fused, "/fc1"}}, "library alone", 12.5}, {{{call, "/fc1"}, {launch, "/relu"}}, "", 0}}, 0});
  slot.variants.push_back({{}, {{{{call, "/fc1"}, {launch, "/relu"}}, "", 3}}, -1});
  p.slots.push_back(std::move(slot));
  p.notes = {"edge a -> b not fused: library"};
  p.inputs = {x};
  p.outputs = {y};
  const std::string text = print(p);
  const auto again = parse_program(text);
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(print(*again), text);
  EXPECT_EQ(again->inputs, p.inputs);
  EXPECT_EQ(again->outputs, p.outputs);
  EXPECT_EQ(text, R"(program @mlp(%x: f32[N, 8]) -> (%y: f32[N, 4]) symbols(N) ops 3 {
  %a0: input 0 "x" f32 8*N
  %a1: output 0 "y" f32 4*N
  %a2: constant 0 f32 32
  %a3: temporary f32 4*N
  slot 0 {
    when N - 32 {
      candidate picked 12.5 us {  // library alone
        call matmul {transpose_a = 0, transpose_b = 1} f32(%a0 [N, 8], %a2 [4, 8], %a1 [N, 4]) then relu, )"
                  R"(clamp alpha 0 beta 6  // /fc1
      }
      candidate 0 us {
        call matmul {transpose_a = 0, transpose_b = 1} f32(%a0 [N, 8], %a2 [4, 8], %a3 [N, 4])  // /fc1
        launch k0(%a3 [N, 4], %a1 + 4 [4, N - 1] strides [1, 4]) extents(4*N)  // /relu
      }
    }
    otherwise {
      candidate 3 us {
        call matmul {transpose_a = 0, transpose_b = 1} f32(%a0 [N, 8], %a2 [4, 8], %a3 [N, 4])  // /fc1
        launch k0(%a3 [N, 4], %a1 + 4 [4, N - 1] strides [1, 4]) extents(4*N)  // /relu
      }
    }
  }
  note "edge a -> b not fused: library"
  // k0
  kernel @relu(%x: in f32[n], %y: out f32[n]) facts(n % 4 == 0) {
    grid i in n {
      v0: f32 = load x[i]
      v1: f32 = relu v0
      store y[i], v1
    }
  }
}
)");
}

// What is wrong, and where.
TEST(ProgramText, Mistakes) {
  const std::string head =
      "program @p(%x: f32[4]) -> (%y: f32[4]) ops 1 {\n  %a0: input 0 f32 4\n  %a1: output 0 f32 4\n";
  const std::string kernel =
      "  kernel @k(%x: in f32[n], %y: out f32[n]) {\n    grid i in n {\n      v0: f32 = load x[i]\n"
      "      store y[i], v0\n    }\n  }\n";
  const auto slot = [](const std::string& step) {
    return "  slot 0 {\n    otherwise {\n      candidate picked 1 us {\n        " + step + "\n      }\n    }\n  }\n";
  };
  const std::string launch = slot("launch k0(%a0 [4], %a1 [4]) extents(4)  // here");
  ASSERT_TRUE(parse_program(head + launch + kernel + "}\n").ok());
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected 'program'"},
      {head + launch + kernel, "expected '}'"},
      {head + launch + "}\n", "there is no kernel k0"},
      {head + launch + "  kernel @k(%x: in f32[n]) {\n", "this kernel has no end"},
      {head + launch + "  kernel @k(%x: in f32[n]) { nonsense }\n}\n", "in kernel k0"},
      {head + slot("launch k0(%a0 [4]) extents(4)") + kernel + "}\n", "1 views and 1 extents; it takes 2 and 1"},
      {head + slot("launch k0(%a0 [4], %a9 [4]) extents(4)") + kernel + "}\n", "no such allocation"},
      {head + slot("launch k0(%a0 [4] strides [1, 1], %a1 [4]) extents(4)") + kernel + "}\n", "one stride per axis"},
      {head + slot("call madd f32(%a0 [4])") + "}\n", "no tensor op 'madd'"},
      {head + slot("call matmul f32(%a0 [4]) bias 3") + "}\n", "the call has no argument 3"},
      {head + slot("jump k0") + "}\n", "expected launch, call or '}'"},
      {"program @p(%x: f32[4]) -> () ops 1 {\n}\n", "has no allocation"},
      {"program @p() -> () ops 1 {\n  %a0: input 3 f32 4\n}\n", "the program has no input 3"},
      {"program @p() -> () ops 1 {\n  %a1: temporary f32 4\n}\n", "expected allocation %a0"},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_program(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::invalid_model);
    EXPECT_NE(parsed.status().str().find(expected), std::string::npos) << parsed.status().str() << "\n" << text;
  }
}

}  // namespace
}  // namespace fusec::ir
