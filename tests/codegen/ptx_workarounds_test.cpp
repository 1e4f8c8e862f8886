// SPDX-License-Identifier: Apache-2.0
// PTX that NVIDIA's assembler gets wrong, written in another way.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "codegen/ptx/assembler.h"
#include "codegen/ptx/ptx.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

std::string apply_ptxas_workarounds(const std::string& ptx) {
  return codegen::apply_ptxas_workarounds(ptx, codegen::kUnknownPtxas, 90);
}

TEST(Assembler, IsSparedWhatItGetsWrong) {
  EXPECT_EQ(apply_ptxas_workarounds("\tmax.u16 \t%rs2, %rs1, 1;\n"),
            "\t{ .reg .b16 y; .reg .b32 a, b; mov.b16 y, 1; cvt.u32.u16 a, %rs1; cvt.u32.u16 b, y; max.u32 a, a, b; "
            "cvt.u16.u32 %rs2, a; }\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tmin.s16 \t%rs3, %rs1, %rs2;\n"),
            "\t{ .reg .b16 y; .reg .b32 a, b; mov.b16 y, %rs2; cvt.s32.s16 a, %rs1; cvt.s32.s16 b, y; min.s32 a, a, b; "
            "cvt.u16.u32 %rs3, a; }\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tabs.s16 \t%rs2, %rs1;\n"),
            "\t{ .reg .b32 a; cvt.s32.s16 a, %rs1; abs.s32 a, a; cvt.u16.u32 %rs2, a; }\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tabs.s32 \t%r2, %r1;\n"),
            "\t{ .reg .b32 a; sub.u32 a, 0, %r1; max.s32 %r2, %r1, a; }\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tabs.s64 \t%rd2, %rd1;\n"),
            "\t{ .reg .b64 a; sub.u64 a, 0, %rd1; max.s64 %rd2, %rd1, a; }\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tneg.s16 \t%rs2, %rs1;\n"), "\tsub.u16 \t%rs2, 0, %rs1;\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tsub.s16 \t%rs2, 0, %rs1;\n"), "\tsub.u16 \t%rs2, 0, %rs1;\n");
  EXPECT_EQ(apply_ptxas_workarounds("\tmul.lo.s16 \t%rs2, %rs1, -1;\n"), "\tsub.u16 \t%rs2, 0, %rs1;\n");
  for (const char* choice :
       {"0f80000000, 0fBF800000", "0f3F800000, 0f80000000", "0f00000000, 0fBF800000", "0fBF800000, 0f00000000"}) {
    const std::string rest = std::string(" \t%f2, ") + choice + ", %p1;\n";
    EXPECT_EQ(apply_ptxas_workarounds("\tselp.f32" + rest), "\tselp.b32" + rest);
  }
}

// A negation of 32 bits is one that a signed min or max takes.
TEST(Assembler, IsSparedNegationsInsideExtremes) {
  const std::string negation = "\tneg.s32 \t%r3, %r1;\n", difference = "\tsub.s32 \t%r4, 0, %r1;\n",
                    product = "\tmul.lo.s32 \t%r5, %r1, -1;\n", three = negation + difference + product;
  EXPECT_EQ(apply_ptxas_workarounds(three), three);
  EXPECT_EQ(apply_ptxas_workarounds(three + "\tmin.s32 \t%r6, %r1, %r2;\n"), three + "\tmin.s32 \t%r6, %r1, %r2;\n");
  EXPECT_EQ(apply_ptxas_workarounds(three + "\tmin.u32 \t%r6, %r2, %r3;\n"), three + "\tmin.u32 \t%r6, %r2, %r3;\n");
  const auto wide = [](const char* to) {
    return std::string("\t{ .reg .b64 a; cvt.u64.u32 a, %r1; sub.u64 a, 0, a; cvt.u32.u64 ") + to + ", a; }\n";
  };
  const std::string wide_ones = wide("%r3") + wide("%r4") + wide("%r5");
  for (const char* extreme :
       {"\tmin.s32 \t%r6, %r2, %r3;\n", "\tmax.s32 \t%r6, %r4, %r2;\n", "\tmax.s32 \t%r6, %r5, 0;\n"}) {
    EXPECT_EQ(apply_ptxas_workarounds(three + extreme), wide_ones + extreme);
  }
  EXPECT_EQ(apply_ptxas_workarounds(three + "\tabs.s32 \t%r6, %r5;\n"),
            wide_ones + "\t{ .reg .b32 a; sub.u32 a, 0, %r5; max.s32 %r6, %r5, a; }\n");
  // Through moves, which may stand before what they move: a loop.
  const std::string loop = "\tmin.s32 \t%r9, %r2, %r8;\n\tmov.b32 \t%r8, %r7;\n\tmov.u32 \t%r7, %r3;\n";
  EXPECT_EQ(apply_ptxas_workarounds(loop + negation), loop + wide("%r3"));
}

