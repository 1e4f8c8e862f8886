// SPDX-License-Identifier: Apache-2.0
// Short chains of scalar ops in generated GPU code that NVIDIA's assembler has compiled wrongly, their neighbours, and
// random ones, against the evaluator.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string_view>

#include "codegen/emit.h"
#include "codegen/ptx/ptx.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "ir/text/kernel_text.h"
#include "tests/codegen/cuda_columns.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"
#include "tests/codegen/scalar_inputs.h"

namespace fusec::codegen_test {
namespace {

// Small chains that NVIDIA's assembler has been seen to get wrong (codegen/ptx/ptx.h), and their neighbours.
struct Chain {
  DType dtype;
  ir::Kernel kernel;
};

Chain chain(DType dtype, const std::vector<std::pair<const char*, DType>>& statements) {
  Columns columns;
  columns.width = 1;
  for (const auto& [statement, result] : statements) columns.add(statement, result);
  return {dtype, cuda_kernel(columns.text(dtype))};
}

std::vector<Chain> chains() {
  std::vector<Chain> out;
  const DType b = DType::bool_;
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, 1, -0", t}, {"where v10, -0, 1", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, -0, -1", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, -1, -0", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, 1, 0", t}, {"mul v11, -1", t}, {"neg v11", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, 0, 4", t}, {"mul v11, -0.25", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"cast v10", t}, {"mul v11, -1", t}, {"neg v11", t}}));
    out.push_back(chain(t, {{"lt v0, v1", b}, {"where v10, 0, -1", t}, {"abs v11", t}, {"neg v12", t}}));
    out.push_back(chain(t, {{"sign v0", t}, {"neg v10", t}}));
    out.push_back(chain(t, {{"neg v0", t}, {"sign v10", t}, {"neg v11", t}, {"mul v11, -1", t}}));
    // True of all numbers, and false of NaN.
    out.push_back(chain(
        t, {{"sign v0", t}, {"abs v10", t}, {"ge v11, -2", b}, {"abs v0", t}, {"gt v13, -1", b}, {"ge v13, 0", b}}));
    out.push_back(chain(t, {{"abs v0", t}, {"neg v10", t}, {"lt v11, 3", b}, {"le v11, 0", b}}));
    out.push_back(chain(t, {{"abs v0", t}, {"abs v1", t}, {"add v10, v11", t}, {"ge v12, -2", b}}));
    out.push_back(chain(DType::bool_, {{"eq v1, v2", b},
                                       {"cast v0", DType::i8},
                                       {"cast v1", DType::i8},
                                       {"where v10, v11, v12", DType::i8},
                                       {"neg v13", DType::i8},
                                       {"cast v14", t}}));
  }
  for (const DType t : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64}) {
    out.push_back(chain(t, {{"add v0, v0", t}, {"div 1, v10", t}}));
    out.push_back(chain(t, {{"max v0, v1", t}, {"eq v10, v1", b}, {"gt v0, v1", b}, {"eq v10, v0", b}}));
    out.push_back(
        chain(t, {{"add v0, v0", t}, {"max v10, 7", t}, {"eq v11, 7", b}, {"min v10, 7", t}, {"ne v13, 7", b}}));
    out.push_back(chain(t, {{"min v0, v1", t},
                            {"max v10, 0", t},
                            {"eq v11, v1", b},
                            {"max v0, v1", t},
                            {"max v13, 0", t},
                            {"eq v14, v1", b}}));
    out.push_back(
        chain(t, {{"add v0, v0", t}, {"min v10, v1", t}, {"eq v11, v10", b}, {"max v10, v1", t}, {"ne v13, v1", b}}));
    if (is_unsigned_int(t)) {
      out.push_back(chain(t, {{"neg v2", t},
                              {"min v1, v10", t},
                              {"min v11, v2", t},
                              {"cast v0", DType::i32},
                              {"neg v13", DType::i32},
                              {"min v14, 5", DType::i32}}));
      out.push_back(chain(t, {{"cast v0", DType::f32},
                              {"cast v1", DType::f32},
                              {"mul v11, -0", DType::f32},
                              {"div v10, v12", DType::f32},
                              {"lt v13, 0", b},
                              {"mod v11, v13", DType::f32},
                              {"sqrt v12", DType::f32},
                              {"div 1, v16", DType::f32},
                              {"sign v17", DType::f32}}));
      continue;
    }
    out.push_back(
        chain(t, {{"neg v1", t}, {"min v0, v10", t}, {"min v11, v2", t}, {"max v0, v10", t}, {"max v13, v2", t}}));
    out.push_back(chain(t, {{"mul v1, -1", t}, {"max v0, v10", t}, {"max v11, v2", t}, {"max v12, 0", t}}));
    out.push_back(chain(t, {{"abs v0", t}, {"fmod v10, v1", t}, {"lt v10, 0", b}, {"neg v0", t}, {"fmod v13, v1", t}}));
    out.push_back(chain(
        t, {{"neg v0", t}, {"cast v10", DType::i64}, {"lt v10, v1", b}, {"abs v0", t}, {"cast v13", DType::i64}}));
  }
  // And, or and exclusive or of the same two.
  out.push_back(chain(b, {{"eq v1, v2", b}, {"where v1, true, v2", b}, {"ne v10, v11", b}, {"and_ v1, v2", b}}));
  out.push_back(
      chain(b, {{"or_ v1, v2", b}, {"xor_ v10, v0", b}, {"and_ v1, v2", b}, {"xor_ v12, v1", b}, {"or_ v12, v0", b}}));
  out.push_back(
      chain(b, {{"eq v1, false", b}, {"and_ v10, v2", b}, {"or_ v2, v10", b}, {"eq v12, v0", b}, {"or_ v11, v0", b}}));
  // Conversions whose numbers do not fit.
  for (const DType t : {DType::f32, DType::f16, DType::f64, DType::i64}) {
    out.push_back(
        chain(t, {{"cast v0", DType::i32}, {"neg v10", DType::i32}, {"sign v11", DType::i32}, {"cast v10", t}}));
    out.push_back(chain(
        t, {{"cast v0", DType::u32}, {"cast v1", DType::u32}, {"add v10, v11", DType::u32}, {"sign v12", DType::u32}}));
    out.push_back(chain(
        t, {{"cast v0", DType::u32}, {"cast v10", DType::f64}, {"cast v0", DType::bf16}, {"cast v1", DType::f16}}));
    out.push_back(chain(t, {{"cast v0", DType::u8}, {"eq v10, 255", b}, {"cast v1", DType::i8}, {"eq v12, 127", b}}));
    out.push_back(chain(t, {{"cast v0", DType::u64}, {"cast v10", t}, {"cast v0", DType::i64}, {"cast v12", t}}));
  }
  return out;
}

