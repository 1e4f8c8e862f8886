// SPDX-License-Identifier: Apache-2.0
// Every scalar op and cast of generated CUDA: run on the CPU against the evaluator, and compiled to cubins.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <set>
#include <string_view>

#include "codegen/emit.h"
#include "codegen/ptx/nvjitlink.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/scalar_inputs.h"

namespace fusec::codegen_test {
namespace {

using ir::ScalarOp;

constexpr DType kCudaDtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8,  DType::i16,  DType::i32,
                                 DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::bool_};
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

std::string format_call(ScalarOp op) {
  const auto& row = ir::info(op);
  if (op == ScalarOp::where) return "where v3, v0, v1";
  std::string out(row.name);
  for (int k = 0; k < row.arity; ++k) out += (k ? ", v" : " v") + std::to_string(k);
  return out;
}

std::vector<ScalarOp> accepted(DType dtype) {
  std::vector<ScalarOp> out;
  for (const ScalarOp op : primitives()) {
    if (accepts(op, dtype)) out.push_back(op);
  }
  return out;
}

ir::Kernel op_columns(DType dtype, int width = 2) {
  Columns columns;
  columns.width = width;
  for (const ScalarOp op : accepted(dtype)) columns.add(format_call(op), result_type(op, dtype, dtype));
  return cuda_kernel(columns.text(dtype));
}

ir::Kernel cast_columns(DType dtype, int width = 2) {
  Columns columns;
  columns.width = width;
  for (const DType to : kCudaDtypes) columns.add("cast v0", to);
  return cuda_kernel(columns.text(dtype));
}

std::vector<ScalarOp> definitions() {
  std::vector<ScalarOp> out;
  for (const auto& row : ir::all_scalar_ops()) {
    if (row.is_definition) out.push_back(*ir::find_scalar_op(row.name));
  }
  return out;
}

ir::Kernel definition_columns(DType dtype, int width = 2) {
  Columns columns;
  columns.width = width;
  for (const ScalarOp op : definitions()) {
    if (accepts(op, dtype)) columns.add(format_call(op), dtype);
  }
  return cuda_kernel(columns.text(dtype));
}

// Pairs of specials, all patterns of 16-bit types, and values in the common domain.
std::vector<Tensor> operands(const ir::Kernel& kernel, DType dtype) {
  const std::vector<uint64_t> special = special_bits(dtype);
  const auto count = static_cast<int64_t>(special.size());
  const int bits = static_cast<int>(8 * size_of(dtype));
  const int64_t pairs = count * count, sweep = bits == 16 ? 1 << 16 : 4000, n = pairs + sweep + 4000;
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

std::vector<Tensor> copies(const std::vector<Tensor>& args, std::size_t inputs) {
  std::vector<Tensor> out(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(inputs));
  for (std::size_t i = inputs; i < args.size(); ++i)
    out.push_back(Tensor::make(args[i].dtype(), args[i].shape()).value());
  return out;
}

double choose_bound(ScalarOp op, DType dtype) {
  const double ulp = ir::info(op).ulp;
  return ulp == 0 ? 0 : is_16_bit_float(dtype) ? 1.01 : ulp;
}

// Columns of both within `bound` ulp of the rounded reference (half a unit more); the worst place is told.
void expect_column(const Tensor& got, const Tensor& want, double bound, const std::string& name,
                   const std::vector<Tensor>& args) {
  const auto size = static_cast<int64_t>(size_of(got.dtype()));
  const double allowed = bound + (bound > 0 ? 0.5 : 0);
  double worst = 0;
  int64_t where = 0, wrong = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const char *g = got.as<char>() + i * size, *w = want.as<char>() + i * size;
    const double error = is_float(got.dtype()) ? compute_error(got.dtype(), g, ir::load_double(want.dtype(), w))
                         : std::memcmp(g, w, static_cast<std::size_t>(size)) == 0 ? 0.0
                                                                                  : INFINITY;
    wrong += !(error <= allowed);
    if (!(error <= worst)) worst = error, where = i;
  }
  if (wrong == 0) return;
  std::string of;
  for (std::size_t k = 1; k < 4; ++k) {
    of += " " + std::to_string(ir::load_double(
                    args[k].dtype(), args[k].as<char>() + where * static_cast<int64_t>(size_of(args[k].dtype()))));
  }
  ADD_FAILURE() << name << ": " << wrong << " of " << got.num_elements() << " are wrong, worst by " << worst
                << " ulp, of" << of << ": " << ir::load_double(got.dtype(), got.as<char>() + where * size) << " for "
                << ir::load_double(want.dtype(), want.as<char>() + where * size);
}

// Runs kernel number k; answers what went wrong.
using RunKernel = std::function<std::string(std::size_t k, const std::vector<Tensor>& args, const Extents& extents)>;

std::vector<ir::Kernel> all_op_kernels() {
  std::vector<ir::Kernel> out;
  for (const DType dtype : kCudaDtypes) {
    out.push_back(op_columns(dtype));
    out.push_back(cast_columns(dtype));
  }
  return out;
}

void expect_all_ops(const std::vector<ir::Kernel>& kernels, const RunKernel& run) {
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const DType dtype = kCudaDtypes[k / 2];
    const std::vector<Tensor> want = operands(kernels[k], dtype), got = copies(want, 4);
    const Extents extents = {{"n", want[0].num_elements()}};
    ASSERT_TRUE(ir::evaluate(kernels[k], want, extents).ok());
    ASSERT_EQ(run(k, got, extents), "");
    const std::vector<ScalarOp> ops = accepted(dtype);
    for (std::size_t i = 4; i < want.size(); ++i) {
      const bool is_cast = k % 2 == 1;
      const double bound = is_cast ? 0 : choose_bound(ops[i - 4], dtype);
      const std::string name =
          is_cast ? std::string("cast to ") + to_string(want[i].dtype()) : std::string(ir::info(ops[i - 4]).name);
      expect_column(got[i], want[i], bound, name + " " + to_string(dtype), want);
    }
  }
}