TEST(Assembler, IsSparedEqualitiesOfRelus) {
  const std::string
      clamp = "\tmin.s32 \t%r2, %r1, 255;\n\tmax.s32 \t%r3, %r2, 0;\n",
      spared =
          "\tmin.s32 \t%r2, %r1, 255;\n\t{ .reg .b32 s; shr.s32 s, %r2, 31; not.b32 s, s; and.b32 %r3, %r2, s; }\n",
      unequal = "\tsetp.ne.s32 \t%p1, %r3, 255;\n", equal = "\tsetp.eq.s32 \t%p1, %r3, 255;\n",
      narrow = "\tcvt.u16.u32 \t%rs1, %r3;\n\tsetp.eq.s16 \t%p1, 255, %rs1;\n";
  EXPECT_EQ(apply_ptxas_workarounds(clamp), clamp);
  EXPECT_EQ(apply_ptxas_workarounds(clamp + unequal), spared + unequal);
  EXPECT_EQ(apply_ptxas_workarounds(clamp + equal), spared + equal);
  EXPECT_EQ(apply_ptxas_workarounds(clamp + narrow), spared + narrow);
}

TEST(Assembler, IsSparedDisjunctionsBesideConjunctions) {
  const std::string disjunction = "\tor.pred  \t%p3, %p1, %p2;\n", conjunction = "\tand.pred \t%p5, %p4, %p1;\n",
                    spared =
                        "\t{ .reg .pred q, r; not.pred q, %p1; not.pred r, %p2; and.pred q, q, r; not.pred %p3, q; }\n";
  EXPECT_EQ(apply_ptxas_workarounds(disjunction), disjunction);
  EXPECT_EQ(apply_ptxas_workarounds(conjunction), conjunction);
  EXPECT_EQ(apply_ptxas_workarounds(disjunction + conjunction), spared + conjunction);
  EXPECT_EQ(apply_ptxas_workarounds(conjunction + disjunction), conjunction + spared);
}

std::string opposite(const std::string& comparison, const std::string& operands) {
  return "\t{ .reg .pred q; setp." + comparison + ".f32 q, " + operands + "; not.pred %p1, q; }\n";
}

