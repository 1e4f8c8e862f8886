// SPDX-License-Identifier: Apache-2.0
// Every primitive scalar op, dtype and width on every usable target against the reference column of the op table.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/ops/cast.h"
#include "ir/ops/reference.h"
#include "ir/text/kernel_text.h"
#include "tests/codegen/differential.h"
#include "tests/codegen/host_run.h"
#include "tests/codegen/lowered.h"
#include "tests/codegen/scalar_inputs.h"

namespace fusec::codegen_test {
namespace {

using ir::ScalarOp;

constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8,  DType::i16,  DType::i32,
                          DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::bool_};

std::string element(DType dtype, int width) {
  return std::string(to_string(dtype)) + (width > 1 ? "." + std::to_string(width) : "");
}

ir::Kernel op_kernel(ScalarOp op, DType from, DType to, int width) {
  const int arity = info(op).arity;
  std::string text = "kernel @op(", body, args;
  const std::string at = std::to_string(width) + "*i" + (width > 1 ? " + lane" : "");
  const std::string guard = " guard(n - 1 - " + std::to_string(width) + "*i" + (width > 1 ? " - lane)" : ")");
  for (int k = 0; k < arity; ++k) {
    const DType dtype = op == ScalarOp::where && k == 0 ? DType::bool_ : from;
    text += std::string("%") + char('a' + k) + ": in " + to_string(dtype) + "[n], ";
    body += "    v" + std::to_string(k) + ": " + element(dtype, width) + " = load " + char('a' + k) + "[" + at + "]" +
            guard + " else " + (dtype == DType::bool_ ? "false" : "0") + "\n";
    args += (k ? ", v" : " v") + std::to_string(k);
  }
  text += std::string("%y: out ") + to_string(to) + "[n]) {\n  grid i in floordiv(n + " + std::to_string(width - 1) +
          ", " + std::to_string(width) + ") {\n" + body + "    v" + std::to_string(arity) + ": " + element(to, width) +
          " = " + std::string(info(op).name) + args + "\n    store y[" + at + "], v" + std::to_string(arity) + guard +
          "\n  }\n}\n";
  const auto kernel = ir::parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str() << "\n" << text;
  return kernel.ok() ? *kernel : ir::Kernel();
}

// Inputs.

struct Inputs {
  std::vector<Tensor> operands;
  int64_t count = 0;
};

void put(Tensor& t, int64_t i, double f, int64_t bits) {
  char* at = t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()));
  if (is_float(t.dtype())) {
    ir::store_double(t.dtype(), at, f);
  } else {
    ir::store_int(t.dtype(), at, bits);
  }
}

// Unary ops see `sweep` values spread evenly over all bit patterns; others all pairs of specials; all see the domain.
Inputs make_inputs(ScalarOp op, DType dtype, int64_t sweep) {
  const auto& row = info(op);
  const std::vector<uint64_t> special = special_bits(dtype);
  const auto specials = static_cast<int64_t>(special.size());
  const int bits = static_cast<int>(8 * size_of(dtype));
  if (bits <= 16 && row.arity == 1) sweep = int64_t{1} << bits;
  if (kSanitized) sweep = 2000;
  const int64_t pairs = row.arity == 1 ? specials : specials * specials, domain = many_or(5000, 500),
                random = row.arity == 1 ? sweep : domain;
  Inputs in;
  in.count = pairs + domain + random;
  std::mt19937_64 rng(11);
  for (int k = 0; k < row.arity; ++k) {
    const DType type = op == ScalarOp::where && k == 0 ? DType::bool_ : dtype;
    Tensor t = Tensor::make(type, {in.count}).value();
    int64_t at = 0;
    for (int64_t i = 0; i < pairs; ++i) {
      put_bits(
          t, at++,
          type == DType::bool_
              ? rng()
              : special[static_cast<std::size_t>(k == 0 || (row.arity == 3 && k == 1) ? i % specials : i / specials)]);
    }
    std::uniform_real_distribution<double> uniform(row.domain_lo, row.domain_hi);
    for (int64_t i = 0; i < domain; ++i, ++at) {
      const double x = uniform(rng);
      if (type == DType::bool_)
        put_bits(t, at, rng());
      else
        put(t, at, x, static_cast<int64_t>(x));
    }
    const uint64_t step = bits == 64 ? ~uint64_t{0} / static_cast<uint64_t>(random)
                                     : ((uint64_t{1} << bits) - 1) / static_cast<uint64_t>(random) + (bits <= 16);
    for (int64_t i = 0; i < random; ++i, ++at) {
      put_bits(t, at,
               row.arity == 1 ? static_cast<uint64_t>(i) * std::max<uint64_t>(step, 1) + (bits > 16 ? rng() % step : 0)
                              : rng());
    }
    in.operands.push_back(t);
  }
  return in;
}

