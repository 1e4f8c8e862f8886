// SPDX-License-Identifier: Apache-2.0
// Options::specialize from lower to run: kernels for the shapes of one plan give the bits of those for all shapes, and
// runs take them at their start, without waiting and without failing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "fusec/device.h"
#include "fusec/engine.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "ir/graph/model_internal.h"
#include "ir/text/graph_text.h"
#include "runtime/plan/state.h"
#include "tests/runtime/cuda_fake.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using runtime_test::add;
using runtime_test::add_one;
using runtime_test::flat;
using runtime_test::ProgramBuilder;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Element-wise work, a transpose, sums along both axes, a product with the length of a row, and a library call.
constexpr const char* kManyKinds = R"(graph @main(%x: f32[N, M], %r: f32[N, M], %w: f32[M, 8]) {
  %0 = mul %x, %r: f32[N, M]
  %1 = transpose %0 {perm = [1, 0]}: f32[M, N]
  %2 = add %x, %r: f32[N, M]
  %3 = reduce_sum %2 {axes = [1]}: f32[N]
  %4 = exp %0: f32[N, M]
  %5 = reduce_sum %4 {axes = [0]}: f32[M]
  %6 = reduce_max %x {axes = [1]}: f32[N]
  %7 = reshape %6 {shape = [N, 1]}: f32[N, 1]
  %8 = sub %x, %7: f32[N, M]
  %9 = exp %8: f32[N, M]
  %10 = reduce_sum %9 {axes = [1]}: f32[N]
  %11 = reshape %10 {shape = [N, 1]}: f32[N, 1]
  %12 = div %9, %11: f32[N, M]
  %13 = matmul %12, %w {transpose_a = 0, transpose_b = 0}: f32[N, 8]
  return %1 as "t", %3 as "rows", %5 as "columns", %12 as "soft", %13 as "y"
}
)";

Model many_kinds() { return ir::make_model(*ir::parse_graph(kManyKinds)); }

// Of the same inputs, for tests of when kernels come in and not of what they compute: compiles take most of their time.
constexpr const char* kFewKinds = R"(graph @main(%x: f32[N, M], %r: f32[N, M], %w: f32[M, 8]) {
  %0 = mul %x, %r: f32[N, M]
  %1 = reduce_sum %0 {axes = [1]}: f32[N]
  %2 = matmul %0, %w {transpose_a = 0, transpose_b = 0}: f32[N, 8]
  return %1 as "rows", %2 as "y"
}
)";

Model few_kinds() { return ir::make_model(*ir::parse_graph(kFewKinds)); }

Tensor random(std::vector<int64_t> shape, unsigned seed) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = normal(generator);
  return t;
}

std::vector<Tensor> inputs(int64_t n, int64_t m) { return {random({n, m}, 1), random({n, m}, 2), random({m, 8}, 3)}; }

std::vector<TensorShape> shapes(int64_t n, int64_t m) { return {{n, m}, {n, m}, {m, 8}}; }

std::vector<std::vector<char>> bits(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<char>> out;
  for (const Tensor& t : tensors) out.emplace_back(t.as<char>(), t.as<char>() + t.bytes());
  return out;
}

class SpecializeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-specialize-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    options_.cache_dir = name;
    options_.threads = 2;
    options_.on_warning = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    };
  }
  void TearDown() override { fs::remove_all(*options_.cache_dir); }

  Engine compile(Specialize specialize, Model model = many_kinds()) {
    options_.specialize = specialize;
    Result<Engine> engine = Engine::compile(model, options_);
    if (!engine.ok()) throw std::runtime_error(engine.status().str());
    return std::move(engine).value();
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  Options options_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

std::vector<std::vector<char>> run(Session& session, const std::vector<Tensor>& in) {
  const auto out = session.run(in);
  EXPECT_TRUE(out.ok()) << out.status().str();
  return out.ok() ? bits(*out) : std::vector<std::vector<char>>();
}

// Lengths on both sides of what a sum's order depends on: 16 and 32 lanes, chunks, parts.
TEST_F(SpecializeTest, KernelsForTheseShapesGiveTheSameBits) {
  const Engine generic = compile(Specialize::off), special = compile(Specialize::now);
  Session a = *Session::create(generic), b = *Session::create(special);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 16}, {64, 50}, {33, 64}, {5, 100}, {8, 1000}, {2, 8193}, {100, 96}, {1, 40000}, {200, 7}}) {
    const std::vector<Tensor> in = inputs(n, m);
    EXPECT_EQ(run(a, in), run(b, in)) << n << " x " << m;
    const auto plain = generic.plan(shapes(n, m)), own = special.plan(shapes(n, m));
    ASSERT_TRUE(plain.ok() && own.ok());
    EXPECT_EQ(plain->specialized, 0);
    EXPECT_GT(own->specialized, 0) << n << " x " << m;
    EXPECT_EQ(plain->launches, own->launches);
    EXPECT_EQ(plain->library, own->library);
  }
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SpecializeTest, ARunTakesTheKernelsThatAThreadHasMade) {
  const Engine engine = compile(Specialize::background);
  Session session = *Session::create(engine);
  const std::vector<Tensor> in = inputs(48, 96);
  const auto before = run(session, in);
  engine.wait_for_specialized();
  EXPECT_EQ(run(session, in), before);
  EXPECT_EQ(session.stats().swapped, 1);
  EXPECT_EQ(run(session, in), before);
  EXPECT_EQ(session.stats().swapped, 1);
  const auto plan = engine.plan(shapes(48, 96));
  ASSERT_TRUE(plan.ok());
  EXPECT_GT(plan->specialized, 0);
  EXPECT_EQ(session.profile(in)->specialized, plan->specialized);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SpecializeTest, SessionsOfSeveralThreadsRunOnWhileKernelsComeIn) {
  options_.use_cache = false;
  const Engine engine = compile(Specialize::background, few_kinds());
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Session session = *Session::create(engine);
      std::vector<std::vector<Tensor>> in;
      std::vector<std::vector<std::vector<char>>> first;
      for (int64_t rows : {8, 9 + static_cast<int>(t)}) {
        in.push_back(inputs(rows, 64));
        first.push_back(run(session, in.back()));
      }
      while (session.stats().swapped < 2 && !over)
        for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(run(session, in[i]), first[i]);
      for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(run(session, in[i]), first[i]);
      EXPECT_EQ(session.stats().swapped, 2);
    });
  }
  engine.wait_for_specialized();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SpecializeTest, AnEngineEndsWhileItsKernelsAreMade) {
  options_.use_cache = false;
  for (int i = 0; i < 3; ++i) {
    std::optional<Session> session = *Session::create(compile(Specialize::background));
    (void)run(*session, inputs(24 + i, 48));
    session.reset();  // and its Engine
  }
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SpecializeTest, AnotherProcessBeginsWithThem) {
  {
    const Engine engine = compile(Specialize::background, few_kinds());
    ASSERT_EQ(engine.plan(shapes(48, 96))->specialized, 0);
    engine.wait_for_specialized();
  }
  {
    const Engine engine =
        compile(Specialize::background, few_kinds());  // kernels of an Engine that has ended are in the cache alone
    EXPECT_GT(engine.plan(shapes(48, 96))->specialized, 0);
    EXPECT_EQ(engine.plan(shapes(49, 96))->specialized, 0);
    engine.wait_for_specialized();
  }
  // The note alone is not enough.
  for (const auto& file : fs::recursive_directory_iterator(*options_.cache_dir))
    if (file.is_regular_file() && fs::file_size(file) > 400) fs::remove(file);
  const Engine engine = compile(Specialize::background, few_kinds());
  EXPECT_EQ(engine.plan(shapes(48, 96))->specialized, 0);
  engine.wait_for_specialized();
  EXPECT_GT(engine.plan(shapes(48, 96))->specialized, 0);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(SpecializeTest, AModelWithoutSymbolsIsLeftAlone) {
  options_.specialize = Specialize::background;
  const Engine engine = *Engine::compile(ir::make_model(*ir::parse_graph(R"(graph @main(%x: f32[100]) {
  %0 = relu %x: f32[100]
  return %0 as "y"
}
)")),
                                         options_);
  EXPECT_EQ(engine.state()->specializer, nullptr);
}

TEST_F(SpecializeTest, APackageSaysThatItHasNoModel) {
  const std::string path = *options_.cache_dir + "/m.fsc";
  ASSERT_TRUE(write_package(few_kinds(), std::vector<std::string>{"cpu:native"}, path, options_).ok());
  options_.specialize = Specialize::background;
  PackageOptions trusted;
  trusted.trust = true;
  const Engine engine = *Engine::load(*Package::open(path, trusted), options_);
  EXPECT_EQ(engine.plan(shapes(48, 96))->specialized, 0);
  EXPECT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(warnings().at(0), HasSubstr("Options::specialize needs the model"));
}

TEST_F(SpecializeTest, AChildByForkRunsWithWhatThereIs) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer lets no child of several threads start threads";
#endif
  const Engine engine = compile(Specialize::background, few_kinds());
  std::optional<Session> session = *Session::create(engine);
  const std::vector<Tensor> in = inputs(48, 96);
  const auto before = run(*session, in);
  const pid_t child = fork();
  if (child == 0) {
    bool same = run(*session, in) == before;
    same = same && run(*session, inputs(49, 96)).size() == before.size();
    engine.wait_for_specialized();
    _exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// --- programs by hand ------------------------------------------------------------------------------------------------

void add_two(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  add_one(args, begin, end, local);  // the same bits
}

// y = (c + 1) + (x + 1); "table" depends on no input.
ProgramBuilder with_table() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), c = b.constant(std::vector<float>(20, 3)), t = b.temporary(),
                    u = b.temporary();
  b.launch(b.kernel({"table", 1, 1, add_one, {}, 0, false, {}}), {flat(c), flat(t)}, "table");
  b.launch(b.kernel({"one", 1, 1, add_one, {}, 0, false, {}}), {flat(x), flat(u)}, "one");
  b.launch(b.kernel({"sum", 2, 1, add, {}, 0, false, {}}), {flat(u), flat(t), flat(y)}, "sum");
  return b;
}

