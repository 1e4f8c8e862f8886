// SPDX-License-Identifier: Apache-2.0
// Which constants go up to a GPU, and when.
#if FUSEC_WITH_CUDA
#include <gtest/gtest.h>

#include <numeric>

#include "fusec/session.h"
#include "runtime/device/cuda/handles.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::cuda_constants_test {
namespace {

using runtime_test::add;
using runtime_test::FakeDriver;
using runtime_test::flat;
using runtime_test::gpu_engine;
using runtime_test::ProgramBuilder;

// A convolution that yields its input if it has packed its filter, else the first elements of the filter.
class FilterOp final : public runtime::LibraryOp {
 public:
  explicit FilterOp(bool packs) : packs_(packs) {}
  Status run(void* const* args, void*, const runtime::ExecContext& context) const override {
    EXPECT_EQ(args[1] == nullptr, packs_);
    EXPECT_EQ(
        (**runtime::cuda::driver())
            .cuMemcpyDtoDAsync(runtime::cuda::address_of(args[2]), runtime::cuda::address_of(args[packs_ ? 0 : 1]), 16,
                               static_cast<CUstream>(context.stream)),
        CUDA_SUCCESS);
    return {};
  }
  bool reads(std::size_t arg) const override { return arg != 1 || !packs_; }
  std::string implementation() const override { return "fake"; }

 private:
  bool packs_;
};
class FilterLibrary final : public runtime::Library {
 public:
  explicit FilterLibrary(bool packs) : packs_(packs) {}
  std::string name() const override { return "fake"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override { return std::nullopt; }
  Result<std::unique_ptr<runtime::LibraryOp>> bind(const runtime::LibraryCall&) override {
    return std::unique_ptr<runtime::LibraryOp>(std::make_unique<FilterOp>(packs_));
  }

 private:
  bool packs_;
};

TEST(CudaConstants, FiltersGoUpWhenACallReadsThem) {
  for (const bool packs : {true, false}) {
    for (const bool is_read_elsewhere : {false, true}) {
      FakeDriver fake;
      ProgramBuilder b;
      const ir::AllocId x = b.input("x"), t = b.temporary(), y = b.output("y");
      const ir::AllocId w = b.constant(std::vector<float>(5000, 7));
      ir::LibraryStep call;
      call.op = ir::TensorOp::conv;
      call.args = {flat(x), flat(w, 5000), flat(t)};
      b.slot({ProgramBuilder::variant({}, {{call, "library"}})});
      const auto kernel = b.kernel({"k", 2, 1, add, {}, 0, false, {}});
      b.launch(kernel, {flat(t), is_read_elsewhere ? flat(w, 4) : flat(x), flat(y)});
      const Engine engine = *gpu_engine(b, fake, {}, {std::make_shared<FilterLibrary>(packs)});
      EXPECT_EQ(fake.count("cuMemcpyHtoD"), is_read_elsewhere ? 1 : 0);
      if (packs && is_read_elsewhere) continue;  // the call is given the address then
      Session session = *Session::create(engine);
      Tensor in = *Tensor::make(DType::f32, {4});
      std::iota(in.as<float>(), in.as<float>() + 4, 0.0f);
      for (int run = 0; run < 3; ++run) {
        const auto out = session.run(std::span(&in, 1));
        ASSERT_TRUE(out.ok()) << out.status().str();
        EXPECT_EQ((*out)[0].as<float>()[3], (packs ? 3 : 7) + (is_read_elsewhere ? 7 : 3));
      }
      EXPECT_EQ(fake.count("cuMemcpyHtoD"), packs ? 0 : 1);
    }
  }
}

TEST(CudaConstants, AModelWhoseConstantsAreAllEmptyRuns) {
  FakeDriver fake;
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), w = b.constant({});
  const auto copy = [](const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i)
      static_cast<float*>(args->buffers[2])[i] = static_cast<const float*>(args->buffers[0])[i];
  };
  b.launch(b.kernel({"k", 2, 1, copy, {}, 0, false, {}}), {flat(x), flat(w, 0), flat(y)});
  const Engine engine = *gpu_engine(b, fake);
  Session session = *Session::create(engine);
  Tensor in = *Tensor::make(DType::f32, {4});
  std::iota(in.as<float>(), in.as<float>() + 4, 0.0f);
  const auto out = session.run(std::span(&in, 1));
  ASSERT_TRUE(out.ok()) << out.status().str();
  EXPECT_EQ((*out)[0].as<float>()[3], 3);
}

}  // namespace
}  // namespace fusec::cuda_constants_test
#endif