// On their domain alone, where their bounds hold; sums that cancel count errors in units of at least 1/4.
void expect_definitions(const ir::Kernel& kernel, const RunKernel& run) {
  const std::vector<ScalarOp> ops = definitions();
  const int64_t n = 2000;
  for (std::size_t column = 0; column < ops.size(); ++column) {
    const auto& row = ir::info(ops[column]);
    const std::vector<Tensor> want = make_args(kernel, {{"n", n}}, 3, row.domain_lo, row.domain_hi),
                              got = copies(want, 4);
    ASSERT_TRUE(ir::evaluate(kernel, want, {{"n", n}}).ok());
    ASSERT_EQ(run(0, got, {{"n", n}}), "");
    const double unit = std::max(row.ulp + 0.5, 0.51) * 0x1p-23;
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double g = got[column + 4].as<float>()[i], w = want[column + 4].as<float>()[i];
      worst = std::max(worst, std::fabs(g - w) / std::max(std::fabs(w), 0.25));
    }
    EXPECT_LE(worst, unit) << row.name;
  }
}

// Runs `check` with kernels on the CPU.
template <class Check>
void under_emulation(const std::vector<ir::Kernel>& kernels, Codegen codegen, const Check& check) {
  std::vector<std::string> texts;
  for (const ir::Kernel& kernel : kernels) {
    const auto text = codegen::emit_text(kernel, named_target("sm_90").value(), codegen);
    ASSERT_TRUE(text.ok()) << text.status().str();
    texts.push_back(*text);
  }
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

const auto kAllOps = [](const RunKernel& run) { expect_all_ops(all_op_kernels(), run); };
const auto kDefinitions = [](const RunKernel& run) { expect_definitions(definition_columns(DType::f32), run); };

TEST(CudaScalar, OpsAndCastsOfAllTypes) {
  FUSEC_NEEDS_COMPILER();
  under_emulation(all_op_kernels(), Codegen::nvrtc, kAllOps);
}

TEST(NvptxScalar, OpsAndCastsOfAllTypes) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation(all_op_kernels(), Codegen::llvm, kAllOps);
}