TEST(Assembler, IsSparedComparisonsThatOnlyNanDecides) {
  struct Case {
    std::string before, comparison, operands, opposite;  // the last empty: it stays
  };
  const std::string abs = "\tabs.f32 \t%f2, %f1;\n", sin = "\tsin.approx.f32 \t%f2, %f1;\n";
  const std::vector<Case> cases = {
      {abs, "ge", "%f2, 0f00000000", "ltu"},
      {abs, "ge", "%f2, 0f80000000", "ltu"},
      {abs, "gt", "%f2, 0fBF800000", "leu"},
      {abs, "gt", "%f2, 0f00000000", ""},
      {abs, "ge", "%f2, 0f3F800000", ""},
      {abs, "lt", "%f2, 0f3F800000", ""},
      {abs, "ge", "%f1, 0fBF800000", ""},
      {abs, "ltu", "%f2, 0fBF800000", ""},
      {abs, "le", "%f3, %f2", ""},
      {"\tmov.f32 \t%f3, 0fC0000000;\n" + abs, "le", "%f3, %f2", "gtu"},
      {"\tmov.f32 \t%f3, 0fC0000000;\n" + abs, "lt", "%f3, %f2", "geu"},
      {abs + "\tneg.f32 \t%f3, %f2;\n", "lt", "%f3, 0f40000000", "geu"},
      {abs + "\tneg.f32 \t%f3, %f2;\n\tabs.f32 \t%f4, %f3;\n", "ge", "%f4, 0f00000000", "ltu"},
      {abs + "\tadd.rn.f32 \t%f3, %f2, 0f3F800000;\n", "gt", "%f3, 0f00000000", "leu"},
      {abs + "\tsub.rn.f32 \t%f3, %f2, 0f3F800000;\n", "ge", "%f3, 0f00000000", ""},
      {abs + "\tsub.rn.f32 \t%f3, %f2, 0f3F800000;\n", "ge", "%f3, 0fBF800000", "ltu"},
      {abs + "\tsub.rn.f32 \t%f3, %f2, %f2;\n", "ge", "%f3, 0fBF800000", ""},
      {"\tmul.rn.f32 \t%f2, %f1, %f1;\n", "ge", "%f2, 0f00000000", ""},
      {abs + "\tmul.rn.f32 \t%f3, %f2, %f2;\n", "ge", "%f3, 0f00000000", "ltu"},
      {abs + "\tselp.f32 \t%f3, %f2, 0f40000000, %p2;\n", "ge", "%f3, 0f00000000", "ltu"},
      {abs + "\tselp.f32 \t%f3, %f2, 0fC0000000, %p2;\n", "ge", "%f3, 0f00000000", ""},
      {"\tex2.approx.ftz.f32 \t%f2, %f1;\n", "ge", "%f2, 0f00000000", "ltu"},
      {sin, "ge", "%f2, 0fBF800000", "ltu"},
      {sin, "lt", "%f2, 0f40000000", "geu"},
      {sin, "lt", "%f2, 0f3F800000", ""},
      {"\tfma.rn.sat.f32 \t%f2, %f1, %f1, %f1;\n", "le", "%f2, 0f3F800000", "gtu"},
      {"\tmax.NaN.f32 \t%f2, %f1, 0f00000000;\n", "ge", "%f2, 0f00000000", ""},
      // What is loaded in place of a number may be any.
      {"\tmov.f32 \t%f2, 0f00000000;\n\tld.global.nc.f32 %f2, [%rd1];\n", "ge", "%f2, 0f00000000", ""},
      {"\tmov.f32 \t%f2, 0f00000000;\n\tld.global.v2.f32 \t{%f1, %f2}, [%rd1];\n", "ge", "%f2, 0f00000000", ""},
      {"\tmov.f32 \t%f2, 0f00000000;\n@%p2 ld.global.f32 \t%f2, [%rd1];\n", "ge", "%f2, 0f00000000", ""},
      // Loops: one that moves, and one that counts down.
      {"\tmov.f32 \t%f2, %f3;\n\tabs.f32 \t%f3, %f1;\n", "ge", "%f2, 0f00000000", "ltu"},
      {"\tmov.f32 \t%f2, 0f00000000;\n\tsub.rn.f32 \t%f3, %f2, 0f3F800000;\n\tmov.f32 \t%f2, %f3;\n", "ge",
       "%f2, 0fC2C80000", ""},
      // Another function's registers are others.
      {abs + "}\n", "ge", "%f2, 0f00000000", ""},
  };
  for (const Case& c : cases) {
    const std::string comparison = "\tsetp." + c.comparison + ".f32 \t%p1, " + c.operands + ";\n";
    EXPECT_EQ(apply_ptxas_workarounds(c.before + comparison),
              c.before + (c.opposite.empty() ? comparison : opposite(c.opposite, c.operands)));
  }
}

TEST(Assembler, IsSparedPacksOfClippedValues) {
  const std::string conversion = "\tcvt.rzi.s32.f32 \t%r5, %f2;\n",
                    spared = "\t{ .reg .f32 a; add.rn.f32 a, %f2, 0f00000000; cvt.rzi.s32.f32 %r5, a; }\n",
                    pack = "\tcvt.pack.sat.s8.s32.b32 \t%r6, %r5, %r5, %r7;\n";
  for (const std::string clip :
       {"\tmax.NaN.f32 \t%f2, %f1, 0f00000000;\n", "\tmax.f32 \t%f2, 0f80000000, %f1;\n",
        "\tmov.b32 \t%f3, 0f00000000;\n\tmax.f32 \t%f2, %f1, %f3;\n", "\tselp.f32 \t%f2, %f1, 0f00000000, %p1;\n"}) {
    EXPECT_EQ(apply_ptxas_workarounds(clip + conversion + pack), clip + spared + pack);
    EXPECT_EQ(apply_ptxas_workarounds(clip + conversion), clip + conversion);
  }
  const std::string other = "\tmax.f32 \t%f2, %f1, 0fC3000000;\n\tmin.f32 \t%f2, %f2, 0f00000000;\n";
  EXPECT_EQ(apply_ptxas_workarounds(other + conversion + pack), other + conversion + pack);
}