// The reference at element i: a float as double (unrounded), an integer as its value.
struct Reference {
  double f = 0;
  int64_t i = 0;
};
std::vector<Reference> reference(ScalarOp op, const Inputs& in, DType dtype) {
  std::vector<Reference> out(static_cast<std::size_t>(in.count));
  for (int64_t i = 0; i < in.count; ++i) {
    double f[3] = {};
    int64_t v[3] = {};
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      const Tensor& t = in.operands[k];
      const char* at = t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()));
      f[k] = ir::load_double(t.dtype(), at);
      if (!is_float(t.dtype())) v[k] = ir::load_int(t.dtype(), at);
    }
    Reference& r = out[static_cast<std::size_t>(i)];
    if (is_float(dtype)) {
      r.f = ir::eval_scalar(op, f[0], f[1], f[2]);
      r.i = r.f != 0;
    } else if (dtype == DType::bool_) {
      r.i = ir::eval_scalar(op, v[0] != 0, v[1] != 0, v[2] != 0);
    } else {
      r.i = ir::eval_scalar(op, dtype, v[0], v[1], v[2]);
    }
  }
  return out;
}

// All bytes, with one pattern for every NaN: which of two NaN an addition keeps is the hardware's.
std::string copy_bytes(const Tensor& t) {
  std::string out(t.as<char>(), t.bytes());
  const std::size_t size = size_of(t.dtype());
  for (std::size_t i = 0; is_float(t.dtype()) && i < out.size(); i += size) {
    if (std::isnan(ir::load_double(t.dtype(), out.data() + i)))
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(i), size, 'N');
  }
  return out;
}

struct Worst {
  double error = 0;
  int64_t at = 0;
};
Worst worst_error(const Tensor& got, const std::vector<Reference>& want, DType dtype, bool float_operands) {
  Worst out;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const char* at = got.as<char>() + i * static_cast<int64_t>(size_of(dtype));
    const Reference& r = want[static_cast<std::size_t>(i)];
    double error = 0;
    if (is_float(dtype)) {
      error = compute_error(dtype, at, r.f);
    } else {
      error = ir::load_int(dtype, at) == r.i ||
                      (dtype == DType::bool_ && float_operands && ir::load_int(dtype, at) == (r.f != 0))
                  ? 0
                  : INFINITY;
    }
    if (error > out.error) out = {error, i};
  }
  return out;
}

void expect_op(ScalarOp op, DType dtype, const std::vector<int>& widths, int64_t sweep) {
  const DType to = result_type(op, dtype, dtype);
  const Inputs in = make_inputs(op, dtype, sweep);
  const std::vector<Reference> want = reference(op, in, dtype);
  const double bound = info(op).ulp == 0 ? 0 : is_16_bit_float(dtype) ? 1.01 : info(op).ulp;
  for (const Target& target : usable_targets()) {
    std::string first;
    for (const int width : sampled(widths, widths.size() - 1)) {
      const ir::Kernel kernel = op_kernel(op, dtype, to, width);
      const auto artifact = codegen_test::emit(kernel, target);
      ASSERT_TRUE(artifact.ok()) << artifact.status().str();
      std::vector<Tensor> args = in.operands;
      args.push_back(Tensor::make(to, {in.count}).value());
      Loaded(*artifact).run(args, {{"n", in.count}}, kernel);
      const Worst worst = worst_error(args.back(), want, to, is_float(dtype));
      if (width == widths.back() && bound > 0 && dtype == DType::f32) {
        testing::Test::RecordProperty(std::string(info(op).name) + " ulp " + target.name, std::to_string(worst.error));
      }
      std::string operands;
      for (const Tensor& t : in.operands) {
        operands += " " + std::to_string(ir::load_double(
                              t.dtype(), t.as<char>() + worst.at * static_cast<int64_t>(size_of(t.dtype()))));
      }
      ASSERT_LE(worst.error, bound) << info(op).name << " " << to_string(dtype) << " width " << width << " "
                                    << target.name << " at" << operands << ": "
                                    << ir::load_double(
                                           to, args.back().as<char>() + worst.at * static_cast<int64_t>(size_of(to)));
      const std::string bytes = copy_bytes(args.back());
      if (first.empty()) first = bytes;
      ASSERT_TRUE(first == bytes) << info(op).name << ": the bits depend on the width, " << width << " on "
                                  << target.name;
    }
  }
}

