// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/bind.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/support/check.h"
#include "runtime/plan/memory_plan.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime {
namespace {

using runtime_test::add;
using runtime_test::add_one;
using runtime_test::flat;
using runtime_test::n;
using runtime_test::ProgramBuilder;
using runtime_test::split;

std::shared_ptr<const Plan> must_bind(const ProgramBuilder& b, int64_t size, int threads = 1) {
  auto plan = bind(b.load(), {{"n", size}}, threads);
  EXPECT_TRUE(plan.ok()) << plan.status().str();
  return plan.ok() ? *plan : nullptr;
}

ir::Program with_inputs(const std::vector<Shape>& shapes, std::vector<std::string> symbols) {
  ir::Program program;
  program.symbols = std::move(symbols);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    program.input_names.push_back("x" + std::to_string(i));
    program.input_types.push_back({DType::f32, shapes[i]});
  }
  return program;
}

TEST(BindSymbols, SolvesExpressionsOnceOtherAxesAreKnown) {
  const Dim s = Dim::symbol("s"), past = Dim::symbol("past");
  const ir::Program program = with_inputs({{Dim(2) * s, 8}, {past + s}}, {"s", "past"});
  const std::vector<std::vector<int64_t>> shapes = {{6, 8}, {10}};
  const auto bindings = bind_symbols(program, shapes);
  ASSERT_TRUE(bindings.ok()) << bindings.status().str();
  EXPECT_EQ(*bindings, (Bindings{{"s", 3}, {"past", 7}}));
}

std::string get_error(const ir::Program& program, const std::vector<std::vector<int64_t>>& shapes) {
  const auto bindings = bind_symbols(program, shapes);
  EXPECT_FALSE(bindings.ok());
  return bindings.ok() ? "" : bindings.status().str();
}

TEST(BindSymbols, ErrorsNameInputAxisExpectedAndGiven) {
  const Dim s = Dim::symbol("s");
  const ir::Program program = with_inputs({{s, 8}, {s, s + 1}}, {"s"});
  EXPECT_EQ(get_error(program, {{3, 8}}), "invalid_argument: the model has 2 inputs, given are 1");
  EXPECT_EQ(get_error(program, {{3}, {3, 4}}), "invalid_argument: input 'x0' must have the shape [s, 8], given is [3]");
  EXPECT_EQ(get_error(program, {{3, 9}, {3, 4}}),
            "invalid_argument: input 'x0' of type f32[s, 8]: axis 1 must be 8, given is 9");
  EXPECT_EQ(
      get_error(program, {{3, 8}, {2, 4}}),
      "invalid_argument: input 'x1' of type f32[s, s + 1]: axis 0 must be s = 3, as axis 0 of input 'x0', given is 2");
  EXPECT_EQ(get_error(program, {{3, 8}, {3, 5}}),
            "invalid_argument: input 'x1' of type f32[s, s + 1]: axis 1 must be s + 1 = 4 with s = 3 (axis 0 of input "
            "'x0'), given is 5");
  EXPECT_EQ(get_error(program, {{-1, 8}, {3, 4}}),
            "invalid_argument: input 'x0' of type f32[s, 8]: axis 0 must be at least 0, given is -1");
}

TEST(BindSymbols, AnUnsolvableExpressionIsAnError) {
  const ir::Program program = with_inputs({{Dim(2) * Dim::symbol("s")}}, {"s"});
  EXPECT_NE(get_error(program, {{7}}).find("axis 0 must be 2*s for some value of its symbols, given is 7"),
            std::string::npos);
}

TEST(BindSymbols, ALimitIsHeld) {
  const Dim s = Dim::symbol("s");
  ir::Program program = with_inputs({{s + 1, 8}, {s}}, {"s"});
  program.limits = {{s, {0, 512}}};
  EXPECT_TRUE(bind_symbols(program, std::vector<std::vector<int64_t>>{{513, 8}, {512}}).ok());
  EXPECT_EQ(get_error(program, {{514, 8}, {513}}),
            "invalid_argument: input 'x1' of type f32[s]: axis 0 must be at most 512, given is 513");
  ir::Program sum = with_inputs({{s + 1, 8}}, {"s"});
  sum.limits = {{s, {0, 512}}};
  EXPECT_EQ(
      get_error(sum, {{514, 8}}),
      "invalid_argument: the symbol 's' must be at most 512, the inputs make it 513: s = 513 (axis 0 of input 'x0')");
  sum.limits = {{s, {2, INT64_MAX}}};
  EXPECT_EQ(get_error(sum, {{2, 8}}),
            "invalid_argument: the symbol 's' must be at least 2, the inputs make it 1: s = 1 (axis 0 of input 'x0')");
}

