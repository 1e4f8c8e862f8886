// SPDX-License-Identifier: Apache-2.0
// Library calls that run side by side.
#if FUSEC_WITH_CUDA
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "fusec/session.h"
#include "runtime/device/cuda/handles.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::cuda_branches_test {
namespace {

using runtime_test::FakeDriver;
using runtime_test::flat;
using runtime_test::gpu_engine;
using runtime_test::ProgramBuilder;

constexpr std::size_t kNever = 1000;

struct Seen {
  std::set<void*> streams;
  std::size_t calls = 0, fail_at = kNever;
};

// Copies its input, an element in each call.
class ManyCalls final : public runtime::LibraryOp {
 public:
  ManyCalls(std::size_t calls, Seen& seen) : calls_(calls), seen_(seen) {}
  Status run(void* const* args, void*, const runtime::ExecContext& context) const override {
    for (std::size_t i = 0; i < calls_; ++i) FUSEC_TRY(run_call(i, args, context));
    return {};
  }
  std::size_t calls() const override { return calls_; }
  Status run_call(std::size_t call, void* const* args, const runtime::ExecContext& context) const override {
    if (call == seen_.fail_at) return Status(StatusCode::device, "the call fails");
    ++seen_.calls;
    seen_.streams.insert(context.stream);
    const auto at = [&](int arg) { return runtime::cuda::address_of(static_cast<float*>(args[arg]) + call); };
    (**runtime::cuda::driver()).cuMemcpyDtoDAsync(at(1), at(0), 4, static_cast<CUstream>(context.stream));
    return {};
  }
  bool next_may_start_early() const override { return true; }
  std::string implementation() const override { return "many"; }

 private:
  std::size_t calls_;
  Seen& seen_;
};

class ManyCallsLibrary final : public runtime::Library {
 public:
  ManyCallsLibrary(std::size_t calls, Seen& seen) : calls_(calls), seen_(seen) {}
  std::string name() const override { return "fake"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override { return std::nullopt; }
  Result<std::unique_ptr<runtime::LibraryOp>> bind(const runtime::LibraryCall&) override {
    return std::unique_ptr<runtime::LibraryOp>(std::make_unique<ManyCalls>(calls_, seen_));
  }

 private:
  std::size_t calls_;
  Seen& seen_;
};

// y = copy(x) + 1, by a kernel that waits for launches before it by itself
Result<Engine> engine_with(std::size_t calls, Seen& seen, FakeDriver& fake, const Options& options = {}) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), t = b.temporary(), y = b.output("y");
  ir::LibraryStep call;
  call.args = {flat(x), flat(t)};
  b.slot({ProgramBuilder::variant({}, {{call, "library"}})});
  b.launch(b.kernel({"k", 1, 1, runtime_test::add_one, {}, 0, false, {}, true}), {flat(t), flat(y)});
  return gpu_engine(b, fake, options, {std::make_shared<ManyCallsLibrary>(calls, seen)});
}

Tensor iota(std::size_t count) {
  Tensor t = *Tensor::make(DType::f32, {static_cast<int64_t>(count)});
  std::iota(t.as<float>(), t.as<float>() + count, 0.0f);
  return t;
}

TEST(CudaBranches, CallsRunSideBySideInARunAndInAGraph) {
  for (const std::size_t calls : {1U, 2U, 8U, 12U}) {
    SCOPED_TRACE(calls);
    FakeDriver fake;
    Seen seen;
    Session session = *Session::create(*engine_with(calls, seen, fake));
    const Tensor in = iota(calls);
    for (int run = 0; run < 3; ++run) {
      const auto out = session.run(std::span(&in, 1));
      ASSERT_TRUE(out.ok()) << out.status().str();
      for (std::size_t i = 0; i < calls; ++i) EXPECT_EQ((*out)[0].as<float>()[i], static_cast<float>(i) + 1);
    }
    EXPECT_EQ(session.stats().replayed_graphs, 2);
    EXPECT_EQ(seen.calls, 2 * calls);  // a run and a capture
    EXPECT_EQ(seen.streams.size(), std::min<std::size_t>(calls, 8));
    for (const auto& launch : fake.launches) EXPECT_EQ(launch.early, calls == 1);
  }
}

TEST(CudaBranches, ACallThatFailsLeavesNoBranchOpen) {
  for (const std::size_t fail_at : {0U, 5U, 11U}) {
    SCOPED_TRACE(fail_at);
    FakeDriver fake;
    Seen seen;
    std::vector<std::string> warnings;
    Options options;
    options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
    Session session = *Session::create(*engine_with(12, seen, fake, options));
    const Tensor in = iota(12);
    ASSERT_TRUE(session.run(std::span(&in, 1)).ok());
    seen.fail_at = fail_at;  // in the capture, and in the run that follows it
    EXPECT_FALSE(session.run(std::span(&in, 1)).ok());
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0], "a plan runs without a CUDA graph: device: the call fails; while launching step 'library'");
    seen.fail_at = kNever;
    const auto out = session.run(std::span(&in, 1));
    ASSERT_TRUE(out.ok()) << out.status().str();
    EXPECT_EQ((*out)[0].as<float>()[11], 12);
  }
}

}  // namespace
}  // namespace fusec::cuda_branches_test
#endif
