// SPDX-License-Identifier: Apache-2.0
// Names of kernels: what they say, that they are short C identifiers, and that nothing of a model but its ops decides.
#include "compiler/lower/schedule/kernel_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "codegen/emit.h"
#include "codegen/kernel/layout.h"
#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/lower.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {
namespace {

using testing::MatchesRegex;
using testing::StartsWith;

const Target& sm90() {
  static const Target target = named_target("sm_90").value();
  return target;
}

ir::Program lowered(const std::string& text, const Target& target = sm90()) {
  const auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  const auto parts = partition(*graph, target, {});
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  auto program = lower(*graph, *parts, target, {}, {}, {.most = 1});
  EXPECT_TRUE(program.ok()) << program.status().str();
  return std::move(*program);
}

// The kernel of a graph of one region, as its first variant has it.
ir::Kernel lower_one(const std::string& text, const Target& target = sm90()) {
  const ir::Program program = lowered(text, target);
  EXPECT_EQ(program.slots.size(), 1U);
  return *program.kernels.begin();
}

// A graph of x: f32[N, 64] and ops, of which the last is its result.
std::string make_graph(const std::string& ops, int last) {
  return "graph @main(%x: f32[N, 64], %w: f32[64]) {\n" + ops + "  return %" + std::to_string(last) + " as \"y\"\n}\n";
}

const std::string kStatistics =
    "  %0 = reduce_mean %x {axes = [1]}: f32[N]\n"
    "  %1 = reshape %0 {shape = [N, 1]}: f32[N, 1]\n"
    "  %2 = sub %x, %1: f32[N, 64]\n"
    "  %3 = mul %2, %2: f32[N, 64]\n"
    "  %4 = reduce_mean %3 {axes = [1]}: f32[N]\n"
    "  %5 = reshape %4 {shape = [N, 1]}: f32[N, 1]\n"
    "  %6 = rsqrt %5: f32[N, 1]\n"
    "  %7 = mul %2, %6: f32[N, 64]\n"
    "  %8 = mul %7, %w: f32[N, 64]\n";
const std::string kSoftmax =
    "  %0 = add %x, %w: f32[N, 64]\n"
    "  %1 = reduce_max %0 {axes = [1]}: f32[N]\n"
    "  %2 = reshape %1 {shape = [N, 1]}: f32[N, 1]\n"
    "  %3 = sub %0, %2: f32[N, 64]\n"
    "  %4 = exp %3: f32[N, 64]\n"
    "  %5 = reduce_sum %4 {axes = [1]}: f32[N]\n"
    "  %6 = reshape %5 {shape = [N, 1]}: f32[N, 1]\n"
    "  %7 = div %4, %6: f32[N, 64]\n";

TEST(KernelName, SaysFamilyOpsAndType) {
  const struct {
    std::string graph, name;
  } cases[] = {
      {make_graph(kSoftmax, 7), "row_add_softmax_f32_[0-9a-f]{4}"},
      {make_graph(kStatistics, 8), "row_norm_mul_f32_[0-9a-f]{4}"},
      {make_graph("  %0 = gelu %x: f32[N, 64]\n  %1 = add %0, %w: f32[N, 64]\n", 1),
       "pointwise_gelu_add_f32_[0-9a-f]{4}"},
      {make_graph("  %0 = hard_swish %x: f32[N, 64]\n", 0), "pointwise_hard_swish_f32_[0-9a-f]{4}"},
      {make_graph("  %0 = cast %x {to = f16}: f16[N, 64]\n", 0), "pointwise_cast_f32_[0-9a-f]{4}"},
      {make_graph("  %0 = argmax %x {axis = 1, last = 0}: i64[N]\n", 0), "row_argmax_f32_[0-9a-f]{4}"},
      {make_graph("  %0 = cumsum %x {axis = 1, exclusive = 0, reverse = 0}: f32[N, 64]\n", 0),
       "scan_cumsum_f32_[0-9a-f]{4}"},
      {"graph @main(%x: f16[512, 256]) {\n  %0 = reduce_sum %x {axes = [0]}: f16[256]\n  return %0 as \"y\"\n}\n",
       "column_sum_f16_[0-9a-f]{4}"},
      {"graph @main(%x: f16[512, 256]) {\n  %0 = transpose %x {perm = [1, 0]}: f16[256, 512]\n"
       "  %1 = relu %0: f16[256, 512]\n  return %1 as \"y\"\n}\n",
       "transpose_relu_f16_[0-9a-f]{4}"},
      {"graph @main(%x: bool[8], %z: bool[8]) {\n  %0 = and_ %x, %z: bool[8]\n  return %0 as \"y\"\n}\n",
       "pointwise_and_bool_[0-9a-f]{4}"},
  };
  for (const auto& c : cases)
    for (const char* target : {"sm_90", "x86-64-v3"})
      EXPECT_THAT(lower_one(c.graph, named_target(target).value()).name, MatchesRegex(c.name)) << target;
}

TEST(KernelName, IsAShortIdentifierThatKeepsTheCostlyOps) {
  std::string ops;
  const char* chain[] = {"neg",  "abs",  "exp", "sign",  "floor",    "ceil",      "tanh",       "round", "erf",
                         "sqrt", "atan", "cos", "log1p", "softplus", "gelu_tanh", "hard_swish", "mish"};
  int last = -1;
  for (const char* op : chain) {
    ops += "  %" + std::to_string(last + 1) + " = " + op + " %" + (last < 0 ? "x" : std::to_string(last)) +
           ": f32[N, 64]\n";
    ++last;
  }
  const std::string name = lower_one(make_graph(ops, last)).name;
  EXPECT_LE(name.size(), kMaxKernelName);
  EXPECT_THAT(name, MatchesRegex("pointwise(_[a-z0-9]+)+_f32_[0-9a-f]{4}"));
  EXPECT_THAT(name, testing::HasSubstr("_mish_"));  // the costliest
  EXPECT_THAT(name, testing::Not(testing::HasSubstr("_neg_")));
}

TEST(KernelName, HoldsNothingOfTheModelButItsOps) {
  const std::string ours = make_graph(kSoftmax, 7);
  const std::string theirs =
      "graph @secret_model(%secret_input: f32[secret_batch, 64], %secret_weight: f32[64]) {\n"
      "  %0 = add %secret_input, %secret_weight: f32[secret_batch, 64]\n"
      "  %1 = reduce_max %0 {axes = [1]}: f32[secret_batch]\n"
      "  %2 = reshape %1 {shape = [secret_batch, 1]}: f32[secret_batch, 1]\n"
      "  %3 = sub %0, %2: f32[secret_batch, 64]\n"
      "  %4 = exp %3: f32[secret_batch, 64]\n"
      "  %5 = reduce_sum %4 {axes = [1]}: f32[secret_batch]\n"
      "  %6 = reshape %5 {shape = [secret_batch, 1]}: f32[secret_batch, 1]\n"
      "  %7 = div %4, %6: f32[secret_batch, 64]\n"
      "  return %7 as \"secret_output\"\n}\n";
  const ir::Kernel a = lower_one(ours), b = lower_one(theirs), again = lower_one(ours);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.name, again.name);
  EXPECT_EQ(codegen::artifact_key(a, sm90()), codegen::artifact_key(b, sm90()));
}

