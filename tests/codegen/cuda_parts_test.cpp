// SPDX-License-Identifier: Apache-2.0
// Parts of a concat in consecutive blocks, of which join_branches makes one branch: what both writers print of it
// computes what the evaluator does.
#include <gtest/gtest.h>

#include <string>

#include "ir/text/kernel_text.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

// `parts` inputs of n elements behind one of m elements, each times its factor: 64 elements of a part to a block.
std::string parts_text(int parts) {
  std::string params = "%a: in f32[m] align 16, %f: in f32[" + std::to_string(parts) + "]", branches;
  for (int k = 0; k < parts; ++k) {
    const std::string x = "x" + std::to_string(k), number = std::to_string(k);
    const std::string blocks = "floordiv(n + 63, 64)", first = "floordiv(m + 63, 64) + " + number + "*" + blocks;
    const std::string at = "64*(i - (" + first + ")) + 4*t" + number;
    const std::string v = "v" + std::to_string(10 * k + 10), w = "v" + std::to_string(10 * k + 11),
                      p = "v" + std::to_string(10 * k + 12);
    params += ", %" + x + ": in f32[n] align 16";
    branches += "    seq p" + number + " in max(0, min(1, min(i - (" + first + ") + 1, " + first + " + " + blocks +
                " - i))) {\n      block t" + number + " in 16 {\n        " + w + ": f32 = load f[" + number +
                "]\n        " + v + ": f32.4 = load " + x + "[" + at + " + lane] guard(n - 1 - (" + at +
                ") - lane) else 0\n        " + p + ": f32.4 = mul " + v + ", " + w + "\n        store y[m + " + number +
                "*n + " + at + " + lane], " + p + " guard(n - 1 - (" + at + ") - lane)\n      }\n    }\n";
  }
  const std::string all = std::to_string(parts);
  return "kernel @parts(" + params + ", %y: out f32[m + " + all +
         "*n] align 16) facts(fits32, n % 4 == 0, m % 4 == 0) {\n" + "  grid i in floordiv(m + 63, 64) + " + all +
         "*floordiv(n + 63, 64) {\n" +
         "    seq p in max(0, min(1, floordiv(m + 63, 64) - i)) {\n      block t in 16 {\n" +
         "        v0: f32.4 = load a[64*i + 4*t + lane] guard(m - 1 - 64*i - 4*t - lane) else 0\n" +
         "        store y[64*i + 4*t + lane], v0 guard(m - 1 - 64*i - 4*t - lane)\n      }\n    }\n" + branches +
         "  }\n}\n";
}

TEST(CudaParts, OneBranchForManyInputs) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  const std::vector<Extents> sizes = {
      {{"n", 4}, {"m", 4}}, {{"n", 100}, {"m", 300}}, {{"n", 256}, {"m", 0}}, {{"n", 0}, {"m", 100}}};
  const Result<std::string> text =
      emit_text(*ir::parse_kernel(parts_text(4)), named_target("sm_90").value(), Codegen::nvrtc);
  EXPECT_NE(text->find("switch ("), std::string::npos) << *text;
  expect_cuda_like_evaluator({{parts_text(4), sizes}, {parts_text(11), sizes}});
}

}  // namespace
}  // namespace fusec::codegen_test
