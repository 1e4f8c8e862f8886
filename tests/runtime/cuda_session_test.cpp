// SPDX-License-Identifier: Apache-2.0
#if FUSEC_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/device/cuda/handles.h"
#include "tests/runtime/cuda_fake.h"
#include "tests/runtime/cuda_session_case.h"

namespace fusec::cuda_session_test {
namespace {

using runtime::cuda::GraphCache;
using runtime_test::add_one;
using runtime_test::FakeDriver;
using runtime_test::flat;
using runtime_test::gpu_engine;
using runtime_test::KernelSpec;
using runtime_test::n;
using runtime_test::ProgramBuilder;
using namespace runtime_test::session;
using testing::HasSubstr;

TEST(CudaSession, HostTensorsGoThroughPinnedMemory) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(3), fake));
  const Tensor x = host(iota(5));
  const auto y = session.run(std::span(&x, 1));
  ASSERT_TRUE(y.ok()) << y.status().str();
  EXPECT_TRUE((*y)[0].on_host());
  EXPECT_EQ(copy_values((*y)[0]), plus(iota(5), 3));
  EXPECT_EQ(fake.count("cuMemcpyHtoDAsync"), 1);
  EXPECT_EQ(fake.count("cuMemcpyDtoHAsync"), 1);
  EXPECT_EQ(session.stats().staged_copies, 0);
}

TEST(CudaSession, DeviceTensorsAreUsedWhereTheyLie) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(), fake));
  const Tensor x = on_gpu(iota(6));
  Tensor y = on_gpu(std::vector<float>(6));
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(copy_values(y), plus(iota(6), 1));
  ASSERT_EQ(fake.launches.size(), 1u);
  const runtime_test::FakeLaunch& launch = fake.launches[0];
  EXPECT_EQ(launch.grid, 6u);
  EXPECT_EQ(launch.block, 128u);
  EXPECT_EQ(launch.params[0], reinterpret_cast<uint64_t>(x.data()));
  EXPECT_EQ(launch.params[1], reinterpret_cast<uint64_t>(y.data()));
  EXPECT_EQ(launch.params[2], 6u);
  const auto made = session.run(std::span(&x, 1));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)[0].device(), kGpu);
  EXPECT_EQ(copy_values((*made)[0]), plus(iota(6), 1));
}

TEST(CudaSession, TheSecondRunWithTheSameMemoryIsCaptured) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(4), fake));
  const Tensor x = on_gpu(iota(6));
  Tensor y = on_gpu(std::vector<float>(6));
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.count("cuStreamBeginCapture"), 0);
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 4);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.count("cuStreamBeginCapture"), 1);
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 8);
  EXPECT_EQ(fake.count("cuGraphLaunch"), 3);
  EXPECT_EQ(copy_values(y), plus(iota(6), 4));
  EXPECT_EQ(session.stats().captured_graphs, 1);
  EXPECT_EQ(session.stats().replayed_graphs, 3);
}

TEST(CudaSession, AReplayMakesNoCallsButItsLaunchAndItsWait) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(9), fake));
  const Tensor x = on_gpu(iota(6));
  Tensor y = on_gpu(std::vector<float>(6));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(run(session, x, y).ok());
  fake.log.clear();
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.log,
            (std::vector<std::string>{"cuCtxGetCurrent", "cuCtxPushCurrent", "cuGraphLaunch", "cuStreamSynchronize"}));
}

// Which launches of a chain may start before the one in front of them ends.
std::vector<bool> early(const FakeDriver& fake) {
  std::vector<bool> out;
  for (const runtime_test::FakeLaunch& launch : fake.launches) out.push_back(launch.early);
  return out;
}