// max(x, 0) and relu are one kernel, so they have the same digits and share what is in the cache.
TEST(KernelName, EqualKernelsOfOtherOpsShareOneEntry) {
  const std::string relu = "  %0 = relu %x: f32[N, 64]\n";
  const std::string largest = "  %0 = constant f32[] {0}\n  %1 = max %x, %0: f32[N, 64]\n";
  const ir::Kernel a = lower_one(make_graph(relu, 0)), b = lower_one(make_graph(largest, 1));
  EXPECT_THAT(a.name, StartsWith("pointwise_relu_f32_"));
  EXPECT_THAT(b.name, StartsWith("pointwise_max_f32_"));
  EXPECT_EQ(a.name.substr(a.name.size() - kNameDigits), b.name.substr(b.name.size() - kNameDigits));
  EXPECT_EQ(codegen::artifact_key(a, sm90()), codegen::artifact_key(b, sm90()));
}

// Without fusion every row of a long list of shapes is a kernel of its own. So many have four digits twice.
TEST(KernelName, IsUniqueInAProgram) {
  std::string text = "graph @main(%x: f32[4]", ops, results;
  constexpr int kKernels = 600;
  for (int i = 0; i < kKernels; ++i) {
    const std::string n = std::to_string(i), shape = "f32[3, " + std::to_string(5 + 2 * i) + "]";
    text += ", %x" + n + ": " + shape;
    ops += "  %" + n + " = reduce_sum %x" + n + " {axes = [1]}: f32[3]\n";
    results += (i > 0 ? ", %" : "%") + n + " as \"y" + n + "\"";
  }
  const ir::Program program = lowered(text + ") {\n" + ops + "  return " + results + "\n}\n");
  std::set<std::string> names;
  std::size_t longer = 0;
  for (const ir::Kernel& kernel : program.kernels) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    longer += kernel.name.size() == std::string("row_sum_f32_").size() + kMoreNameDigits;
  }
  EXPECT_GT(program.kernels.size(), 300U);
  EXPECT_GT(longer, 0U);
}