// Expressions of ops that have one right answer, drawn at random; what is on the way is not stored.
class Draw {
 public:
  Draw(DType operands, uint64_t seed) : operands_(operands), rng_(seed) { columns_.width = 1; }
  ir::Kernel kernel(int expressions) {
    for (int i = 0; i < expressions; ++i) {
      const DType type = any_type();
      const auto [statement, result] = make_statement(type, 3);
      columns_.add(statement, result);
    }
    return cuda_kernel(columns_.text(operands_));
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(rng_); }
  template <class T>
  const T& pick_one(const std::vector<T>& all) {
    return all[below(all.size())];
  }
  DType any_type() { return below(3) > 0 ? operands_ : kCudaDtypes[below(std::size(kCudaDtypes))]; }

  std::string constant(DType type) {
    if (type == DType::bool_) return below(2) == 0 ? "false" : "true";
    if (is_float(type)) return pick_one<std::string>({"0", "-0", "1", "-1", "0.5", "-2", "3"});
    if (is_unsigned_int(type)) return pick_one<std::string>({"0", "1", "2", "7"});
    return pick_one<std::string>({"0", "1", "-1", "2", "-7"});
  }
  std::string leaf(DType type) {
    if (type == operands_) return "v" + std::to_string(below(3));
    if (type == DType::bool_) return "v3";
    return "v" + columns_.let("cast v" + std::to_string(below(3)), type);
  }
  std::string value(DType type, int depth) {
    if (depth == 0) return leaf(type);
    const auto [statement, result] = make_statement(type, depth);
    const std::string made = "v" + columns_.let(statement, result);
    return result == type ? made : "v" + columns_.let("cast " + made, type);
  }
  // An op of operands of `type`, and the type of its result.
  std::pair<std::string, DType> make_statement(DType type, int depth) {
    // Half of them are what an assembler merges with its neighbours.
    static const std::set<std::string_view> kMerged = {"neg", "abs",  "min",   "max", "add",
                                                       "sub", "sign", "where", "relu"};
    const bool merged = below(2) == 0;
    std::vector<ScalarOp> ops = {ScalarOp::cast};
    for (const ScalarOp op : accepted(type)) {
      if (choose_bound(op, type) == 0 && (!merged || kMerged.contains(ir::info(op).name))) ops.push_back(op);
    }
    const ScalarOp op = pick_one(ops);
    const auto deeper = [&] {
      return value(type, depth - 1 - static_cast<int>(below(3) == 0 ? below(static_cast<std::size_t>(depth)) : 0));
    };
    if (op == ScalarOp::cast) return {"cast " + deeper(), any_type()};
    const auto& row = ir::info(op);
    std::vector<std::string> args;
    if (op == ScalarOp::where) args.push_back(value(DType::bool_, 1));
    while (args.size() < static_cast<std::size_t>(row.arity)) args.push_back(deeper());
    if (row.arity > 1 && below(4) == 0) args[1 + below(args.size() - 1)] = constant(type);
    std::string text(row.name);
    for (std::size_t i = 0; i < args.size(); ++i) text += (i > 0 ? ", " : " ") + args[i];
    return {text, result_type(op, type, type)};
  }

