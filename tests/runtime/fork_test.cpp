// SPDX-License-Identifier: Apache-2.0
// Children made by fork, and processes that may start no more threads: they compute what their parent does, or say why
// not.
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "runtime/threads/parallel.h"

namespace fusec::fork_test {
namespace {

Tensor random(std::vector<int64_t> shape, unsigned seed) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = normal(generator);
  return t;
}

// A convolution, a matrix product and generated kernels, each of enough work for several threads.
Model model() {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {Dim::symbol("n"), 32, 28, 28});
  const Var y = b.apply("relu", {b.conv(x, b.constant(random({64, 32, 3, 3}, 1)), {.pads = {1, 1, 1, 1}})});
  const Var rows = b.reshape(y, {Dim::symbol("n") * 64, 784});
  b.output("y", b.exp(b.apply("sigmoid", {b.matmul(rows, b.constant(random({784, 256}, 2)))})));
  Result<Model> made = b.finish();
  if (!made.ok()) throw std::runtime_error(made.status().str());
  return std::move(made).value();
}

Options options(int threads) {
  Options o;
  o.threads = threads;
  o.use_cache = false;
  return o;
}

Engine compiled(int threads) {
  Result<Engine> engine = Engine::compile(model(), options(threads));
  if (!engine.ok()) throw std::runtime_error(engine.status().str());
  return std::move(engine).value();
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// What `child` answers in a child of this process; -1: it crashed or hung (10 s of the processor or 60 s in all).
int in_child(const std::function<int()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{10, 10};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(60);
    _exit(child());
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run_equals(Session& session, const Tensor& x, const Tensor& expected) {
  const auto out = session.run(std::span(&x, 1));
  return !out.ok() ? 2 : equal((*out)[0], expected) ? 0 : 1;
}

class Fork : public testing::TestWithParam<int> {};

#if defined(__SANITIZE_THREAD__)
#define FUSEC_NEEDS_FORK() GTEST_SKIP() << "the thread sanitizer follows no process that has threads into its children"
#else
#define FUSEC_NEEDS_FORK()
#endif

TEST_P(Fork, AChildRunsWhatItsParentRan) {
  FUSEC_NEEDS_FORK();
  const Engine engine = compiled(GetParam());
  Session session = *Session::create(engine);
  const Tensor x = random({2, 32, 28, 28}, 3);
  const Tensor expected = (*session.run(std::span(&x, 1)))[0];
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(in_child([&] { return run_equals(session, x, expected); }), 0) << "the parent's Session";
    EXPECT_EQ(in_child([&] {
                Session own = *Session::create(engine);
                return run_equals(own, x, expected);
              }),
              0)
        << "the parent's Engine";
    EXPECT_EQ(in_child([&] {
                const auto own = Engine::compile(model(), options(GetParam()));
                if (!own.ok()) return 3;
                Session fresh = *Session::create(*own);
                return run_equals(fresh, x, expected);
              }),
              0)
        << "an Engine of its own";
    EXPECT_EQ(run_equals(session, x, expected), 0) << "the parent";
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Fork, testing::Values(1, 2, 8), testing::PrintToStringParamName());

// The limit counts a user's threads, and not the superuser's.
void allow_no_more_threads() {
  if (geteuid() == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(54321) != 0 || setuid(54321) != 0) _exit(9);
  }
  const rlimit none{1, 1};
  if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(9);
}

TEST(ThreadLimit, ARunTakesTheThreadsThatItCanHave) {
  FUSEC_NEEDS_FORK();
  const Engine engine = compiled(8);
  Session session = *Session::create(engine);
  const Tensor x = random({2, 32, 28, 28}, 3);
  ASSERT_TRUE(session.run(std::span(&x, 1)).ok());
  // A library may add in another order where it has other threads, so the bits are those of an Engine of one thread.
  Session alone = *Session::create(compiled(1));
  const Tensor expected = (*alone.run(std::span(&x, 1)))[0];
  // With the Plan of eight threads, whose team is the parent's: the child makes a Plan for what it can have.
  EXPECT_EQ(in_child([&] {
              allow_no_more_threads();
              const int result = run_equals(session, x, expected);
              return result != 0 ? result : runtime::Lease(8).threads() == 1 ? 0 : 4;
            }),
            0);
  // An executor that gives fewer threads than a Plan wants.
  class OneThread final : public runtime::Executor {
    runtime::LeasedThreads* lease(int) override { return nullptr; }
    void give_back(runtime::LeasedThreads*) override {}
  } one;
  runtime::set_executor(&one);
  EXPECT_EQ(run_equals(session, x, expected), 0);
  Session fresh = *Session::create(engine);
  EXPECT_EQ(run_equals(fresh, x, expected), 0);
  runtime::set_executor(nullptr);
  // Other shapes, another Session.
  EXPECT_EQ(in_child([&] {
              allow_no_more_threads();
              Session own = *Session::create(engine);
              const Tensor three = random({3, 32, 28, 28}, 4);
              return own.run(std::span(&three, 1)).ok() ? run_equals(own, x, expected) : 2;
            }),
            0);
}

}  // namespace
}  // namespace fusec::fork_test