TEST(BindSymbols, ALimitOfASumIsHeld) {
  const Dim past = Dim::symbol("past"), seq = Dim::symbol("seq");
  ir::Program program = with_inputs({{past}, {seq}}, {"past", "seq"});
  program.limits = {{past + seq, {1, 128}}};
  EXPECT_TRUE(bind_symbols(program, std::vector<std::vector<int64_t>>{{120}, {8}}).ok());
  EXPECT_EQ(get_error(program, {{120}, {9}}),
            "invalid_argument: the extent 'past + seq' must be 1 to 128, the inputs make it 129: past = 120 (axis 0 of "
            "input 'x0'), seq = 9 (axis 0 of input 'x1')");
  program = with_inputs({{past}, {seq}, {past + seq}}, {"past", "seq"});
  program.limits = {{past + seq, {0, 128}}};
  EXPECT_EQ(get_error(program, {{120}, {9}, {129}}),
            "invalid_argument: input 'x2' of type f32[past + seq]: axis 0 must be at most 128, given is 129");
}

TEST(BindSymbols, ASymbolOfNoInputIsAnError) {
  EXPECT_EQ(get_error(with_inputs({{8}}, {"s"}), {{8}}),
            "invalid_argument: no input shape gives the symbol 's' a value");
}

TEST(Bind, TakesTheFirstVariantThatHolds) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::KernelId small = b.kernel({"small", 1, 1, add_one, {}, 0, false, {}});
  const ir::KernelId large = b.kernel({"large", 1, 1, add_one, {}, 0, false, {}});
  b.slot({ProgramBuilder::variant({n() - 100, -mod(n(), 4)}, {b.step(large, {flat(x), flat(y)})}),
          ProgramBuilder::variant({}, {b.step(small, {flat(x), flat(y)})})});
  const auto kernel_at = [&](int64_t size) {
    const auto plan = must_bind(b, size);
    return plan->loaded->program.kernels[std::get<ir::KernelStep>(plan->launches[0].step->v).kernel].name;
  };
  EXPECT_EQ(kernel_at(100), "large");
  EXPECT_EQ(kernel_at(99), "small");
  EXPECT_EQ(kernel_at(101), "small");
  EXPECT_EQ(kernel_at(104), "large");
}

// x -> t1 -> t2 -> ... -> y, each by the same kernel.
ProgramBuilder chain(int length, bool in_place) {
  ProgramBuilder b;
  ir::AllocId at = b.input("x");
  const ir::AllocId y = b.output("y");
  std::vector<std::pair<int, int>> alias;
  if (in_place) alias.emplace_back(0, 0);
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, alias, 0, false, {}});
  for (int i = 1; i < length; ++i) {
    const ir::AllocId t = b.temporary();
    b.launch(k, {flat(at), flat(t)});
    at = t;
  }
  b.launch(k, {flat(at), flat(y)});
  return b;
}

TEST(Bind, ChainsInPlaceNeedOneBufferElseTwo) {
  for (const auto& [in_place, buffers] : {std::pair(true, 1), std::pair(false, 2)}) {
    const auto plan = must_bind(chain(6, in_place), 1600);
    EXPECT_EQ(plan->arena_bytes, buffers * 6400);
    EXPECT_EQ(plan->live_lower_bound_bytes, buffers * 6400);
    EXPECT_EQ(plan->generated, 6);
  }
}

TEST(Bind, AnInputStillReadLaterIsNotOverwritten) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), s = b.temporary(), t = b.temporary();
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {{0, 0}}, 0, false, {}});
  const ir::KernelId two = b.kernel({"two", 2, 1, add, {{0, 0}, {1, 0}}, 0, false, {}});
  b.launch(one, {flat(x), flat(s)});
  b.launch(one, {flat(s), flat(t)});  // s lives on
  b.launch(two, {flat(s), flat(t), flat(y)});
  const auto plan = must_bind(b, 160);
  EXPECT_EQ(plan->arena_bytes, 1280);
  EXPECT_NE(plan->args[2].bytes, plan->args[3].bytes);
}

