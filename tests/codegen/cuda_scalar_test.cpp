// SPDX-License-Identifier: Apache-2.0
// Every scalar op and cast of generated CUDA: run on the CPU against the evaluator, and compiled to cubins.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>

#include "codegen/ptx/ptx.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "tests/codegen/cuda_columns.h"
#include "tests/codegen/cuda_emulation_run.h"
#include "tests/codegen/lowered.h"
#include "tests/codegen/scalar_inputs.h"
#include "tests/sanitized.h"

namespace fusec::codegen_test {
namespace {

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
  for (std::size_t k = 0; k < std::min<std::size_t>(4, args.size()); ++k) {
    of += " " + std::to_string(ir::load_double(
                    args[k].dtype(), args[k].as<char>() + where * static_cast<int64_t>(size_of(args[k].dtype()))));
  }
  ADD_FAILURE() << name << ": " << wrong << " of " << got.num_elements() << " are wrong, worst by " << worst
                << " ulp, of" << of << ": " << ir::load_double(got.dtype(), got.as<char>() + where * size) << " for "
                << ir::load_double(want.dtype(), want.as<char>() + where * size);
}

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

// The functions that GPUs compute in steps of their own.
std::vector<ScalarOp> own_functions() {
  return {
#define SCALAR_OP(...)
#define SCALAR_DEF(...)
#define SCALAR_FN(name, ...) ScalarOp::name,
#include "ir/ops/scalar_ops.def"
      ScalarOp::erfc,
      ScalarOp::pow,
      ScalarOp::fmod,
  };
}

ir::Kernel function_columns(DType dtype) {
  Columns columns;
  for (const ScalarOp op : own_functions()) columns.add(format_call(op), dtype);
  return cuda_kernel(columns.text(dtype));
}

// Random bit patterns, and numbers that are closest to multiples of pi/2 in f32 and f64 (Muller, Elementary Functions,
// 11.3).
std::vector<Tensor> function_operands(const ir::Kernel& kernel, DType dtype) {
  const int64_t n = 150000;
  std::vector<Tensor> args = make_args(kernel, {{"n", n}}, 5, 0, 2);
  std::mt19937_64 rng(21);
  for (std::size_t k = 1; k < 4; ++k) {
    for (int64_t i = 0; i < n; ++i) put_bits(args[k], i, rng());
  }
  int64_t at = 0;
  for (const double hard : {16367173 * 0x1p72, 6381956970095103 * 0x1p797, 0x1p15, 0x1p19, 0x1.fffffep127, 0x1p1023}) {
    for (const double sign : {-1.0, 1.0})
      ir::store_double(dtype, args[1].as<char>() + at++ * static_cast<int64_t>(size_of(dtype)), sign * hard);
  }
  return args;
}

// glibc's tan is off by 14 ulp at the hardest of them.
void refine(ScalarOp op, const Tensor& operand, Tensor& want) {
  auto* const exact = op == ScalarOp::sin ? sinl : op == ScalarOp::cos ? cosl : op == ScalarOp::tan ? tanl : nullptr;
  if (exact == nullptr || want.dtype() != DType::f64) return;
  for (int i = 0; i < 12; ++i) want.as<double>()[i] = static_cast<double>(exact(operand.as<double>()[i]));
}

const std::vector<DType> kFunctionTypes = {DType::f32, DType::f64};

const auto kFunctions = [](const RunKernel& run) {
  for (std::size_t k = 0; k < kFunctionTypes.size(); ++k) {
    const DType dtype = kFunctionTypes[k];
    const ir::Kernel kernel = function_columns(dtype);
    std::vector<Tensor> want = function_operands(kernel, dtype);
    const std::vector<Tensor> got = copies(want, 4);
    const Extents extents = {{"n", want[0].num_elements()}};
    ASSERT_TRUE(ir::evaluate(kernel, want, extents).ok());
    ASSERT_EQ(run(k, got, extents), "");
    for (std::size_t i = 4; i < want.size(); ++i) {
      const ScalarOp op = own_functions()[i - 4];
      refine(op, want[1], want[i]);
      const double bound = op == ScalarOp::fmod ? 0 : (dtype == DType::f64 ? 2 : 1) * ir::info(op).ulp;
      expect_column(got[i], want[i], bound, std::string(ir::info(op).name) + " " + to_string(dtype), want);
    }
  }
};

std::vector<ir::Kernel> all_function_kernels() {
  std::vector<ir::Kernel> out;
  for (const DType dtype : kFunctionTypes) out.push_back(function_columns(dtype));
  return out;
}

TEST(NvptxScalar, FunctionsOfAllBitPatterns) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation(all_function_kernels(), Codegen::llvm, kFunctions);
}