TEST(Assembler, OtherTextStays) {
  const std::string text =
      "// neg.s16 of a comment\n.version 8.5\n\n$L_1:\n\tneg.s64 \t%rd2, %rd1;\n\tneg.f32 \t%f2, %f1;\n\tsub.s32 "
      "\t%r3, %r1, %r2;\n"
      "\tsub.s16 \t%rs3, 1, %rs2;\n\tmul.lo.s16 \t%rs3, %rs2, -2;\n\tselp.f32 \t%f2, 0f40000000, 0f80000000, %p1;\n"
      "\tselp.f32 \t%f2, 0f3F800000, 0f00000000, %p1;\n\tselp.f32 \t%f2, 0f00000000, 0f3F800000, %p1;\n"
      "\tselp.f32 \t%f2, 0f3F800000, %f1, %p1;\n\tmax.f32 \t%f2, %f1, 0f00000000;\n\tmin.s64 \t%rd3, %rd2, "
      "%rd1;\n\tneg.s16 \t%rs1, %rs2; ret;\n@%p1 bra $L_1;\n;\nret;";
  EXPECT_EQ(apply_ptxas_workarounds(text), text);
  EXPECT_EQ(apply_ptxas_workarounds(""), "");
}

// The instructions of a reproducer in a function, one on each line.
std::string function_of(std::string_view reproducer) {
  std::string out =
      ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
      "\t.reg .b64 \t%rd<4>;\n\t.reg .b32 \t%r<9>;\n\t.reg .b16 \t%rs<9>;\n\t.reg .f32 \t%f<9>;\n\t.reg .pred "
      "\t%p<9>;\n"
      "\tld.param.u64 \t%rd1, [x];\n\tld.global.u32 \t%r1, [%rd1];\n\tld.global.u32 \t%r2, [%rd1+4];\n"
      "\tld.global.u32 \t%r4, [%rd1+8];\n\tld.global.u16 \t%rs1, [%rd1];\n\tld.global.f32 \t%f1, [%rd1];\n";
  while (!reproducer.empty()) {
    const std::size_t end = reproducer.find(';') + 1;
    const std::size_t begin = reproducer.find_first_not_of(' ');
    out += "\t" + std::string(reproducer.substr(begin, end - begin)) + "\n";
    reproducer.remove_prefix(end);
  }
  return out + "\tret;\n}\n";
}

TEST(Assembler, EachBugIsSparedTheVersionsAndGpusThatHaveIt) {
  std::set<std::string_view> ids;
  for (const codegen::PtxasBug& bug : codegen::ptxas_bugs()) {
    EXPECT_TRUE(ids.insert(bug.id).second) << bug.id;
    const std::string ptx = function_of(bug.reproducer);
    const auto is_rewritten = [&](int ptxas, int sm) {
      return codegen::apply_ptxas_workarounds(ptx, ptxas, sm) != ptx;
    };
    for (const int version : {codegen::kUnknownPtxas, 1200, bug.right_in - 1})
      EXPECT_TRUE(is_rewritten(version, 90)) << bug.id << " for " << version;
    EXPECT_FALSE(is_rewritten(bug.right_in, 90)) << bug.id;
    EXPECT_EQ(is_rewritten(1300, 89), bug.from_sm <= 89) << bug.id;
    EXPECT_TRUE(is_rewritten(1300, 100)) << bug.id;
  }
}

TEST(Assembler, TakesReproducersAndTheirRewrittenForms) {
  if (codegen::assemblers().empty()) GTEST_SKIP() << codegen::assembler_key();
  const Target target = named_target("sm_90").value();
  for (const codegen::PtxasBug& bug : codegen::ptxas_bugs()) {
    const std::string ptx = function_of(bug.reproducer);
    for (const std::string& text : {ptx, apply_ptxas_workarounds(ptx)}) {
      for (const codegen::Assembler& assembler : codegen::assemblers()) {
        const auto cubin = assembler.assemble(text, target);
        EXPECT_TRUE(cubin.ok()) << assembler.name << ", " << bug.id << ": " << cubin.status().str() << text;
      }
    }
  }
}

// Products of values and their sum.
std::string sum_of_squares() {
  std::string loads, sums;
  for (int i = 0; i < 16; ++i) {
    loads += "\tld.volatile.global.f32 \t%f" + std::to_string(i) + ", [%rd1+" + std::to_string(4 * i) + "];\n";
    sums += "\tmul.f32 \t%f" + std::to_string(i) + ", %f" + std::to_string(i) + ", %f" + std::to_string(i) +
            ";\n\tadd.f32 \t%f16, %f16, %f" + std::to_string(i) + ";\n";
  }
  return ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
         "\t.reg .b64 \t%rd<2>;\n\t.reg .f32 \t%f<17>;\n\tld.param.u64 \t%rd1, [x];\n" +
         loads + "\tmov.f32 \t%f16, 0f00000000;\n" + sums + "\tst.global.f32 \t[%rd1], %f16;\n\tret;\n}\n";
}