TEST(Scalar, F32) {
  for (const ScalarOp op : primitives()) {
    if (accepts(op, DType::f32)) expect_op(op, DType::f32, {1, 4, 8, 16}, info(op).ulp > 0 ? 1000000 : 50000);
  }
}

// On their domain alone, where their bounds hold.
TEST(Scalar, Definitions) {
  for (const auto& row : ir::all_scalar_ops()) {
    if (!row.is_definition) continue;
    const ScalarOp op = *ir::find_scalar_op(row.name);
    Inputs in = make_inputs(op, DType::f32, 1000);
    std::mt19937_64 rng(5);
    std::uniform_real_distribution<double> uniform(row.domain_lo, row.domain_hi);
    for (Tensor& t : in.operands) {
      for (int64_t i = 0; i < in.count; ++i) put(t, i, uniform(rng), 0);
    }
    const std::vector<Reference> want = reference(op, in, DType::f32);
    for (const Target& target : usable_targets()) {
      const ir::Kernel kernel = op_kernel(op, DType::f32, DType::f32, 16);
      std::vector<Tensor> args = in.operands;
      args.push_back(Tensor::make(DType::f32, {in.count}).value());
      Loaded(codegen_test::emit(kernel, target).value()).run(args, {{"n", in.count}}, kernel);
      // Sums that cancel: errors count in units of at least 1/4.
      const double unit = std::max(row.ulp, 0.51) * 0x1p-23;
      for (int64_t i = 0; i < in.count; ++i) {
        const double got = args.back().as<float>()[i], right = want[static_cast<std::size_t>(i)].f;
        ASSERT_LE(std::fabs(got - right), unit * std::max(std::fabs(right), 0.25)) << row.name << " " << target.name;
      }
    }
  }
}

// Vectors divided by one number: the same bits as division, over all exponents and what is no number.
TEST(Scalar, DividedByOneNumber) {
  const auto kernel = ir::parse_kernel(R"(
kernel @rows(%x: in f32[32*n], %d: in f32[n], %y: out f32[32*n]) {
  grid i in n {
    v0: f32 = load d[i]
    v1: f32.32 = load x[32*i + lane]
    v2: f32.32 = div v1, v0
    store y[32*i + lane], v2
  }
}
)");
  ASSERT_TRUE(kernel.ok()) << kernel.status().str();
  const int64_t n = many_or(200000, 10000);
  Tensor x = Tensor::make(DType::f32, {32 * n}).value(), d = Tensor::make(DType::f32, {n}).value();
  std::mt19937 rng(3);
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(rng())); };
  // Near 1 most of the time, so that vectors without a lane out of range come up.
  const auto moderate = [&] { return std::bit_cast<float>(static_cast<uint32_t>(0x30000000 + rng() % 0x18000000)); };
  for (int64_t i = 0; i < n; ++i) {
    d.as<float>()[i] = i % 3 == 0 ? any() : moderate();
    for (int64_t k = 0; k < 32; ++k) x.as<float>()[32 * i + k] = i % 5 == 0 && k % 7 == 0 ? any() : moderate();
  }
  for (const Target& target : usable_targets()) {
    const std::vector<Tensor> args = {x, d, Tensor::make(DType::f32, {32 * n}).value()};
    Loaded(codegen_test::emit(*kernel, target).value()).run(args, {{"n", n}}, *kernel);
    int64_t wrong = 0;
    for (int64_t i = 0; i < 32 * n; ++i) {
      const float want = x.as<float>()[i] / d.as<float>()[i / 32], got = args[2].as<float>()[i];
      wrong += std::isnan(want) ? !std::isnan(got) : std::bit_cast<uint32_t>(want) != std::bit_cast<uint32_t>(got);
    }
    EXPECT_EQ(wrong, 0) << target.name;
  }
}

// The larger of 0 and each of all halves, which their bits decide.
TEST(Scalar, ReluOfHalves) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor x = Tensor::make(dtype, {1 << 16}).value();
    for (int64_t i = 0; i < x.num_elements(); ++i) put_bits(x, i, static_cast<uint64_t>(i));
    const std::string type = to_string(dtype);
    const auto kernel = ir::parse_kernel("kernel @relu(%x: in " + type + "[32*n], %y: out " + type + R"([32*n]) {
      grid i in n {
        v0: )" + type + R"(.32 = load x[32*i + lane]
        v1: )" + type + R"(.32 = max v0, 0
        store y[32*i + lane], v1
      }
    })");
    ASSERT_TRUE(kernel.ok()) << kernel.status().str();
    for (const Target& target : usable_targets()) {
      const std::vector<Tensor> args = {x, Tensor::make(dtype, {1 << 16}).value()};
      Loaded(codegen_test::emit(*kernel, target).value()).run(args, {{"n", 1 << 11}}, *kernel);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const char* got = args[1].as<char>() + 2 * i;
        const double want = ir::eval_scalar(ScalarOp::max, ir::load_double(dtype, x.as<char>() + 2 * i), 0);
        ASSERT_EQ(compute_error(dtype, got, want), 0) << type << " bits " << i << " " << target.name;
      }
    }
  }
}