TEST(CudaScalar, Definitions) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({definition_columns(DType::f32)}, Codegen::nvrtc, kDefinitions);
}

TEST(NvptxScalar, Definitions) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation({definition_columns(DType::f32)}, Codegen::llvm, kDefinitions);
}

// Four lanes to bytes, truncated and rounded: a text of their own.
ir::Kernel byte_columns() {
  Columns columns;
  columns.width = 4;
  columns.add("cast v0", DType::i8);
  columns.add("cast v0", DType::u8);
  columns.add("round v0", DType::f32);
  columns.add("cast v12", DType::i8);
  columns.add("cast v12", DType::u8);
  return cuda_kernel(columns.text(DType::f32));
}

const auto kBytes = [](const RunKernel& run) {
  const std::vector<Tensor> want = operands(byte_columns(), DType::f32), got = copies(want, 4);
  const Extents extents = {{"n", want[0].num_elements()}};
  ASSERT_TRUE(ir::evaluate(byte_columns(), want, extents).ok());
  ASSERT_EQ(run(0, got, extents), "");
  for (std::size_t i = 4; i < want.size(); ++i)
    expect_column(got[i], want[i], 0, "column " + std::to_string(i - 4), want);
};

// f16 values over one f16 value, by a reciprocal in two parts.
ir::Kernel quotients() {
  return cuda_kernel(
      R"(kernel @quotients(%a: in f16[n], %b: in f16[m], %y: out f32[m*n], %z: out f32[m*n]) facts(n % 128 == 0) {
  grid i in m {
    grid j in floordiv(n, 128) {
      v0: f16 = load b[i]
      v1: f32 = cast v0
      block t in 32 {
        v2: f16.4 = load a[128*j + 4*t + lane]
        v3: f32.4 = cast v2
        v4: f32.4 = div v3, v1
        v5: f32.4 = div v3, -1.4140625
        store y[n*i + 128*j + 4*t + lane], v4
        store z[n*i + 128*j + 4*t + lane], v5
      }
    }
  }
}
)");
}

// Every kind of divisor: special ones, and all digits of f16 at places over its range.
const auto kQuotients = [](const RunKernel& run) {
  std::vector<uint64_t> divisors = special_bits(DType::f16);
  for (uint64_t bits = 1; bits < 0x10000; bits += 1021) divisors.push_back(bits);
  const auto m = static_cast<int64_t>(divisors.size());
  const Extents extents = {{"n", 8192}, {"m", m}};
  std::vector<Tensor> want = make_args(quotients(), extents, 5, 0, 2);
  for (int64_t i = 0; i < 8192; ++i) put_bits(want[0], i, static_cast<uint64_t>(8 * i + i % 8));
  for (int64_t i = 0; i < m; ++i) put_bits(want[1], i, divisors[static_cast<std::size_t>(i)]);
  const std::vector<Tensor> got = copies(want, 2);
  ASSERT_TRUE(ir::evaluate(quotients(), want, extents).ok());
  ASSERT_EQ(run(0, got, extents), "");
  for (const std::size_t k : {2, 3}) {
    const auto *g = got[k].as<float>(), *w = want[k].as<float>();
    int64_t wrong = 0;
    for (int64_t i = 0; i < 8192 * m; ++i)
      wrong += std::isnan(w[i]) ? !std::isnan(g[i]) : std::memcmp(g + i, w + i, 4) != 0;
    EXPECT_EQ(wrong, 0) << "output " << k - 2;
  }
};