// The instructions of the one function of a cubin.
std::vector<uint8_t> machine_code(const std::vector<uint8_t>& cubin) {
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  const auto section = [&](std::size_t i) {
    Elf64_Shdr out;
    std::memcpy(&out, cubin.data() + header.e_shoff + i * sizeof out, sizeof out);
    return out;
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::string name(reinterpret_cast<const char*>(cubin.data()) + names.sh_offset + s.sh_name);
    const auto begin = cubin.begin() + static_cast<std::ptrdiff_t>(s.sh_offset);
    if (name == ".text.k") return {begin, begin + static_cast<std::ptrdiff_t>(s.sh_size)};
  }
  return {};
}

// An assembler that is not told otherwise may contract a product and a sum without a rounding mode. One that is told
// makes the same machine code as of those that round by themselves.
TEST(Assembler, DoesNotContract) {
  if (codegen::assemblers().empty()) GTEST_SKIP() << codegen::assembler_key();
  const Target target = named_target("sm_90").value();
  const std::string free = sum_of_squares();
  std::string rounded = free;
  for (const std::string op : {"mul", "add"}) {
    for (std::size_t at = 0; (at = rounded.find(op + ".f32", at)) != std::string::npos;)
      rounded.replace(at, op.size(), op + ".rn");
  }
  for (const codegen::Assembler& assembler : codegen::assemblers()) {
    const auto made = assembler.assemble(free, target);
    ASSERT_TRUE(made.ok()) << assembler.name << ": " << made.status().str();
    EXPECT_FALSE(machine_code(*made).empty()) << assembler.name;
    EXPECT_EQ(machine_code(*made), machine_code(*assembler.assemble(rounded, target))) << assembler.name;
  }
}

TEST(Assembler, ErrorsHaveTheLog) {
  std::string ptx = sum_of_squares();
  ptx.insert(ptx.find("\tret;"), "\tfoo.bar \t%f1;\n");
  for (const codegen::Assembler& assembler : codegen::assemblers()) {
    const Status status = assembler.assemble(ptx, named_target("sm_90").value()).status();
    EXPECT_EQ(status.code(), StatusCode::compile_failed);
    EXPECT_THAT(status.message(),
                testing::AllOf(testing::HasSubstr(" for sm_90: error "), testing::HasSubstr("'foo'")));
  }
  if (codegen::assemblers().size() < 2) return;
  // What the first refuses is tried with the next; if none takes it, the error has all logs.
  const Status all = codegen::assemble(ptx, named_target("sm_90").value()).status();
  EXPECT_THAT(all.str(),
              testing::AllOf(testing::HasSubstr("the PTX compiler for"), testing::HasSubstr("nvJitLink for")));
}

// Its handles are independent: threads compile side by side, and each gets what one thread alone would get.
TEST(Assembler, ThreadsAssembleSideBySide) {
  if (codegen::assemblers().empty()) GTEST_SKIP() << codegen::assembler_key();
  const Target target = named_target("sm_90").value();
  for (const codegen::Assembler& assembler : codegen::assemblers()) {
    std::vector<std::string> texts;
    for (const codegen::PtxasBug& bug : codegen::ptxas_bugs()) texts.push_back(function_of(bug.reproducer));
    std::vector<std::vector<uint8_t>> alone;
    for (const std::string& text : texts) alone.push_back(assembler.assemble(text, target).value());
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t k = 0; k < 4 * texts.size(); ++k) {
          const std::size_t i = (k + static_cast<std::size_t>(t)) % texts.size();
          const auto made = assembler.assemble(texts[i], target);
          if (!made.ok() || made.value() != alone[i]) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << assembler.name;
  }
}

TEST(Assembler, AsksForOneBlockWhereTheTextAsksForNone) {
  const std::string text =
      ".visible .entry a()\n.maxntid 96, 1, 1\n{\n\tret;\n}\n.visible .entry b()\n.maxntid 32\n{\n}";
  EXPECT_EQ(codegen::ask_for_one_block(text),
            ".visible .entry a()\n.maxntid 96, 1, 1\n.minnctapersm 1\n{\n\tret;\n}\n.visible .entry b()\n.maxntid 32\n"
            ".minnctapersm 1\n{\n}");
  const std::string bounded = ".visible .entry a()\n.maxntid 96\n.minnctapersm 4\n{\n}\n";
  EXPECT_EQ(codegen::ask_for_one_block(bounded), bounded);
  EXPECT_EQ(codegen::ask_for_one_block(""), "");
}

