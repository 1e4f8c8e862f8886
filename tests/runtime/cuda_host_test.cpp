// SPDX-License-Identifier: Apache-2.0
// Memory of a host program on the fake GPU: where it comes from, on which stream, and when it goes back.
#if FUSEC_WITH_CUDA
#include <cstdlib>
#include <map>

#include "runtime/device/cuda/handles.h"
#include "tests/runtime/cuda_session_case.h"

namespace fusec::runtime_test {
namespace {

using namespace session;

struct GpuAllocator {
  struct Block {
    Device device;
    void* stream = nullptr;
  };
  std::map<void*, Block> held;
  int allocated = 0;
  bool is_empty = false;

  // Of the fake driver's memory, as a caching allocator's is of the driver's.
  std::shared_ptr<const HostAllocator> hooks(const runtime::cuda::Driver& driver) {
    HostAllocator made;
    made.allocate = [this, &driver](const MemoryRequest& r) -> void* {
      if (is_empty) return nullptr;
      EXPECT_EQ(r.alignment, r.device.kind == TargetKind::cuda ? 256 : 64);
      void* data = nullptr;
      if (r.device.kind == TargetKind::cuda) {
        CUdeviceptr address = 0;
        EXPECT_EQ(driver.cuMemAlloc(&address, static_cast<std::size_t>(r.bytes)), CUDA_SUCCESS);
        data = reinterpret_cast<void*>(address);
      } else {
        EXPECT_EQ(r.stream, nullptr);
        data = std::aligned_alloc(64, static_cast<std::size_t>((r.bytes + 63) / 64 * 64));
      }
      held[data] = {r.device, r.stream};
      ++allocated;
      return data;
    };
    made.free = [this, &driver](void* memory, const Device& device, void* stream) {
      ASSERT_TRUE(held.contains(memory));
      EXPECT_EQ(held[memory].device, device);
      EXPECT_EQ(held[memory].stream, stream);
      held.erase(memory);
      if (device.kind == TargetKind::cuda)
        EXPECT_EQ(driver.cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), CUDA_SUCCESS);
      else
        std::free(memory);
    };
    return std::make_shared<const HostAllocator>(std::move(made));
  }
  bool has(const Tensor& t) const { return held.contains(const_cast<void*>(t.data())); }
};

TEST(CudaHost, arenas_outputs_and_staging_are_of_its_allocator) {
  FakeDriver fake;
  const auto context = *runtime::cuda::Context::open(0);
  GpuAllocator memory;
  Options options;
  options.allocator = memory.hooks(context->driver());
  std::vector<Tensor> outputs, here;
  {
    const Result<Engine> engine = gpu_engine(chain(3), fake, options);
    ASSERT_TRUE(engine.ok()) << engine.status().str();
    Result<Session> created = Session::create(*engine);
    ASSERT_TRUE(created.ok()) << created.status().str();
    Session session = *std::move(created);
    const Tensor x = on_gpu(iota(4)), h = host(iota(4));
    auto made = session.run(std::span(&x, 1));
    ASSERT_TRUE(made.ok()) << made.status().str();
    outputs = *std::move(made);
    EXPECT_TRUE(memory.has(outputs[0]));
    EXPECT_FALSE(outputs[0].on_host());
    EXPECT_EQ(copy_values(outputs[0]), plus(iota(4), 3));
    EXPECT_GE(memory.allocated, 2);        // the arena, too
    made = session.run(std::span(&h, 1));  // staged, and made on the host
    ASSERT_TRUE(made.ok()) << made.status().str();
    here = *std::move(made);
    EXPECT_TRUE(memory.has(here[0]));
    EXPECT_TRUE(here[0].on_host());
    EXPECT_EQ(copy_values(here[0]), plus(iota(4), 3));
    // On a stream of the caller an output is memory of that stream.
    const runtime::cuda::Current current(*context);
    const auto stream = runtime::cuda::make_stream(context);
    ASSERT_TRUE(stream.ok()) << stream.status().str();
    Tensor out;
    ASSERT_TRUE(session.run_async(std::span(&x, 1), std::span(&out, 1), stream->get()).ok());
    EXPECT_EQ(memory.held[out.data()].stream, stream->get());
    const int before = memory.allocated;
    ASSERT_TRUE(run(session, x, outputs[0]).ok());
    EXPECT_EQ(memory.allocated, before);
  }
  EXPECT_EQ(memory.held.size(), 2u);  // outputs[0] and here[0]
  outputs.clear();
  here.clear();
  EXPECT_TRUE(memory.held.empty());
}

TEST(CudaHost, a_refusal_is_out_of_memory_and_leaves_the_session_as_it_was) {
  FakeDriver fake;
  const auto context = *runtime::cuda::Context::open(0);
  GpuAllocator memory;
  Options options;
  options.allocator = memory.hooks(context->driver());
  Session session = *Session::create(*gpu_engine(chain(3), fake, options));
  const Tensor x = on_gpu(iota(4));
  memory.is_empty = true;
  const Status refused = session.run(std::span(&x, 1)).status();
  EXPECT_EQ(refused.code(), StatusCode::out_of_memory);
  EXPECT_NE(refused.message().find("cuda:0"), std::string::npos) << refused.str();
  memory.is_empty = false;
  EXPECT_EQ(copy_values((*session.run(std::span(&x, 1)))[0]), plus(iota(4), 3));
}

}  // namespace
}  // namespace fusec::runtime_test
#endif