TEST(CudaSession, LaunchesThatWaitStartBeforeTheOneInFrontOfThemEnds) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), between[] = {b.temporary(), b.temporary(), b.temporary()};
  KernelSpec spec{"waits", 1, 1, add_one, {}, 0, false, {}, true};
  const ir::KernelId waits = b.kernel(spec);
  spec.name = "does_not";
  spec.waits = false;
  const ir::KernelId does_not = b.kernel(spec);
  b.launch(waits, {flat(x), flat(between[0])});
  b.launch(waits, {flat(between[0]), flat(between[1])});
  b.launch(does_not, {flat(between[1]), flat(between[2])});
  b.launch(waits, {flat(between[2]), flat(y)});
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor in = on_gpu(iota(6));
  Tensor out = on_gpu(std::vector<float>(6));
  const std::vector<bool> expected = {false, true, false, true};  // what the caller enqueued need not wait itself
  ASSERT_TRUE(run(session, in, out).ok());
  EXPECT_EQ(early(fake), expected);
  fake.launches.clear();
  ASSERT_TRUE(run(session, in, out).ok());
  EXPECT_EQ(fake.count("cuGraphLaunch"), 1);
  EXPECT_EQ(early(fake), expected);
  EXPECT_EQ(copy_values(out), plus(iota(6), 4));
  fake.launches.clear();
  ASSERT_TRUE(session.profile(std::span(&in, 1)).ok());
  EXPECT_EQ(early(fake), std::vector<bool>(4));  // timed one by one
}

TEST(CudaSession, NoGraphIsMadeWhereNoneIsWanted) {
  FakeDriver fake;
  Options options;
  options.cuda_graph = false;
  Session session = *Session::create(*gpu_engine(chain(2), fake, options));
  const Tensor x = on_gpu(iota(6));
  Tensor y = on_gpu(std::vector<float>(6));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.count("cuStreamBeginCapture"), 0);
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 6);
}

TEST(CudaSession, BoundTensorsAreCapturedWhenTheyAreBound) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(2, {{0, 0}}), fake));
  const Tensor x = on_gpu(iota(4));
  ASSERT_TRUE(session.bind_io(std::span(&x, 1), std::span(&x, 1)).ok());  // in place
  EXPECT_EQ(fake.count("cuStreamBeginCapture"), 1);
  EXPECT_EQ(fake.launches.size(), 0u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run_bound().ok());
  EXPECT_EQ(fake.count("cuGraphLaunch"), 3);
  EXPECT_EQ(copy_values(x), plus(iota(4), 6));
}

TEST(CudaSession, GraphsAreBounded) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(1), fake));
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 20; ++i) {
    xs.push_back(on_gpu(iota(4)));
    ys.push_back(on_gpu(iota(4)));
    for (int j = 0; j < 2; ++j) ASSERT_TRUE(run(session, xs.back(), ys.back()).ok());
  }
  EXPECT_EQ(session.stats().captured_graphs, 20);
  const int64_t before = session.stats().captured_graphs;
  ASSERT_TRUE(run(session, xs.back(), ys.back()).ok());  // the newest is there
  EXPECT_EQ(session.stats().captured_graphs, before);
  ASSERT_TRUE(run(session, xs[0], ys[0]).ok());  // the oldest is seen as new
  EXPECT_EQ(session.stats().captured_graphs, before);
  ASSERT_TRUE(run(session, xs[0], ys[0]).ok());
  EXPECT_EQ(session.stats().captured_graphs, before + 1);
}

TEST(CudaSession, RotatingPointersAreCopiedToFixedMemory) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(12), fake));
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 40; ++i) {
    xs.push_back(on_gpu(plus(iota(4), static_cast<float>(i))));
    ys.push_back(on_gpu(iota(4)));
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    ASSERT_TRUE(run(session, xs[i], ys[i]).ok());
    EXPECT_EQ(copy_values(ys[i]), plus(iota(4), static_cast<float>(i) + 12));
  }
  EXPECT_EQ(session.stats().captured_graphs, 1);
  EXPECT_GE(session.stats().replayed_graphs, 20);
  // Pointers that stay again are used where they lie.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run(session, xs[0], ys[0]).ok());
  EXPECT_EQ(session.stats().captured_graphs, 2);
  const int copies = fake.count("cuMemcpyDtoDAsync");
  ASSERT_TRUE(run(session, xs[0], ys[0]).ok());
  EXPECT_EQ(fake.count("cuMemcpyDtoDAsync"), copies);
}