TEST(KernelName, OfAnotherVariantHasOtherDigits) {
  const ir::Program program = lowered(make_graph(kSoftmax, 7));
  ASSERT_GE(program.kernels.size(), 2U);
  const std::string a = program.kernels[{0}].name, b = program.kernels[{1}].name;
  EXPECT_EQ(a.substr(0, a.rfind('_')), b.substr(0, b.rfind('_')));
  EXPECT_NE(a, b);
}

TEST(KernelName, IsTheFunctionOfTheCode) {
  const ir::Kernel one = lower_one(make_graph(kSoftmax, 7));
  const ir::Kernel two = lower_one(
      "graph @main(%x: f32[4, 4096, 1000]) {\n  %0 = reduce_sum %x {axes = [1]}: f32[4, 1000]\n"
      "  return %0 as \"y\"\n}\n");
  EXPECT_THAT(two.name, StartsWith("column_sum_f32_"));
  for (const Codegen emitter : {Codegen::nvrtc, Codegen::llvm}) {
    for (const ir::Kernel& kernel : {one, two}) {
      const auto artifact = codegen::emit_with(emitter, *lower_for_writer(kernel, sm90()), sm90(), {.keep_text = true});
      if (artifact.status().code() == StatusCode::unsupported) continue;
      ASSERT_TRUE(artifact.ok()) << artifact.status().str();
      const bool several = artifact->phases.size() > 1;
      EXPECT_EQ(several, kernel.name == two.name);
      for (std::size_t p = 0; p < artifact->phases.size(); ++p) {
        const std::string entry = kernel.name + (several ? "_" + std::to_string(p) : "");
        EXPECT_EQ(artifact->phases[p].entry, entry);
        EXPECT_THAT(artifact->text, testing::HasSubstr(entry + "("));
        EXPECT_THAT(std::string(artifact->image.begin(), artifact->image.end()), testing::HasSubstr(entry));
      }
    }
  }
  const Target cpu = named_target("x86-64-v3").value();
  const auto text = codegen::emit_text(one, cpu);
  EXPECT_TRUE(text.status().code() == StatusCode::unsupported || text->find("@" + one.name + "(") != text->npos);
}

TEST(KernelName, OfATextReachesNoCode) {
  ir::Kernel kernel = lower_one(make_graph(kSoftmax, 7));
  EXPECT_EQ(codegen::make_entry_name(kernel, 0, 1), kernel.name);
  EXPECT_EQ(codegen::make_entry_name(kernel, 1, 2), kernel.name + "_1");
  for (const char* other : {"main", "printf", "float", "k0", "exp_f32", "evil(", "_0123", "Row_0123", "row_012", ""}) {
    kernel.name = other;
    EXPECT_EQ(codegen::make_entry_name(kernel, 0, 1), "kernel") << other;
    EXPECT_EQ(codegen::make_entry_name(kernel, 1, 2), "kernel_1") << other;
  }
  kernel.name = "row_" + std::string(100, '0');
  EXPECT_EQ(codegen::make_entry_name(kernel, 0, 1), "kernel");
}

}  // namespace
}  // namespace fusec::compiler