TEST(Scalar, F64) {
  for (const ScalarOp op : primitives()) {
    if (accepts(op, DType::f64)) expect_op(op, DType::f64, {1, 8}, 10000);
  }
}

// Under sanitizers, each op comes with some types and each type with some ops: LLVM takes most of the time.
bool is_left_out(ScalarOp op, DType dtype, int stride) {
  return kSanitized && (static_cast<int>(op) + static_cast<int>(dtype)) % stride != 0;
}

TEST(Scalar, Halves) {
  for (const ScalarOp op : primitives()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      if (accepts(op, dtype) && !is_left_out(op, dtype, 2)) expect_op(op, dtype, {1, 16, 32, 64}, 0);
    }
  }
}

TEST(Scalar, IntegersAndBool) {
  for (const ScalarOp op : primitives()) {
    for (const DType dtype : kAll) {
      if (!is_float(dtype) && accepts(op, dtype) && !is_left_out(op, dtype, 3)) expect_op(op, dtype, {1, 8}, 5000);
    }
  }
}

int64_t wrapped_reference(DType from, DType to, const char* at, char* out) {
  if (is_float(from)) {
    ir::store_double(to, out, ir::load_double(from, at));
  } else if (from == DType::u64 && ir::load_int(from, at) < 0 && is_float(to)) {
    const auto v = static_cast<uint64_t>(ir::load_int(from, at));
    ir::store_int(to, out, static_cast<int64_t>(v >> 1 | (v & 1)));
    ir::store_double(to, out, 2 * ir::load_double(to, out));
  } else {
    ir::store_int(to, out, ir::load_int(from, at));
  }
  return 0;
}

TEST(Scalar, Casts) {
  for (const DType from : kAll) {
    const Inputs in = make_inputs(ScalarOp::cast, from, 20000);
    for (const DType to : kAll) {
      for (const Target& target : usable_targets()) {
        for (const int width : sampled(std::vector{8, 1, 32})) {
          const ir::Kernel kernel = op_kernel(ScalarOp::cast, from, to, width);
          const auto artifact = codegen_test::emit(kernel, target);
          ASSERT_TRUE(artifact.ok()) << artifact.status().str();
          std::vector<Tensor> args = in.operands;
          args.push_back(Tensor::make(to, {in.count}).value());
          Loaded(*artifact).run(args, {{"n", in.count}}, kernel);
          int64_t wrong = 0, where = -1;
          for (int64_t i = 0; i < in.count; ++i) {
            char want[8];
            const char* at = in.operands[0].as<char>() + i * static_cast<int64_t>(size_of(from));
            const char* got = args.back().as<char>() + i * static_cast<int64_t>(size_of(to));
            wrapped_reference(from, to, at, want);
            const bool same =
                std::memcmp(want, got, size_of(to)) == 0 ||
                (is_float(to) && std::isnan(ir::load_double(to, want)) && std::isnan(ir::load_double(to, got)));
            if (!same && wrong++ == 0) where = i;
          }
          EXPECT_EQ(wrong, 0)
              << to_string(from) << " to " << to_string(to) << " width " << width << " " << target.name << " at "
              << (where < 0
                      ? 0
                      : ir::load_double(from, in.operands[0].as<char>() + where * static_cast<int64_t>(size_of(from))))
              << " gives "
              << (where < 0 ? 0
                            : ir::load_double(to, args.back().as<char>() + where * static_cast<int64_t>(size_of(to))));
        }
      }
    }
  }
}

TEST(Scalar, KernelOpsAreForGpus) {
  const auto artifact =
      codegen_test::emit(op_kernel(ScalarOp::fma_down, DType::f32, DType::f32, 8), usable_targets().front());
  EXPECT_EQ(artifact.status().code(), StatusCode::compile_failed);
  EXPECT_NE(artifact.status().message().find("the op 'fma_down' is for GPUs"), std::string::npos)
      << artifact.status().str();
}

}  // namespace
}  // namespace fusec::codegen_test