// Small chains that NVIDIA's assembler has been seen to get wrong (codegen/ptx/workarounds.h), and their neighbours.
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

TEST(CudaScalar, RandomChains) {
  FUSEC_NEEDS_COMPILER();
  const std::vector<Chain> all = chosen_chains(1);
  under_emulation(collect_kernels(all), Codegen::nvrtc, [&](const RunKernel& run) { expect_chains(all, run); });
}

TEST(NvptxScalar, RandomChains) {
  FUSEC_NEEDS_LLVM_COMPILER();
  const std::vector<Chain> all = chosen_chains(1);
  under_emulation(collect_kernels(all), Codegen::llvm, [&](const RunKernel& run) { expect_chains(all, run); });
}

TEST(CudaScalar, Chains) {
  FUSEC_NEEDS_COMPILER();
  const std::vector<Chain> all = chains();
  under_emulation(collect_kernels(all), Codegen::nvrtc, [&](const RunKernel& run) { expect_chains(all, run); });
}

TEST(CudaScalar, BytesOfFourLanes) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({byte_columns()}, Codegen::nvrtc, kBytes);
}

TEST(CudaScalar, QuotientsOfHalves) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({quotients()}, Codegen::nvrtc, kQuotients);
}

class GpuScalar : public testing::TestWithParam<GpuMode> {};

TEST_P(GpuScalar, OpsAndCastsOfAllTypes) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu(all_op_kernels(), GetParam(), kAllOps);
}

TEST_P(GpuScalar, Definitions) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu({definition_columns(DType::f32)}, GetParam(), kDefinitions);
}

TEST_P(GpuScalar, BytesAndQuotients) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu({byte_columns()}, GetParam(), kBytes);
  on_gpu({quotients()}, GetParam(), kQuotients);
}

TEST_P(GpuScalar, Chains) {
  FUSEC_NEEDS_GPU(GetParam());
  std::vector<Chain> all = chains();
  for (Chain& c : chosen_chains(4)) all.push_back(std::move(c));
  on_gpu(collect_kernels(all), GetParam(), [&](const RunKernel& run) { expect_chains(all, run); });
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuScalar, testing::ValuesIn(kGpuModes), [](const auto& info) {
  return std::string(info.param.codegen == Codegen::llvm ? "llvm" : "nvrtc") + (info.param.ptx ? "_ptx" : "");
});

Status compile_all(const std::string& target_name, Codegen codegen) {
  const Target target = named_target(target_name).value();
  for (const DType dtype : kCudaDtypes) {
    std::vector<ir::Kernel> kernels = {op_columns(dtype, 1), cast_columns(dtype, 1)};
    if (dtype == DType::f16 || dtype == DType::f64) kernels.push_back(definition_columns(dtype, 1));
    for (const ir::Kernel& kernel : kernels) {
      FUSEC_ASSIGN(const codegen::Artifact artifact, codegen::emit(kernel, target, {.codegen = codegen}));
      if (codegen == Codegen::llvm && !codegen::has_nvjitlink())
        return Status(StatusCode::unsupported, "no nvJitLink: LLVM's PTX has no cubin");
      if (artifact.phases.at(0).registers == 0) return Status(StatusCode::internal, "no registers");
    }
  }
  return {};
}

void expect_cubins(Codegen codegen) {
  std::vector<std::future<Status>> results;
  for (const char* name : {"sm_80", "sm_90"})
    results.push_back(std::async(std::launch::async, compile_all, name, codegen));
  for (auto& result : results) {
    const Status status = result.get();
    if (status.code() == StatusCode::unsupported) GTEST_SKIP() << status.str();
    EXPECT_TRUE(status.ok()) << status.str();
  }
}

TEST(CudaScalar, AllCompileToCubins) { expect_cubins(Codegen::nvrtc); }
TEST(NvptxScalar, AllCompileToCubins) { expect_cubins(Codegen::llvm); }

}  // namespace
}  // namespace fusec::codegen_test
