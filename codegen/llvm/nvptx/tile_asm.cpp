// SPDX-License-Identifier: Apache-2.0
// Writes the inline assembly of products of tiles.

#include "codegen/llvm/nvptx/tile_asm.h"

#include <fmt/format.h>

namespace fusec::codegen::nvptx {
namespace {

// "=&r" for each result, then the arguments.
std::string constraints(int64_t floats, int words, const std::string& arguments) {
  std::string out;
  for (int64_t i = 0; i < floats; ++i) out += "=&f,";
  for (int i = 0; i < words; ++i) out += "=&r,";
  return out + arguments + ",~{memory}";
}

// Waits until the phase of that parity is over.
std::string await_barrier(const std::string& label, const std::string& barrier, const std::string& parity) {
  return fmt::format("{0}:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [{1}], {2};\n\t@!done bra {0};\n\t", label,
                     barrier, parity);
}

// The next stage; the parity changes with each round.
std::string next_stage(const TileLayout& layout, const std::string& stage, const std::string& parity) {
  return fmt::format(
      "add.u32 {0}, {0}, 1;\n\tsetp.eq.u32 done, {0}, {2};\n\t@done mov.b32 {0}, 0;\n\t@done xor.b32 {1}, {1}, 1;\n\t",
      stage, parity, layout.stages);
}

// Copies a row of the chunk for every kFillRowsAtOnce rows of a factor; zeros where there is none. The last rows of a
// stage may be fewer than threads copy at once.
std::string copy_rows(int64_t count, int64_t offset, const char* from, const char* step, const char* rows) {
  std::string out;
  for (int64_t i = 0; i < count; i += kFillRowsAtOnce) {
    const bool all = i + kFillRowsAtOnce <= count;
    if (!all) out += fmt::format("setp.lt.u32 within, thread, {};\n\t", (count - i) * 8);
    out += fmt::format(
        "setp.gt.s32 done, {0}, {1};\n\tselp.b32 bytes, 16, 0, done;\n\tmad.wide.u32 row, {2}, {3}, {4};\n\t"
        "{6}cp.async.cg.shared.global.L2::256B [at+{5}], [row], 16, bytes;\n\t",
        rows, i, step, i / kFillRowsAtOnce, from, offset + i * TileLayout::kRowBytes, all ? "" : "@within ");
  }
  return out;
}

}  // namespace

AsmText open_tile_barriers(const TileLayout& layout) {
  std::string out =
      "{\n\t.reg .pred first;\n\t.reg .b32 thread;\n\tmov.u32 thread, %tid.x;\n\t"
      "setp.eq.u32 first, thread, 0;\n\t";
  const auto open = [&](int64_t at, int64_t count) {
    out += fmt::format("@first mbarrier.init.shared::cta.b64 [$0+{}], {};\n\t", at, count);
  };
  constexpr int64_t kBytes = TileLayout::kBarrierBytes, kWarps = ir::kTileThreads / 32;
  for (int64_t i = 0; i < layout.stages; ++i) {
    open(layout.full() + i * kBytes, ir::kTileThreads);
    open(layout.empty() + i * kBytes, kWarps);
  }
  for (int64_t i = 0; i < ir::kTileGroups; ++i) open(layout.turns() + i * kBytes, kWarps);
  return {out + "@first fence.mbarrier_init.release.cluster;\n\t}", "r,~{memory}"};
}

AsmText fill_stages(const TileLayout& layout) {
  // A thread whose row of the chunk does not exist copies zeros.
  std::string out =
      "{\n\t.reg .pred done, left, within;\n\t.reg .b32 at, bytes, rows, columns, terms, chunk, barrier, thread;\n\t"
      ".reg .b64 a, b, row;\n\tmov.u32 thread, %tid.x;\n\tand.b32 thread, thread, 127;\n\t"
      "mov.b32 $0, $3;\n\tmov.b32 $1, $4;\n\tmov.b64 a, $6;\n\tmov.b64 b, $9;\n\tmov.b32 terms, $12;\n\t"
      "mov.b32 chunk, 0;\n\tFILL:\n\t.pragma \"nounroll\";\n\t";
  out += fmt::format("mad.lo.u32 barrier, $0, {}, $2;\n\t", TileLayout::kBarrierBytes);
  out += await_barrier("EMPTY", fmt::format("barrier+{}", layout.empty()), "$1");
  out += fmt::format("mad.lo.u32 at, $0, {}, $5;\n\t", layout.stage_bytes());
  out += "setp.gt.s32 left, terms, 0;\n\tselp.b32 rows, $8, 0, left;\n\tselp.b32 columns, $11, 0, left;\n\t";
  out += copy_rows(layout.shape.rows, 0, "a", "$7", "rows");
  out += copy_rows(layout.shape.columns, layout.first_bytes(), "b", "$10", "columns");
  out += fmt::format(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [barrier+{0}];\n\t"
      "add.s64 a, a, {1};\n\tadd.s64 b, b, {1};\n\tsub.s32 terms, terms, {2};\n\t",
      layout.full(), TileLayout::kRowBytes, ir::kTileStageTerms);
  out += next_stage(layout, "$0", "$1");
  out += "add.u32 chunk, chunk, 1;\n\tsetp.lt.u32 done, chunk, $13;\n\t@done bra FILL;\n\t}";
  return {out, constraints(0, 2, "r,r,r,r,l,r,r,l,r,r,r,r")};
}

AsmText multiply_stages(const TileLayout& layout, int unread) {
  const int64_t sums = layout.shape.sums(), of_step = layout.shape.columns / 2;
  const auto operand = [&](int64_t i) { return "$" + std::to_string(sums + i); };
  const std::string stage = operand(0), parity = operand(1), memory = operand(2), chunks = operand(8);
  std::string out =
      "{\n\t.reg .pred done, first, last, later;\n\t.reg .b32 thread, barrier, at, chunk, next, read;\n\t"
      ".reg .b64 a, b, a1, b1;\n\t"
      "mov.u32 thread, %tid.x;\n\tand.b32 thread, thread, 31;\n\tsetp.eq.u32 first, thread, 0;\n\t";
  for (int64_t i = 0; i < sums; ++i) out += fmt::format("mov.f32 ${}, 0f00000000;\n\t", i);
  out += fmt::format("mov.b32 {}, {};\n\tmov.b32 {}, {};\n\tmov.b32 chunk, 0;\n\tmov.b32 read, 0;\n\t", stage,
                     operand(3), parity, operand(4));
  out += await_barrier("TURN", operand(5), operand(6));
  out += "MULTIPLY:\n\t.pragma \"nounroll\";\n\t";
  out += fmt::format("mad.lo.u32 barrier, {}, {}, {};\n\t", stage, TileLayout::kBarrierBytes, memory);
  out += await_barrier("FULL", fmt::format("barrier+{}", layout.full()), parity);
  // The descriptors: rows of 128 bytes, swizzled, in groups of 8 that are 1024 bytes apart.
  out += fmt::format(
      "fence.proxy.async.shared::cta;\n\tmad.lo.u32 at, {}, {}, {};\n\tbfe.u32 at, at, 4, 14;\n\t"
      "cvt.u64.u32 a, at;\n\tor.b64 a, a, {};\n\tadd.s64 b, a, {};\n\twgmma.fence.sync.aligned;\n\t",
      stage, layout.stage_bytes(), memory, uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62,
      layout.first_bytes() >> 4);
  const char* type = layout.shape.bf16 ? "bf16" : "f16";
  for (int64_t k = 0; k < ir::kTileStageTerms / 16; ++k) {
    for (int64_t m = 0; m < layout.shape.rows / ir::kTileRows; ++m) {
      std::string registers;
      for (int64_t i = 0; i < of_step; ++i) registers += fmt::format("{}${}", i > 0 ? ", " : "", m * of_step + i);
      out += fmt::format(
          "add.s64 a1, a, {};\n\tadd.s64 b1, b, {};\n\t"
          "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, a1, b1, 1, 1, 1, 0, 0;\n\t",
          m * 512 + k * 2, k * 2, layout.shape.columns, type, type, registers);
    }
  }
  // The last product of the tile lets the other group begin; a stage is empty when the product behind it has begun.
  out += fmt::format(
      "wgmma.commit_group.sync.aligned;\n\tadd.u32 next, chunk, 1;\n\tsetp.eq.and.u32 last, next, {0}, first;\n\t"
      "@last mbarrier.arrive.shared::cta.b64 _, [{1}];\n\twgmma.wait_group.sync.aligned 1;\n\t"
      "setp.ne.and.u32 later, chunk, 0, first;\n\t@later mbarrier.arrive.shared::cta.b64 _, [read+{2}];\n\t"
      "mov.b32 read, barrier;\n\t",
      chunks, operand(7), layout.empty());
  out += next_stage(layout, stage, parity);
  out += fmt::format("mov.b32 chunk, next;\n\tsetp.lt.u32 done, chunk, {};\n\t@done bra MULTIPLY;\n\t", chunks);
  out += fmt::format("wgmma.wait_group.sync.aligned 0;\n\t@first mbarrier.arrive.shared::cta.b64 _, [read+{}];\n\t",
                     layout.empty());
  // Those of the other group's tile.
  out += fmt::format(
      "div.u32 next, {0}, {1};\n\trem.u32 chunk, {0}, {1};\n\tadd.u32 {2}, {2}, chunk;\n\tand.b32 next, next, 1;\n\t"
      "xor.b32 {3}, {3}, next;\n\tsetp.ge.u32 done, {2}, {1};\n\t@done sub.u32 {2}, {2}, {1};\n\t"
      "@done xor.b32 {3}, {3}, 1;\n\t}}",
      chunks, layout.stages, stage, parity);
  std::string arguments = "r,r,r,r,r,r,r";
  for (int i = 0; i < unread; ++i) arguments += i % 3 == 0 && i < 6 ? ",l" : ",r";
  return {out, constraints(sums, 2, arguments)};
}

}  // namespace fusec::codegen::nvptx
