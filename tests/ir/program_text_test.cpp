// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/text/kernel_text.h"
#include "ir/text/program_text.h"

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
  auto kernel = parse_kernel("kernel @relu(%x: in f32[n], %y: out f32[n]) {\n  grid i in n {\n    v0: f32 = load x[i]\n"
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
  slot.variants.push_back({{n - 32}, {{{{fused, "/fc1"}}, "library alone", 12.5}, {{{call, "/fc1"}, {launch, "/relu"}}, "", 0}}, 0});
  slot.variants.push_back({{}, {{{{call, "/fc1"}, {launch, "/relu"}}, "", 3}}, -1});
  p.slots.push_back(std::move(slot));
  p.notes = {"edge a -> b not fused: library"};
  EXPECT_EQ(print(p), R"(program @mlp(%x: f32[N, 8]) -> (%y: f32[N, 4]) symbols(N) ops 3 {
  %a0: input 0 "x" f32 8*N
  %a1: output 0 "y" f32 4*N
  %a2: constant 0 f32 32
  %a3: temporary f32 4*N
  slot 0 {
    when N - 32 {
      candidate picked 12.5 us {  // library alone
        call matmul {transpose_a = 0, transpose_b = 1} f32(%a0 [N, 8], %a2 [4, 8], %a1 [N, 4]) then relu, clamp alpha 0 beta 6  // /fc1
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
  note edge a -> b not fused: library
  // k0
  kernel @relu(%x: in f32[n], %y: out f32[n]) {
    grid i in n {
      v0: f32 = load x[i]
      v1: f32 = relu v0
      store y[i], v1
    }
  }
}
)");
}

}  // namespace
}  // namespace fusec::ir