TEST(NvptxScalar, CallsNoLibrary) {
  if (!FUSEC_WITH_LLVM) GTEST_SKIP() << "LLVM's writer is not part of this build";
  for (const ir::Kernel& kernel : all_op_kernels()) {
    const auto text = codegen_test::emit_text(kernel, named_target("sm_90").value(), Codegen::llvm);
    ASSERT_TRUE(text.ok()) << text.status().str();
    for (std::size_t at = 0; (at = text->find("\ndeclare ", at)) != std::string::npos; ++at) {
      const std::string line = text->substr(at + 1, text->find('\n', at + 1) - at - 1);
      EXPECT_NE(line.find("@llvm."), std::string::npos) << line;
    }
  }
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

// The ops that only kernels have, and the largest error of each column.
struct KernelOpColumns {
  ir::Kernel kernel;
  std::vector<double> bounds;
};

KernelOpColumns kernel_op_columns() {
  Columns columns;
  columns.width = 4;
  std::vector<double> bounds;
  for (const ScalarOp op : {ScalarOp::fma, ScalarOp::fma_down, ScalarOp::saturate, ScalarOp::copysign,
                            ScalarOp::exp2_approx, ScalarOp::rcp_approx, ScalarOp::erfc}) {
    columns.add(format_call(op), DType::f32);
    bounds.push_back(ir::info(op).ulp);
  }
  columns.add("from_bits v" + columns.let("to_bits v0", DType::i32), DType::f32);
  for (const DType to : {DType::i8, DType::u8, DType::i16, DType::i32, DType::u64}) columns.add("round_cast v0", to);
  bounds.resize(bounds.size() + 6, 0);
  return {cuda_kernel(columns.text(DType::f32)), bounds};
}

const auto kKernelOps = [](const RunKernel& run) {
  const KernelOpColumns columns = kernel_op_columns();
  const std::vector<Tensor> want = operands(columns.kernel, DType::f32), got = copies(want, 4);
  const Extents extents = {{"n", want[0].num_elements()}};
  ASSERT_TRUE(ir::evaluate(columns.kernel, want, extents).ok());
  ASSERT_EQ(run(0, got, extents), "");
  for (std::size_t i = 4; i < want.size(); ++i)
    expect_column(got[i], want[i], columns.bounds[i - 4], "column " + std::to_string(i - 4), want);
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

// Functions that are shorter where their results are rounded to 16 bits, of all numbers of such a type.
struct Rounded {
  const char* op;
  DType dtype;
};
constexpr Rounded kRounded[] = {
    {"gelu", DType::f16}, {"gelu", DType::bf16}, {"sigmoid", DType::f16}, {"sigmoid", DType::bf16}};

ir::Kernel rounded_kernel(const Rounded& rounded) {
  return cuda_kernel(filled(R"(kernel @rounded(%a: in $T[n], %y: out $T[n]) facts(n % 128 == 0) {
  grid i in floordiv(n, 128) {
    block t in 32 {
      v0: $T.4 = load a[128*i + 4*t + lane]
      v1: f32.4 = cast v0
      v2: f32.4 = $OP v1
      v3: $T.4 = cast v2
      store y[128*i + 4*t + lane], v3
    }
  }
}
)",
                            {{"$T", to_string(rounded.dtype)}, {"$OP", rounded.op}}));
}