TEST(CudaSession, StridedDeviceTensorsAreCopiedOnTheDevice) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(), fake));
  Tensor memory = on_gpu(iota(20));
  const Tensor x = Tensor::borrow(DType::f32, {5}, memory.as<float>() + 1, {2}, kGpu);
  Tensor back = Tensor::borrow(DType::f32, {5}, memory.as<float>() + 18, {-2}, kGpu);
  ASSERT_TRUE(run(session, x, back).ok());
  EXPECT_EQ(copy_values(memory)[11], 11);
  EXPECT_EQ(copy_values(back), (std::vector<float>{2, 4, 6, 8, 10}));
  EXPECT_EQ(session.stats().notes, (std::vector<std::string>{"input 'x' is copied at each run: it is not row-major",
                                                             "output 'y' is copied at each run: it is not row-major"}));
}

TEST(CudaSession, RunAsyncUsesTheCallersStream) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(2), fake));
  const auto context = *runtime::cuda::Context::open(0);
  const runtime::cuda::Current current(*context);
  const auto a = *runtime::cuda::make_stream(context), b = *runtime::cuda::make_stream(context);
  const Tensor x = on_gpu(iota(4));
  Tensor y = on_gpu(iota(4));
  const auto run_on = [&](CUstream stream) { return session.run_async(std::span(&x, 1), std::span(&y, 1), stream); };
  const int waits = fake.count("cuStreamSynchronize");
  ASSERT_TRUE(run_on(a.get()).ok());
  EXPECT_EQ(fake.launches.back().stream, a.get());
  EXPECT_EQ(fake.count("cuStreamSynchronize"), waits);
  EXPECT_TRUE(fake.waits.empty());
  ASSERT_TRUE(run_on(a.get()).ok());  // captured
  ASSERT_TRUE(run_on(b.get()).ok());
  ASSERT_TRUE(run_on(nullptr).ok());
  EXPECT_EQ(fake.graph_streams, (std::vector<const void*>{a.get(), b.get(), nullptr}));
  EXPECT_EQ(fake.waits, (std::vector<const void*>{b.get(), nullptr}));  // one arena: each comes after the one before
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.waits.size(), 3u);
  EXPECT_EQ(copy_values(y), plus(iota(4), 2));
  const Tensor on_host = host(iota(4));
  EXPECT_EQ(session.run_async(std::span(&on_host, 1), std::span(&y, 1), a.get()).str(),
            "invalid_argument: input 'x' lies on cpu, the Engine runs on cuda:0");
}

TEST(CudaSession, TensorsOfAnotherDeviceAreRefused) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(), fake));
  const Tensor x = *make_tensor({TargetKind::cuda, 1}, DType::f32, {4});
  Tensor y;
  EXPECT_EQ(run(session, x, y).str(), "invalid_argument: input 'x' lies on cuda:1, the Engine runs on cuda:0");
  Session cpu = *Session::create(chain().engine());
  EXPECT_EQ(run(cpu, x, y).str(), "invalid_argument: input 'x' lies on a GPU, the Engine runs on the CPU");
}

TEST(CudaSession, OutputsThatAreInputsConstantsOrEachOtherAreCopied) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), c = b.constant({5, 6});
  b.launch(b.kernel({"k", 1, 1, add_one, {}, 0, false, {}}), {flat(x), flat(y)});
  for (ir::AllocId id : {x, c, y}) {
    b.program.outputs.push_back(id);
    b.program.output_names.push_back("copy");
    b.program.output_types.push_back({DType::f32, {b.program.allocs[id].elements}});
  }
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor in = host(iota(3));
  for (int i = 0; i < 3; ++i) {
    const auto out = session.run(std::span(&in, 1));
    ASSERT_TRUE(out.ok()) << out.status().str();
    EXPECT_EQ((*out)[1].as<float>()[2], 2);
    EXPECT_EQ((*out)[2].as<float>()[1], 6);
    EXPECT_EQ((*out)[3].as<float>()[2], 3);
  }
  EXPECT_EQ(session.stats().captured_graphs, 1);
}