// A build that has the PTX compiler prefers it to an nvJitLink of the same CUDA.
TEST(Assembler, WholeProgramsComeFirst) {
  if (!codegen::ptx_compiler().ok()) GTEST_SKIP() << codegen::ptx_compiler().status().str();
  if (codegen::nvjitlink().ok() && codegen::nvjitlink()->major < codegen::ptx_compiler()->major)
    GTEST_SKIP() << codegen::assembler_key();
  EXPECT_EQ(codegen::assembler_key().find("ptx-compiler-"), 0u) << codegen::assembler_key();
}

TEST(Assembler, VersionsAreNumbers) {
  EXPECT_EQ(codegen::ptxas_number("13.0"), 1300);
  EXPECT_EQ(codegen::ptxas_number("12.4"), 1204);
  EXPECT_EQ(codegen::ptxas_number("none"), codegen::kUnknownPtxas);
}

// A version that is right about what a kernel has keeps NVRTC's own cubin; the PTX, which any driver may compile, has
// the workarounds. Before sm_90 no version merges 16-bit extremes.
TEST(Assembler, CubinOfNvrtcStaysWhereItsPtxasIsRight) {
  const ir::Kernel kernel = cuda_kernel(
      R"(kernel @k(%x: in u16[n], %y: out u16[n]) {
  grid i in n {
    v0: u16 = load x[i]
    v1: u16 = max v0, 7
    store y[i], v1
  }
}
)");
  const auto old = codegen_test::emit(kernel, named_target("sm_80").value(), {.codegen = Codegen::nvrtc});
  const auto hopper = codegen_test::emit(kernel, named_target("sm_90").value(), {.codegen = Codegen::nvrtc});
  if (old.status().code() == StatusCode::unsupported) GTEST_SKIP() << old.status().str();
  EXPECT_NE(old->ptx.find("max.u16"), std::string::npos) << old->ptx;
  EXPECT_EQ(hopper->ptx.find("max.u16"), std::string::npos) << hopper->ptx;
}

// The machine code, too: the assembler's, as NVRTC's own is of other PTX.
TEST(Assembler, BothEmittersSpareIt) {
  const ir::Kernel kernel = cuda_kernel(
      R"(kernel @k(%x: in u8[n], %w: in i32[n], %s: in f32[n], %y: out u8[n], %u: out i32[n], %z: out f32[n], )"
      R"(%p: out bool[n], %q: out bool[n]) {
  grid i in n {
    v0: u8 = load x[i]
    v1: u8 = max v0, 7
    store y[i], v1
    v3: f32 = load s[i]
    v4: bool = lt v3, 2
    v5: f32 = where v4, -0, -1
    store z[i], v5
    v6: i32 = load w[i]
    v7: i32 = cast v0
    v8: i32 = neg v7
    v9: i32 = min v6, v8
    v10: i32 = min v9, 100
    store u[i], v10
    v11: bool = lt v0, 9
    v12: bool = or_ v4, v11
    store p[i], v12
    v13: bool = and_ v4, v11
    store q[i], v13
  }
}
)");
  std::string absent;
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
    const auto made = codegen_test::emit(kernel, named_target("sm_90").value(), {.codegen = codegen});
    if (made.status().code() == StatusCode::unsupported) {
      absent += made.status().str() + "\n";
      continue;
    }
    const std::string& ptx = made.value().ptx;
    EXPECT_EQ(ptx, apply_ptxas_workarounds(ptx));
    EXPECT_EQ(ptx.find("neg.s32"), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("sub.u64 a"), std::string::npos) << ptx;
    EXPECT_EQ(ptx.find("\tor.pred"), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("and.pred q, q, r"), std::string::npos) << ptx;
    EXPECT_EQ(ptx.find("max.u16"), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("selp.b32"), std::string::npos) << ptx;
    EXPECT_EQ(made->image.empty(), !codegen::has_assembler());
    EXPECT_EQ(made->phases.at(0).registers > 0, codegen::has_assembler());
  }
  if (!absent.empty()) GTEST_SKIP() << absent;
}

}  // namespace
}  // namespace fusec::codegen_test