TEST(Bind, AnOperandReadTwiceIsNotOverwritten) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), s = b.temporary(), t = b.temporary();
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {{0, 0}}, 0, false, {}});
  const ir::KernelId two = b.kernel({"two", 2, 1, add, {{0, 0}}, 0, false, {}});
  b.launch(one, {flat(x), flat(s)});
  b.launch(two, {flat(s), flat(s), flat(t)});  // only its first operand may be t
  b.launch(one, {flat(t), flat(y)});
  EXPECT_EQ(must_bind(b, 160)->arena_bytes, 1280);
}

TEST(Bind, ViewsKeepTheirAllocationAliveAndOthersOut) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::AllocId joined = b.temporary(Dim(2) * n()), other = b.temporary();
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, {}, 0, false, {}});
  const ir::KernelId two = b.kernel({"two", 2, 1, add, {}, 0, false, {}});
  b.launch(k, {flat(x), flat(joined)});
  b.launch(k, {flat(x), flat(joined, n(), n())});  // the upper half
  b.launch(k, {flat(joined), flat(other)});
  b.launch(two, {flat(joined, n(), n()), flat(other), flat(y)});
  const auto plan = must_bind(b, 16);
  EXPECT_EQ(plan->arena_bytes, 3 * 64);
  EXPECT_EQ(plan->args[3].bytes - plan->args[1].bytes, 64);
  EXPECT_EQ(plan->live_lower_bound_bytes, 3 * 64);
}

TEST(Bind, AViewBeyondItsAllocationIsADefect) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, {}, 0, false, {}});
  b.launch(k, {flat(x, n(), 1), flat(y)}, "/late/Add");
  EXPECT_THROW((void)bind(b.load(), {{"n", 8}}, 1), ir::InternalError);
}

TEST(Bind, SizesPast63BitsAreAnError) {
  const auto plan = bind(chain(3, false).load(), {{"n", INT64_MAX / 5}}, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::out_of_memory);
  const auto sum = bind(chain(3, false).load(), {{"n", INT64_MAX / 6}}, 1);
  ASSERT_FALSE(sum.ok());
  EXPECT_EQ(sum.status().code(), StatusCode::out_of_memory);
  const auto one = bind(chain(3, false).load(), {{"n", INT64_MAX / 3}}, 1);
  EXPECT_EQ(one.status().str(), "out_of_memory: a buffer for these shapes passes 63 bits of bytes");
}

std::vector<std::string> once_steps(const ProgramBuilder& b, int64_t size, int64_t most_kept = INT64_MAX) {
  const auto loaded = b.load();
  ResolvedProgram resolved = *resolve(loaded->program, {{"n", size}});
  put_once_steps_first(loaded->program, resolved, most_kept);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < resolved.once; ++i) names.push_back(resolved.steps[i].step->origin);
  return names;
}

// a = c + 1, b = a + c, y = x + b, z = c + 1, where c is a constant.
ProgramBuilder constant_steps() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), z = b.output("z");
  const ir::AllocId c = b.constant(std::vector<float>(100, 1)), s = b.temporary(), t = b.temporary();
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {{0, 0}}, 0, false, {}}),
                     sum = b.kernel({"sum", 2, 1, add, {{0, 0}, {1, 0}}, 0, false, {}});
  b.launch(one, {flat(c), flat(z)}, "z");
  b.launch(one, {flat(c), flat(s)}, "a");
  b.launch(sum, {flat(s), flat(c), flat(t)}, "b");
  b.launch(sum, {flat(x), flat(t), flat(y)}, "y");
  return b;
}