// Sets the status word where an element is negative.
void checked(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  const auto* in = static_cast<const float*>(args->buffers[0]);
  for (int64_t i = begin; i < end; ++i) {
    if (in[i] < 0) *args->status = 1;
  }
  add_one(args, begin, end, local);
}

TEST(CudaSession, IndicesOutOfRangeNameTheirStep) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), t = b.temporary(), y = b.output("y");
  b.launch(b.kernel({"plain", 1, 1, add_one, {}, 0, false, {}}), {flat(x), flat(t)}, "first");
  b.launch(b.kernel({"checks", 1, 1, checked, {}, 0, true, {}}), {flat(t), flat(y)}, "second");
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor good = host({1, 2}), bad = host({1, -2});
  Tensor out;
  for (int i = 0; i < 3; ++i) {  // on the plain stream, then by the graph
    EXPECT_EQ(run(session, bad, out).str(),
              "invalid_argument: an index is out of range in 'second'; while running step 'second'");
    EXPECT_TRUE(run(session, good, out).ok());
  }
  EXPECT_GT(session.stats().replayed_graphs, 0);
  EXPECT_EQ(fake.count("cuMemsetD32Async"), 0);  // a run does nothing for indices that are in range
}

// Indices of runs on the caller's stream are not reported, also not by the next run.
TEST(CudaSession, IndicesOutOfRangeOnTheCallersStreamAreNotTheNextRuns) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"checks", 1, 1, checked, {}, 0, true, {}}), {flat(x), flat(y)}, "checks");
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor good = on_gpu({1, 2}), bad = on_gpu({1, -2});
  Tensor out = on_gpu({0, 0});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(session.run_async(std::span(&bad, 1), std::span(&out, 1), nullptr).ok());
    EXPECT_TRUE(session.run(std::span(&good, 1), std::span(&out, 1)).ok());
    EXPECT_EQ(session.run(std::span(&bad, 1), std::span(&out, 1)).code(), StatusCode::invalid_argument);
    EXPECT_TRUE(session.run(std::span(&good, 1), std::span(&out, 1)).ok());
  }
}

// A run that fails after a kernel has found a bad index leaves nothing to the next one.
TEST(CudaSession, IndicesOutOfRangeOfAFailedRunAreNotTheNextRuns) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"checks", 1, 1, checked, {}, 0, true, {}}), {flat(x), flat(y)}, "checks");
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor good = host({1, 2}), bad = host({1, -2});
  Tensor out;
  EXPECT_TRUE(run(session, good, out).ok());
  for (int k = 1; k < 20; ++k) {
    fake.fail(k, CUDA_ERROR_UNKNOWN);
    (void)run(session, bad, out);
    fake.fail(0, CUDA_SUCCESS);
    const Status next = run(session, good, out);
    EXPECT_TRUE(next.ok()) << k << ": " << next.str();
  }
}

TEST(CudaSession, ManyShapesShareOneArena) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(3), fake));
  for (int64_t size : {64, 16, 4096, 64, 16, 1024, 4096, 4096}) {
    const Tensor in = on_gpu(iota(static_cast<std::size_t>(size)));
    const auto out = session.run(std::span(&in, 1));
    ASSERT_TRUE(out.ok()) << out.status().str();
    EXPECT_EQ(copy_values((*out)[0]), plus(iota(static_cast<std::size_t>(size)), 3));
  }
  EXPECT_EQ(session.stats().arena_bytes, 2 * 16384);
}