  DType operands_;
  std::mt19937_64 rng_;
  Columns columns_;
};

// Both writers write all; some run under sanitizers.
std::vector<Chain> written_and_sampled(const std::vector<Chain>& all) {
  for (const Chain& c : all) {
    for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
      if (!kSanitized || (codegen == Codegen::llvm && !EmulationLibrary::has_llvm())) continue;
      const auto text = codegen_test::emit_text(c.kernel, named_target("sm_90").value(), codegen);
      EXPECT_TRUE(text.ok()) << text.status().str();
    }
  }
  return sampled(all, 20);
}

// `kernels` of each type; kernel k has seed `seed` + k.
std::vector<Chain> random_chains(int kernels, int seed) {
  std::vector<Chain> out;
  for (const DType dtype : kCudaDtypes) {
    for (int k = seed; k < seed + kernels; ++k) {
      out.push_back({dtype, Draw(dtype, static_cast<uint64_t>(k) << 8 | static_cast<uint64_t>(dtype)).kernel(24)});
    }
  }
  return out;
}

// FUSEC_CHAINS=COUNT,SEED: other than the few of every run.
std::vector<Chain> chosen_chains(int count) {
  int seed = 0;
  if (const char* chosen = std::getenv("FUSEC_CHAINS")) {
    EXPECT_EQ(std::sscanf(chosen, "%d,%d", &count, &seed), 2) << chosen;
  }
  return random_chains(count, seed);
}

std::vector<ir::Kernel> collect_kernels(const std::vector<Chain>& chains) {
  std::vector<ir::Kernel> out;
  for (const Chain& c : chains) out.push_back(c.kernel);
  return out;
}

void expect_chains(const std::vector<Chain>& chains, const RunKernel& run) {
  for (std::size_t k = 0; k < chains.size(); ++k) {
    const ir::Kernel& kernel = chains[k].kernel;
    const std::vector<Tensor> want = operands(kernel, chains[k].dtype), got = copies(want, 4);
    const Extents extents = {{"n", want[0].num_elements()}};
    ASSERT_TRUE(ir::evaluate(kernel, want, extents).ok());
    ASSERT_EQ(run(k, got, extents), "");
    for (std::size_t i = 4; i < want.size(); ++i) {
      const DType dtype = want[i].dtype();
      const std::size_t size = size_of(dtype);
      int64_t wrong = 0, first = -1;
      for (int64_t j = 0; j < want[i].num_elements(); ++j) {
        const char *g = got[i].as<char>() + static_cast<std::size_t>(j) * size,
                   *w = want[i].as<char>() + static_cast<std::size_t>(j) * size;
        const bool same = std::isnan(ir::load_double(dtype, w)) ? std::isnan(ir::load_double(dtype, g))
                                                                : std::memcmp(g, w, size) == 0;
        if (!same && wrong++ == 0) first = j;
      }
      EXPECT_EQ(wrong, 0) << "output " << i - 4 << ", the first at " << first << ", of\n" << ir::print(kernel);
    }
  }
}

TEST(CudaChains, Random) {
  FUSEC_NEEDS_COMPILER();
  const std::vector<Chain> all = written_and_sampled(chosen_chains(1));
  under_emulation(collect_kernels(all), Codegen::nvrtc, [&](const RunKernel& run) { expect_chains(all, run); });
}

TEST(NvptxChains, Random) {
  FUSEC_NEEDS_LLVM_COMPILER();
  const std::vector<Chain> all = written_and_sampled(chosen_chains(1));
  under_emulation(collect_kernels(all), Codegen::llvm, [&](const RunKernel& run) { expect_chains(all, run); });
}

TEST(CudaChains, Known) {
  FUSEC_NEEDS_COMPILER();
  const std::vector<Chain> all = written_and_sampled(chains());
  under_emulation(collect_kernels(all), Codegen::nvrtc, [&](const RunKernel& run) { expect_chains(all, run); });
}

class GpuChains : public testing::TestWithParam<GpuMode> {};

TEST_P(GpuChains, All) {
  FUSEC_NEEDS_GPU(GetParam());
  std::vector<Chain> all = chains();
  for (Chain& c : chosen_chains(4)) all.push_back(std::move(c));
  on_gpu(collect_kernels(all), GetParam(), [&](const RunKernel& run) { expect_chains(all, run); });
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuChains, testing::ValuesIn(kGpuModes), mode_name);

}  // namespace
}  // namespace fusec::codegen_test