std::vector<ir::Kernel> rounded_kernels() {
  std::vector<ir::Kernel> kernels;
  for (const Rounded& rounded : kRounded) kernels.push_back(rounded_kernel(rounded));
  return kernels;
}

const auto kRoundedValues = [](const RunKernel& run) {
  const Extents extents = {{"n", 65536}};
  for (std::size_t k = 0; k < std::size(kRounded); ++k) {
    const ir::Kernel kernel = rounded_kernel(kRounded[k]);
    std::vector<Tensor> want = make_args(kernel, extents, 5, 0, 2);
    for (int64_t i = 0; i < 65536; ++i) put_bits(want[0], i, static_cast<uint64_t>(i));
    const std::vector<Tensor> got = copies(want, 1);
    ASSERT_TRUE(ir::evaluate(kernel, want, extents).ok());
    ASSERT_EQ(run(k, got, extents), "");
    expect_column(got[1], want[1], 1, std::string(kRounded[k].op) + " of " + to_string(kRounded[k].dtype), want);
  }
};

TEST(CudaScalar, FunctionsOfHalves) {
  FUSEC_NEEDS_COMPILER();
  under_emulation(rounded_kernels(), Codegen::nvrtc, kRoundedValues);
}

TEST(NvptxScalar, FunctionsOfHalves) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation(rounded_kernels(), Codegen::llvm, kRoundedValues);
}

TEST(CudaScalar, BytesOfFourLanes) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({byte_columns()}, Codegen::nvrtc, kBytes);
}

TEST(CudaScalar, QuotientsOfHalves) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({quotients()}, Codegen::nvrtc, kQuotients);
}

TEST(NvptxScalar, QuotientsOfHalves) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation({quotients()}, Codegen::llvm, kQuotients);
}

TEST(CudaScalar, KernelOps) {
  FUSEC_NEEDS_COMPILER();
  under_emulation({kernel_op_columns().kernel}, Codegen::nvrtc, kKernelOps);
}

TEST(NvptxScalar, KernelOps) {
  FUSEC_NEEDS_LLVM_COMPILER();
  under_emulation({kernel_op_columns().kernel}, Codegen::llvm, kKernelOps);
}

class GpuScalar : public testing::TestWithParam<GpuMode> {};

TEST_P(GpuScalar, OpsAndCastsOfAllTypes) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu(all_op_kernels(), GetParam(), kAllOps);
}

TEST_P(GpuScalar, FunctionsOfAllBitPatterns) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu(all_function_kernels(), GetParam(), kFunctions);
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

TEST_P(GpuScalar, FunctionsOfHalves) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu(rounded_kernels(), GetParam(), kRoundedValues);
}

TEST_P(GpuScalar, KernelOps) {
  FUSEC_NEEDS_GPU(GetParam());
  on_gpu({kernel_op_columns().kernel}, GetParam(), kKernelOps);
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuScalar, testing::ValuesIn(kGpuModes), mode_name);

Status compile_all(const std::string& target_name, Codegen codegen) {
  const Target target = named_target(target_name).value();
  for (const DType dtype : testing_support::sampled(kCudaDtypes)) {
    std::vector<ir::Kernel> kernels = {op_columns(dtype, 1), cast_columns(dtype, 1)};
    if (dtype == DType::f16 || dtype == DType::f64) kernels.push_back(definition_columns(dtype, 1));
    for (const ir::Kernel& kernel : kernels) {
      FUSEC_ASSIGN(const codegen::Artifact artifact, codegen_test::emit(kernel, target, {.codegen = codegen}));
      if (codegen == Codegen::llvm && !codegen::has_assembler())
        return Status(StatusCode::unsupported, "no assembler: LLVM's PTX has no cubin");
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