// The Program with another kernel "special" in the place of "one".
SpecializedProgram special_of(const ir::Program& generic, const codegen::Artifact& artifact) {
  SpecializedProgram special;
  special.program = generic;
  for (uint32_t i = 0; i < generic.kernels.size(); ++i) special.same[ir::KernelId{i}] = ir::KernelId{i};
  special.same.erase(ir::KernelId{1});
  special.program.kernels[ir::KernelId{1}].name = "special";
  special.artifacts[ir::KernelId{1}] = std::make_shared<const codegen::Artifact>(artifact);
  return special;
}

EngineState& state_of(const Engine& engine) { return const_cast<EngineState&>(*engine.state()); }

void set_specializer(const Engine& engine, SpecializeProgram make, Warn warn) {
  state_of(engine).options.specialize = Specialize::background;
  state_of(engine).specializer = std::make_unique<Specializer>(std::move(make), std::move(warn));
}

Engine host_engine() {
  Engine engine = with_table().engine();
  const_cast<LoadedProgram&>(*engine.state()->loaded).load = [](const codegen::Artifact&) -> Result<LoadedKernel> {
    LoadedKernel kernel;
    kernel.phases = {{.function = add_two, .iterations = runtime_test::n()}};
    return kernel;
  };
  return engine;
}

Tensor filled(int64_t size, float value) {
  Tensor t = *Tensor::make(DType::f32, {size});
  std::fill_n(t.as<float>(), size, value);
  return t;
}

