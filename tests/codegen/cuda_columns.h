// SPDX-License-Identifier: Apache-2.0
// What tests of scalar ops in generated GPU code share: kernels of one output per column, their operands, and how they
// run on the CPU and on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "codegen/ptx/ptx.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"
#include "tests/codegen/scalar_inputs.h"
#include "tests/sanitized.h"

namespace fusec::codegen_test {

using ir::ScalarOp;

inline constexpr DType kCudaDtypes[] = {DType::f64, DType::f32, DType::f16,  DType::bf16, DType::i8,
                                        DType::i16, DType::i32, DType::i64,  DType::u8,   DType::u16,
                                        DType::u32, DType::u64, DType::bool_};
constexpr const char* kOperands = "abc";

// One output for each column; all operands are loaded.
struct Columns {
  int width = 2;  // lanes of a thread; 1 makes small code
  std::string parameters, body;
  int registers = 10;

  // The number of the register.
  std::string let(const std::string& statement, DType result) {
    std::string n = std::to_string(registers++);
    body += "      v" + n + ": " + to_string(result) + "$w = " + statement + "\n";
    return n;
  }
  void add(const std::string& statement, DType result) {
    const std::string n = let(statement, result);
    parameters += ", %y" + n + ": out " + to_string(result) + "[n]";
    body += "      store y" + n + "[$at], v" + n + " guard(n - 1 - ($at))\n";
  }
  std::string text(DType dtype) const {
    std::string in = "%cond: in bool[n]", loads;
    for (int k = 0; k < 3; ++k) {
      const std::string name(1, kOperands[k]), type = to_string(dtype);
      in += ", %" + name + ": in " + type + "[n]";
      loads += "      v" + std::to_string(k) + ": " + type + "$w = load " + name + "[$at] guard(n - 1 - ($at)) else " +
               (dtype == DType::bool_ ? "false" : "0") + "\n";
    }
    loads += "      v3: bool$w = load cond[$at] guard(n - 1 - ($at)) else false\n";
    const std::string w = std::to_string(width);
    return filled(
        "kernel @columns(" + in + parameters + ") {\n  grid i in floordiv(n + 32*" + w + " - 1, 32*" + w +
            ") {\n    block t in 32 {\n" + loads + body + "    }\n  }\n}\n",
        {{"$w", width > 1 ? "." + w : ""}, {"$at", "32*" + w + "*i + " + w + "*t" + (width > 1 ? " + lane" : "")}});
  }
};

inline std::string format_call(ScalarOp op) {
  const auto& row = ir::info(op);
  if (op == ScalarOp::where) return "where v3, v0, v1";
  std::string out(row.name);
  for (int k = 0; k < row.arity; ++k) out += (k ? ", v" : " v") + std::to_string(k);
  return out;
}

inline std::vector<ScalarOp> accepted(DType dtype) {
  std::vector<ScalarOp> out;
  for (const ScalarOp op : primitives()) {
    if (accepts(op, dtype)) out.push_back(op);
  }
  return out;
}

// Pairs of specials, all patterns of 16-bit types, and values in the common domain.
inline std::vector<Tensor> operands(const ir::Kernel& kernel, DType dtype) {
  const std::vector<uint64_t> special = special_bits(dtype);
  const auto count = static_cast<int64_t>(special.size());
  const int bits = static_cast<int>(8 * size_of(dtype));
  const int64_t pairs = count * count, near = many_or(4000, 100), sweep = bits == 16 && !kSanitized ? 1 << 16 : near,
                n = pairs + sweep + near;
  std::vector<Tensor> args = make_args(kernel, {{"n", n}}, 5, 0, 2);
  std::mt19937_64 rng(9);
  std::uniform_real_distribution<double> uniform(-8, 8);
  for (std::size_t k = 1; k < 4; ++k) {
    for (int64_t i = 0; i < n; ++i) {
      char* at = args[k].as<char>() + i * static_cast<int64_t>(size_of(dtype));
      if (i < pairs) {
        put_bits(args[k], i, special[static_cast<std::size_t>(k == 1 ? i % count : i / count)]);
      } else if (i < pairs + sweep) {
        put_bits(args[k], i, k == 1 && bits == 16 ? static_cast<uint64_t>(i - pairs) : rng());
      } else if (is_float(dtype)) {
        ir::store_double(dtype, at, uniform(rng));
      } else {
        ir::store_int(dtype, at, static_cast<int64_t>(uniform(rng)));
      }
    }
  }
  return args;
}

inline std::vector<Tensor> copies(const std::vector<Tensor>& args, std::size_t inputs) {
  std::vector<Tensor> out(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(inputs));
  for (std::size_t i = inputs; i < args.size(); ++i)
    out.push_back(Tensor::make(args[i].dtype(), args[i].shape()).value());
  return out;
}

inline double choose_bound(ScalarOp op, DType dtype) {
  const double ulp = ir::info(op).ulp;
  return ulp == 0 ? 0 : is_16_bit_float(dtype) ? 1.01 : ulp;
}

// Runs kernel number k; answers what went wrong.
using RunKernel = std::function<std::string(std::size_t k, const std::vector<Tensor>& args, const Extents& extents)>;

// Runs `check` with kernels on the CPU.
template <class Check>
void under_emulation(const std::vector<ir::Kernel>& kernels, Codegen codegen, const Check& check) {
  std::vector<std::string> texts;
  for (const ir::Kernel& kernel : kernels) {
    const auto text = codegen_test::emit_text(kernel, named_target("sm_90").value(), codegen);
    ASSERT_TRUE(text.ok()) << text.status().str();
    texts.push_back(*text);
  }
  if (testing_support::kSanitized) return;  // what the texts compute is left to builds without
  const auto library = EmulationLibrary::make(kernels, texts);
  ASSERT_NE(library, nullptr);
  check([&](std::size_t k, const std::vector<Tensor>& args, const Extents& extents) {
    return library->run(k, args, extents, false).error;
  });
}

// The same on a GPU.
template <class Check>
void on_gpu(const std::vector<ir::Kernel>& kernels, const GpuMode& mode, const Check& check) {
  const auto library = GpuLibrary::make(kernels, mode);
  ASSERT_NE(library, nullptr);
  check([&](std::size_t k, const std::vector<Tensor>& args, const Extents& extents) {
    return library->run(k, args, extents).error;
  });
}

inline std::string mode_name(const testing::TestParamInfo<GpuMode>& info) {
  return std::string(info.param.codegen == Codegen::llvm ? "llvm" : "nvrtc") + (info.param.ptx ? "_ptx" : "");
}

}  // namespace fusec::codegen_test