TEST(Bind, StepsOfConstantsAloneRunOnceAndOnlyWhatLaterStepsReadIsKept) {
  const ProgramBuilder b = constant_steps();
  EXPECT_EQ(once_steps(b, 100), (std::vector<std::string>{"a", "b"}));  // z is the caller's memory
  const auto plan = must_bind(b, 100);
  EXPECT_EQ(plan->once, 2u);
  EXPECT_EQ(plan->generated, 2);
  EXPECT_EQ(plan->kept_bytes, 448);
  EXPECT_EQ(plan->args[1].base, Base::arena);  // a, which b alone reads
  EXPECT_EQ(plan->args[4].base, Base::kept);
  EXPECT_EQ(plan->launches[0].group_size, 1u);
  EXPECT_GE(plan->arena_bytes, plan->live_lower_bound_bytes);
  EXPECT_EQ(plan->live_lower_bound_bytes, 400);
}

TEST(Bind, ValuesPastTheLimitAreWrittenInEachRun) {
  const ProgramBuilder b = constant_steps();
  EXPECT_EQ(once_steps(b, 100, 400), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(once_steps(b, 100, 399), (std::vector<std::string>{}));  // not b, nor a, which would be kept for it
}

TEST(Bind, AnAllocationThatAStepOfInputsWritesTooIsNotKept) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y", n() * 2), c = b.constant(std::vector<float>(100, 1));
  const ir::AllocId both = b.temporary(n() * 2);
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {}, 0, false, {}});
  b.launch(one, {flat(c), {both, 0, {n()}, {1}}}, "half");
  b.launch(one, {flat(x), {both, n(), {n()}, {1}}}, "other half");
  b.launch(one, {{both, 0, {n() * 2}, {1}}, {y, 0, {n() * 2}, {1}}}, "y");
  EXPECT_EQ(once_steps(b, 50), std::vector<std::string>{});
}

TEST(Bind, EmptyTensorsLaunchNothing) { EXPECT_EQ(must_bind(chain(4, false), 0)->launches.size(), 0u); }

TEST(Bind, SmallPhasesRunOnOneThread) {
  EXPECT_EQ(must_bind(chain(1, false), 1024, 8)->phases[0].threads, 1);   // 8 KB
  EXPECT_EQ(must_bind(chain(1, false), 16384, 8)->phases[0].threads, 4);  // 128 KB
  EXPECT_EQ(must_bind(chain(1, false), 1 << 20, 8)->phases[0].threads, 8);
}

class FakeOp : public LibraryOp {
 public:
  FakeOp(std::vector<int> alias, std::size_t workspace) : alias_(std::move(alias)), workspace_(workspace) {}
  Status run(void* const*, void*, const ExecContext&) const override { return {}; }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::vector<int> may_alias() const override { return alias_; }
  std::string implementation() const override { return "fake"; }

 private:
  std::vector<int> alias_;
  std::size_t workspace_;
};

class FakeLibrary : public Library {
 public:
  // `workspace`: bytes of the n-th call.
  explicit FakeLibrary(
      std::vector<int> alias, std::string refusal = {},
      std::function<std::size_t(std::size_t)> workspace = [](std::size_t) { return 1000; })
      : alias_(std::move(alias)), refusal_(std::move(refusal)), workspace_(std::move(workspace)) {}
  std::string name() const override { return "fake"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override {
    return refusal_.empty() ? std::nullopt : std::make_optional(refusal_);
  }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    calls.push_back(call);
    return std::unique_ptr<LibraryOp>(std::make_unique<FakeOp>(alias_, workspace_(calls.size())));
  }
  std::vector<LibraryCall> calls;

 private:
  std::vector<int> alias_;
  std::string refusal_;
  std::function<std::size_t(std::size_t)> workspace_;
};

ProgramBuilder with_library_step() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), w = b.constant({1, 2, 3, 4});
  const ir::AllocId s = b.temporary(), t = b.temporary();
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, {}, 0, false, {}});
  b.launch(k, {flat(x), flat(s)});
  ir::LibraryStep matmul;
  matmul.op = ir::TensorOp::matmul;
  matmul.args = {flat(x), flat(w, 2, 2), flat(s), flat(t)};
  b.slot({ProgramBuilder::variant({}, {{matmul, "/fc/MatMul"}})});
  b.launch(k, {flat(t), flat(y)});
  return b;
}