void expect_runs(Session& session, int64_t size) {
  const Tensor in = filled(size, 5);
  const auto out = session.run(std::span(&in, 1));
  ASSERT_TRUE(out.ok()) << out.status().str();
  for (int64_t i = 0; i < size; ++i) ASSERT_EQ((*out)[0].as<float>()[i], 10);
}

TEST(Specializer, DestructionEndsACompileThatIsAskedToEnd) {
  std::atomic<bool> began = false, ended = false;
  {
    const Engine engine = host_engine();
    set_specializer(
        engine,
        [&](const auto&, const Bindings&, Effort effort,
            const std::atomic<bool>& cancelled) -> Result<std::shared_ptr<const LoadedProgram>> {
          if (effort == Effort::cached) return std::shared_ptr<const LoadedProgram>();
          began = true;
          while (!cancelled) std::this_thread::yield();
          ended = true;
          return Status(StatusCode::invalid_argument, "the compile was ended");
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
    Session session = *Session::create(engine);
    expect_runs(session, 6);
    expect_runs(session, 7);  // waits behind the first, and is dropped
    while (!began) std::this_thread::yield();
    expect_runs(session, 6);
  }
  EXPECT_TRUE(ended);
}

TEST(Specializer, AFailureIsSaidOnceAndFailsNoRun) {
  std::vector<std::string> warnings;
  const Engine engine = host_engine();
  set_specializer(
      engine,
      [&](const auto&, const Bindings&, Effort effort,
          const std::atomic<bool>&) -> Result<std::shared_ptr<const LoadedProgram>> {
        if (effort == Effort::cached) return std::shared_ptr<const LoadedProgram>();
        return Status(StatusCode::compile_failed, "no compiler today");
      },
      [&](const std::string& text) { warnings.push_back(text); });
  Session session = *Session::create(engine);
  for (int64_t size : {6, 7, 8}) expect_runs(session, size);
  engine.wait_for_specialized();
  for (int64_t size : {6, 7, 8}) expect_runs(session, size);
  EXPECT_EQ(session.stats().swapped, 0);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0],
            "kernels for n=6 alone cannot be made, those for all shapes go on: compile_failed: no compiler today");
}

// Sessions run as before where the programs that `change` leaves cannot be linked; the one warning says `why`.
void expect_refused(const Engine& engine, const std::function<void(ir::Program&)>& change, const std::string& why) {
  std::vector<std::string> warnings;
  set_specializer(
      engine,
      [&](const auto& generic, const Bindings&, Effort effort,
          const std::atomic<bool>&) -> Result<std::shared_ptr<const LoadedProgram>> {
        if (effort == Effort::cached) return std::shared_ptr<const LoadedProgram>();
        SpecializedProgram special = special_of(generic->program, {});
        change(special.program);
        return link_specialized(generic, std::move(special));
      },
      [&](const std::string& text) { warnings.push_back(text); });
  Session session = *Session::create(engine);
  expect_runs(session, 6);
  engine.wait_for_specialized();
  expect_runs(session, 6);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], HasSubstr(why));
}

TEST(Specializer, OtherAllocationsAreRefused) {
  expect_refused(
      host_engine(), [](ir::Program& program) { program.allocs[ir::AllocId{0}].dtype = DType::f16; },
      "keep their values elsewhere");
}

#if FUSEC_WITH_CUDA