TEST(CudaSession, ProfileTimesEveryLaunchByEvents) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(2), fake));
  const Tensor x = host(iota(4));
  for (int i = 0; i < 3; ++i) {
    const auto profile = session.profile(std::span(&x, 1));
    ASSERT_TRUE(profile.ok()) << profile.status().str();
    ASSERT_EQ(profile->steps.size(), 2u);
    EXPECT_EQ(profile->steps[1].us, 500);
    EXPECT_EQ(profile->steps[1].threads, 128);
  }
  EXPECT_EQ(fake.count("cuStreamBeginCapture"), 0);
}

TEST(CudaSession, TheCallersContextIsCurrentAgain) {
  FakeDriver fake;
  FakeDriver::set_current(fake.primary(7));
  {
    const Engine engine = *gpu_engine(chain(2), fake);
    EXPECT_EQ(FakeDriver::current(), fake.primary(7));
    Session session = *Session::create(engine);
    const Tensor x = host(iota(4));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run(std::span(&x, 1)).ok());
    EXPECT_EQ(FakeDriver::current(), fake.primary(7));
    fake.fail(5, CUDA_ERROR_UNKNOWN);
    EXPECT_FALSE(session.run(std::span(&x, 1)).ok());
    EXPECT_EQ(FakeDriver::current(), fake.primary(7));
  }
  EXPECT_EQ(FakeDriver::current(), fake.primary(7));
  FakeDriver::set_current(nullptr);
}