TEST(Bind, LibraryStepsGetWorkspaceInPlaceSumsAndConstants) {
  auto library = std::make_shared<FakeLibrary>(std::vector<int>{2});
  const auto plan = bind(with_library_step().load({library}), {{"n", 160}}, 3);
  ASSERT_TRUE(plan.ok()) << plan.status().str();
  EXPECT_EQ((*plan)->arena_bytes, 640 + 1024);
  EXPECT_EQ((*plan)->live_lower_bound_bytes, 640 + 1000);
  EXPECT_EQ((*plan)->args[4].bytes, (*plan)->args[5].bytes);
  ASSERT_EQ(library->calls.size(), 1u);
  const LibraryCall& call = library->calls[0];
  EXPECT_EQ(call.threads, 1);  // too little work for more
  EXPECT_EQ(call.args[0].constant, nullptr);
  EXPECT_EQ(static_cast<const float*>(call.args[1].constant)[0], 3);
  EXPECT_EQ(call.args[3].shape, (std::vector<int64_t>{160}));
}

TEST(Bind, LibraryStepsOfConstantsRunOnceWithAWorkspaceOfTheArena) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), w = b.constant(std::vector<float>(200, 1)), t = b.temporary();
  ir::LibraryStep matmul;
  matmul.op = ir::TensorOp::matmul;
  matmul.args = {flat(w), flat(w), flat(t)};
  b.slot({ProgramBuilder::variant({}, {{matmul, "/fc/MatMul"}})});
  b.launch(b.kernel({"sum", 2, 1, add, {}, 0, false, {}}), {flat(x), flat(t), flat(y)});
  const auto plan = bind(b.load({std::make_shared<FakeLibrary>(std::vector<int>{})}), {{"n", 160}}, 1);
  ASSERT_TRUE(plan.ok()) << plan.status().str();
  EXPECT_EQ((*plan)->once, 1u);
  EXPECT_EQ((*plan)->library, 0);
  EXPECT_EQ((*plan)->launches[0].workspace, 0);
  EXPECT_EQ((*plan)->arena_bytes, 1024);
  EXPECT_EQ((*plan)->kept_bytes, 640);
}

TEST(Bind, LibraryStepsHaveThreadsByTheirWork) {
  auto library = std::make_shared<FakeLibrary>(std::vector<int>{2});
  for (const auto& [n, threads] : {std::pair(160, 1), std::pair(10'000, 3)}) {
    const auto plan = bind(with_library_step().load({library}), {{"n", n}}, 3);
    ASSERT_TRUE(plan.ok()) << plan.status().str();
    EXPECT_EQ(library->calls.back().threads, threads);
    EXPECT_EQ((*plan)->launches[1].threads, threads);
    EXPECT_EQ((*plan)->team, threads);
  }
}

TEST(Bind, WithoutAWillingLibraryTheErrorSaysWhyEachRefused) {
  auto library = std::make_shared<FakeLibrary>(std::vector<int>{}, "no such luck");
  const auto plan = bind(with_library_step().load({library}), {{"n", 160}}, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
  EXPECT_NE(plan.status().message().find("'/fc/MatMul'; fake: no such luck"), std::string::npos) << plan.status().str();
}

void expect_near_bound(const Plan& plan) {
  EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.05 * static_cast<double>(plan.live_lower_bound_bytes));
  EXPECT_GE(plan.arena_bytes, plan.live_lower_bound_bytes);
}

TEST(Bind, ArenasStayWithinATwentiethOfTheBound) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round)
    expect_near_bound(*must_bind(runtime_test::random_program(random), 16 * static_cast<int64_t>(1 + random() % 100)));
}

TEST(Bind, WorkspacesOfCallsCountToo) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    ProgramBuilder b = runtime_test::random_program(random);
    ir::LibraryStep call;
    call.op = ir::TensorOp::matmul;
    for (ir::Slot& slot : b.program.slots) {
      if (random() % 3 != 0) continue;
      ir::Step& step = slot.variants[0].candidates[0].steps[0];
      call.args = std::get<ir::KernelStep>(step.v).args;
      step.v = call;
    }
    // Multiples of the alignment, as the bound counts none.
    auto library =
        std::make_shared<FakeLibrary>(std::vector<int>{}, "", [](std::size_t n) { return n * 7919 % 64 * 256; });
    const auto plan = bind(b.load({library}), {{"n", 16 * static_cast<int64_t>(1 + random() % 100)}}, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().str();
    expect_near_bound(**plan);
  }
}

}  // namespace
}  // namespace fusec::runtime