struct OnFakeGpu {
  OnFakeGpu() {
    fake.kernels["special"] = {2, 1, add_two};
    codegen::Artifact artifact;
    const std::string image = "cubin:special";
    artifact.image.assign(image.begin(), image.end());
    artifact.image.push_back(0);
    codegen::ArtifactPhase phase;
    phase.iterations = runtime_test::n();
    phase.entry = "special";
    phase.threads = 128;
    artifact.phases.push_back(phase);
    set_specializer(
        engine,
        [this, artifact](const auto& generic, const Bindings&, Effort effort,
                         const std::atomic<bool>&) -> Result<std::shared_ptr<const LoadedProgram>> {
          if (effort == Effort::cached) return std::shared_ptr<const LoadedProgram>();
          while (!may_make) std::this_thread::yield();
          return link_specialized(generic, special_of(generic->program, artifact));
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
  }
  void make() {
    may_make = true;
    engine.wait_for_specialized();
  }
  int launched(const std::string& kernel) const {
    return static_cast<int>(std::count_if(fake.launches.begin(), fake.launches.end(),
                                          [&](const auto& launch) { return launch.kernel == kernel; }));
  }

  std::atomic<bool> may_make = false;
  runtime_test::FakeDriver fake;
  Engine engine = *runtime_test::gpu_engine(with_table(), fake);
};

Tensor on_gpu(int64_t size, float value) {
  Tensor t = *make_tensor({TargetKind::cuda, 0}, DType::f32, {size});
  EXPECT_TRUE(copy(filled(size, value), t).ok());
  return t;
}

void expect_tens(const Tensor& t) {
  Tensor h = *Tensor::make(t.dtype(), t.shape());
  ASSERT_TRUE(copy(t, h).ok());
  for (int64_t i = 0; i < h.num_elements(); ++i) ASSERT_EQ(h.as<float>()[i], 10);
}

TEST(SpecializeOnGpu, GraphsAreCapturedAnewAndKeptValuesStay) {
  OnFakeGpu gpu;
  Session session = *Session::create(gpu.engine);
  const Tensor x = on_gpu(6, 5);
  Tensor y = on_gpu(6, 0);
  const auto run = [&] {
    const Status status = session.run(std::span(&x, 1), std::span(&y, 1));
    ASSERT_TRUE(status.ok()) << status.str();
    expect_tens(y);
  };
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(session.stats().captured_graphs, 1);
  EXPECT_EQ(gpu.launched("table"), 1);
  EXPECT_EQ(gpu.launched("one"), 3);
  gpu.make();
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(session.stats().swapped, 1);
  EXPECT_EQ(session.stats().captured_graphs, 2);
  EXPECT_EQ(session.stats().replayed_graphs, 4);
  EXPECT_EQ(gpu.launched("table"), 1) << "kept values are not computed again";
  EXPECT_EQ(gpu.launched("one"), 3);
  EXPECT_EQ(gpu.launched("special"), 3);
  Session other = *Session::create(gpu.engine);
  ASSERT_TRUE(other.run(std::span(&x, 1), std::span(&y, 1)).ok());
  EXPECT_EQ(gpu.launched("special"), 4) << "a Session of later begins with them";
}

TEST(SpecializeOnGpu, ASwapWaitsForNoWorkOnTheCallersStream) {
  OnFakeGpu gpu;
  Session session = *Session::create(gpu.engine);
  const Tensor x = on_gpu(6, 5);
  Tensor y = on_gpu(6, 0);
  const auto waits = [&] {
    return gpu.fake.count("cuStreamSynchronize") + gpu.fake.count("cuEventSynchronize") +
           gpu.fake.count("cuGraphExecDestroy");
  };
  const auto run = [&] { return session.run_async(std::span(&x, 1), std::span(&y, 1), nullptr); };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run().ok());
  gpu.make();
  const int before = waits();
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(session.stats().swapped, 1);
  EXPECT_EQ(waits(), before) << "graphs of work under way are kept";
  ASSERT_TRUE(run().ok());
  expect_tens(y);
  EXPECT_EQ(gpu.launched("special"), 2);
  ASSERT_TRUE(session.run(std::span(&x, 1), std::span(&y, 1)).ok());
  EXPECT_GT(gpu.fake.count("cuGraphExecDestroy"), 0);
}

TEST(SpecializeOnGpu, AFailureToLoadIsNoFailureOfARun) {
  runtime_test::FakeDriver fake;
  expect_refused(
      *runtime_test::gpu_engine(with_table(), fake), [](ir::Program&) {},  // no code at all
      "while loading kernel 'special'");
}
#endif

}  // namespace
}  // namespace fusec::runtime