// All that a session does on a GPU, once.
Status use_everything(FakeDriver& fake, std::vector<std::string>& warnings) {
  Options options;
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  ProgramBuilder b = chain(2);
  b.launch(b.kernel({"checks", 2, 1, checked, {}, 64, true, {}}),
           {flat(b.program.inputs[0]), flat(b.constant({1, 2, 3, 4}), 4), flat(b.output("z"))});
  FUSEC_ASSIGN(const Engine engine, gpu_engine(b, fake, options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  const Tensor x = host(iota(4));
  for (int i = 0; i < 3; ++i) FUSEC_TRY(session.run(std::span(&x, 1)).status());
  FUSEC_ASSIGN(Tensor on_gpu, make_tensor(kGpu, DType::f32, {4}));
  FUSEC_TRY(copy(x, on_gpu));
  const Tensor strided = Tensor::borrow(DType::f32, {2, 2}, on_gpu.data(), {1, 2}, kGpu);
  FUSEC_ASSIGN(Tensor moved, make_tensor(kGpu, DType::f32, {2, 2}));
  FUSEC_TRY(copy(strided, moved));
  Tensor out[2];
  for (Tensor& t : out) {
    FUSEC_ASSIGN(t, make_tensor(kGpu, DType::f32, {4}));
  }
  FUSEC_TRY(session.bind_io(std::span(&on_gpu, 1), out));
  FUSEC_TRY(session.run_bound());
  FUSEC_TRY(session.run_async(std::span(&on_gpu, 1), out, nullptr));
  FUSEC_TRY(session.profile(std::span(&on_gpu, 1)).status());
  Tensor back = *Tensor::make(DType::f32, {4});
  return copy(out[0], back);
}

TEST(CudaSession, EveryFailingCallGivesOneClearStatus) {
  int failures = 0;
  for (int k = 1;; ++k) {
    FakeDriver fake;
    std::vector<std::string> warnings;
    fake.fail(k, CUDA_ERROR_UNKNOWN);
    const Status status = use_everything(fake, warnings);
    const std::string& call = fake.failed_call();
    if (call.empty()) {
      EXPECT_TRUE(status.ok()) << status.str();
      break;
    }
    ++failures;
    if (status.ok()) {  // a capture that fails, and a cubin that is refused, have another way; giving back never fails
      const bool replaced = call == "cuLibraryLoadData" || call.starts_with("cuCtx") || !warnings.empty();
      EXPECT_TRUE(replaced) << call;
      EXPECT_LE(warnings.size(), 1u);
      for (const std::string& text : warnings) EXPECT_THAT(text, HasSubstr("CUDA_ERROR_UNKNOWN"));
      continue;
    }
    EXPECT_EQ(status.code(), StatusCode::device) << call << ": " << status.str();
    EXPECT_THAT(status.str(), HasSubstr("CUDA_ERROR_UNKNOWN (in words)")) << call;
    EXPECT_THAT(status.str(), HasSubstr(call)) << status.str();
  }
  EXPECT_GT(failures, 100);
}

TEST(CudaSession, AnErrorThatBreaksTheContextEndsTheSession) {
  FakeDriver fake;
  const Engine engine = *gpu_engine(chain(2), fake);
  Session session = *Session::create(engine), other = *Session::create(engine);
  const Tensor x = host(iota(4));
  ASSERT_TRUE(session.run(std::span(&x, 1)).ok());
  fake.fail(5, CUDA_ERROR_ILLEGAL_ADDRESS);
  const Status first = session.run(std::span(&x, 1)).status();
  EXPECT_EQ(first.code(), StatusCode::device);
  EXPECT_THAT(first.str(), HasSubstr("device: cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(first.str(), HasSubstr("while launching step 'step0'"));
  const std::size_t calls = fake.log.size();
  for (Session* s : {&session, &other}) {
    const Status later = s->run(std::span(&x, 1)).status();
    EXPECT_EQ(later.code(), StatusCode::device);
    EXPECT_THAT(later.str(), HasSubstr("cuda:0 is lost to this process since " + first.message()));
  }
  EXPECT_EQ(fake.log.size(), calls);  // the driver is not asked again
  EXPECT_FALSE(Session::create(engine).ok());
  EXPECT_FALSE(make_tensor(kGpu, DType::f32, {4}).ok());
}

TEST(CudaSession, AChildMadeByForkHearsThatTheGpuIsItsParents) {
  FakeDriver fake;
  const Engine engine = *gpu_engine(chain(2), fake);
  Session session = *Session::create(engine);
  const Tensor x = host(iota(4));
  ASSERT_TRUE(session.run(std::span(&x, 1)).ok());
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    const std::size_t calls = fake.log.size();
    int right = 0;
    for (const Status& status : {session.run(std::span(&x, 1)).status(), Session::create(engine).status(),
                                 make_tensor(kGpu, DType::f32, {4}).status()}) {
      right += status.code() == StatusCode::device &&
               status.str().find("before this process was forked") != std::string::npos;
    }
    _exit(right == 3 && fake.log.size() == calls ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(session.run(std::span(&x, 1)).ok());  // the parent goes on
}

TEST(CudaSession, MemoryThatIsNotThereIsSaidWithWhatIsFree) {
  FakeDriver fake;
  const auto context = runtime::cuda::Context::open(0);
  fake.fail(3, CUDA_ERROR_OUT_OF_MEMORY);  // after the two calls that make the context current
  EXPECT_EQ(make_tensor(kGpu, DType::f32, {1 << 20}).status().str(),
            "out_of_memory: 4194304 bytes of the memory of cuda:0 are not to be had; 1000 of 2000 bytes are free");
}

TEST(CudaSession, EightThreadsWithASessionEach) {
  FakeDriver fake;
  const Engine engine = *gpu_engine(chain(5), fake);
  std::vector<std::thread> threads;
  std::vector<Status> failed(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      failed[static_cast<std::size_t>(t)] = [&]() -> Status {
        FUSEC_ASSIGN(Session session, Session::create(engine));
        for (int i = 0; i < 30; ++i) {
          const std::vector<float> values =
              plus(iota(static_cast<std::size_t>(8 + i % 3)), static_cast<float>(t * 100 + i));
          const Tensor x = i % 2 ? host(values) : on_gpu(values);
          FUSEC_ASSIGN(const std::vector<Tensor> y, session.run(std::span(&x, 1)));
          if (copy_values(y[0]) != plus(values, 5)) return Status(StatusCode::internal, "wrong numbers");
        }
        return Status();
      }();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Status& status : failed) EXPECT_TRUE(status.ok()) << status.str();
}

// Adds two by calls of the driver, as a library would; may do what no capture allows.
class FakeLibraryOp final : public runtime::LibraryOp {
 public:
  explicit FakeLibraryOp(bool capturable, bool next_early) : capturable_(capturable), next_early_(next_early) {}
  Status run(void* const* args, void* workspace, const runtime::ExecContext& context) const override {
    EXPECT_NE(workspace, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace) % 256, 0u);
    const runtime::cuda::Driver& d = **runtime::cuda::driver();
    auto* const stream = static_cast<CUstream>(context.stream);
    if (!capturable_) {
      void* more = nullptr;
      if (d.cuMemHostAlloc(&more, 8, 0) != CUDA_SUCCESS) return Status(StatusCode::device, "no memory under capture");
      (void)d.cuMemFreeHost(more);
    }
    EXPECT_EQ(d.cuMemcpyDtoDAsync(runtime::cuda::address_of(args[1]), runtime::cuda::address_of(args[0]), 16, stream),
              CUDA_SUCCESS);
    return {};
  }
  std::size_t workspace_bytes() const override { return 100; }
  bool next_may_start_early() const override { return next_early_; }
  std::string implementation() const override { return "fake"; }

 private:
  bool capturable_, next_early_;
};
class FakeLibraries final : public runtime::Library {
 public:
  FakeLibraries(bool capturable, bool next_early) : capturable_(capturable), next_early_(next_early) {}
  std::string name() const override { return "fake"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override { return std::nullopt; }
  Result<std::unique_ptr<runtime::LibraryOp>> bind(const runtime::LibraryCall&) override {
    EXPECT_NE(FakeDriver::current(), nullptr);
    return std::unique_ptr<runtime::LibraryOp>(std::make_unique<FakeLibraryOp>(capturable_, next_early_));
  }

 private:
  bool capturable_, next_early_;
};

TEST(CudaSession, ALibraryThatCannotBeCapturedRunsPlainlyAfterOneWarning) {
  for (const bool capturable : {true, false}) {
    FakeDriver fake;
    ProgramBuilder b;
    const ir::AllocId x = b.input("x"), t = b.temporary(), y = b.output("y");
    ir::LibraryStep call;
    call.args = {flat(x), flat(t)};
    b.slot({ProgramBuilder::variant({}, {{call, "library"}})});
    b.launch(b.kernel({"k", 1, 1, add_one, {}, 0, false, {}, true}), {flat(t), flat(y)});
    std::vector<std::string> warnings;
    Options options;
    options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
    Session session =
        *Session::create(*gpu_engine(b, fake, options, {std::make_shared<FakeLibraries>(capturable, capturable)}));
    const Tensor in = host(iota(4));
    for (int i = 0; i < 4; ++i) {
      const auto out = session.run(std::span(&in, 1));
      ASSERT_TRUE(out.ok()) << out.status().str();
      EXPECT_EQ(copy_values((*out)[0]), plus(iota(4), 1));
    }
    // The launch behind the library starts early if the library says so.
    EXPECT_EQ(early(fake), std::vector<bool>(4, capturable));
    EXPECT_EQ(session.stats().replayed_graphs, capturable ? 3 : 0);
    EXPECT_EQ(warnings.size(), capturable ? 0u : 1u);
    for (const std::string& text : warnings) {
      EXPECT_EQ(text,
                "a plan runs without a CUDA graph: device: no memory under capture; while launching step 'library'");
    }
  }
}

TEST(CudaSession, AGridPastTheLimitIsUnsupported) {
  FakeDriver fake;
  const Engine engine = *gpu_engine(chain(), fake);
  const auto plan = engine.plan(std::vector<TensorShape>{{int64_t{1} << 31}});
  EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
  EXPECT_THAT(plan.status().str(), HasSubstr("step 'step0' needs 2147483648 blocks"));
}

}  // namespace
}  // namespace fusec::cuda_session_test
#endif
