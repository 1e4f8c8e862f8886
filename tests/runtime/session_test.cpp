// SPDX-License-Identifier: Apache-2.0
#include "fusec/session.h"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/device/host/memory.h"
#include "tests/runtime/programs.h"

namespace fusec {
namespace {

using runtime_test::add;
using runtime_test::add_one;
using runtime_test::flat;
using runtime_test::n;
using runtime_test::ProgramBuilder;

std::vector<float> iota(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

ProgramBuilder one_step(std::vector<std::pair<int, int>> alias = {}, int alignment = 0) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, add_one, std::move(alias), alignment, false, {}}), {flat(x), flat(y)});
  return b;
}

Status run(Session& session, const Tensor& x, Tensor& y) { return session.run(std::span(&x, 1), std::span(&y, 1)); }

TEST(Session, AllocatesOutputsThatAreNotGiven) {
  Session session = *Session::create(one_step().engine());
  std::vector<float> data = iota(5);
  const Tensor x = Tensor::borrow(DType::f32, {5}, data.data());
  const auto y = session.run(std::span(&x, 1));
  ASSERT_TRUE(y.ok()) << y.status().str();
  EXPECT_EQ((*y)[0].shape(), (std::vector<int64_t>{5}));
  EXPECT_EQ((*y)[0].as<float>()[4], 5);
}

TEST(Session, StridedAndMisalignedTensorsAreStagedAndNotedOnce) {
  Session session = *Session::create(one_step({}, 64).engine());
  alignas(64) float in[41], out[41] = {};
  for (int i = 0; i < 41; ++i) in[i] = static_cast<float>(i);
  const Tensor x = Tensor::borrow(DType::f32, {10}, in + 30, {-3});
  Tensor y = Tensor::borrow(DType::f32, {10}, out, {2});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(run(session, x, y).ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(out[2 * i], 31 - 3 * i);
    EXPECT_EQ(out[2 * i + 1], 0);
  }
  EXPECT_EQ(session.stats().notes, (std::vector<std::string>{"input 'x' is copied at each run: it is not row-major",
                                                             "output 'y' is copied at each run: it is not row-major"}));
  EXPECT_EQ(session.stats().staged_copies, 4);
  Tensor odd = Tensor::borrow(DType::f32, {10}, out + 1);
  ASSERT_TRUE(run(session, Tensor::borrow(DType::f32, {10}, in + 1), odd).ok());
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(out[10], 11);
  EXPECT_EQ(session.stats().staged_copies, 6);
}

TEST(Session, AlignedRowMajorTensorsAreUsedWhereTheyLie) {
  Session session = *Session::create(one_step({}, 64).engine());
  const Tensor x = *Tensor::make(DType::f32, {10});
  Tensor y = *Tensor::make(DType::f32, {10});
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(session.stats().staged_copies, 0);
}

TEST(Session, AnOutputMayLieOverItsInput) {
  for (const bool in_place : {true, false}) {
    Session session = *Session::create(
        one_step(in_place ? std::vector<std::pair<int, int>>{{0, 0}} : std::vector<std::pair<int, int>>{}).engine());
    std::vector<float> data = iota(8);
    const Tensor x = Tensor::borrow(DType::f32, {8}, data.data());
    Tensor y = Tensor::borrow(DType::f32, {8}, data.data());
    ASSERT_TRUE(run(session, x, y).ok());
    EXPECT_EQ(data[7], 8);
    EXPECT_EQ(session.stats().staged_copies, in_place ? 0 : 1);
  }
}

TEST(Session, AnOutputOverAnInputThatIsReadLaterIsStaged) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), z = b.output("z");
  const ir::KernelId one = b.kernel({"one", 1, 1, add_one, {{0, 0}}, 0, false, {}});
  const ir::KernelId two = b.kernel({"two", 2, 1, add, {{0, 0}}, 0, false, {}});
  b.launch(one, {flat(x), flat(y)});
  b.launch(two, {flat(x), flat(y), flat(z)});
  Session session = *Session::create(b.engine());
  std::vector<float> data = iota(8);
  const Tensor in = Tensor::borrow(DType::f32, {8}, data.data());
  Tensor out[] = {Tensor::borrow(DType::f32, {8}, data.data()), Tensor()};  // y over x
  ASSERT_TRUE(session.run(std::span(&in, 1), out).ok());
  EXPECT_EQ(data[3], 4);
  EXPECT_EQ(out[1].as<float>()[3], 7);
}

TEST(Session, OutputsThatAreInputsConstantsOrEachOtherAreCopied) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), c = b.constant({5, 6});
  b.launch(b.kernel({"k", 1, 1, add_one, {}, 0, false, {}}), {flat(x), flat(y)});
  for (ir::AllocId id : {x, c, y}) {
    b.program.outputs.push_back(id);
    b.program.output_names.push_back("copy");
    b.program.output_types.push_back({DType::f32, {b.program.allocs[id].elements}});
  }
  Session session = *Session::create(b.engine());
  std::vector<float> data = iota(3);
  const Tensor in = Tensor::borrow(DType::f32, {3}, data.data());
  const auto out = session.run(std::span(&in, 1));
  ASSERT_TRUE(out.ok()) << out.status().str();
  EXPECT_EQ((*out)[1].as<float>()[2], 2);
  EXPECT_EQ((*out)[2].as<float>()[1], 6);
  EXPECT_EQ((*out)[3].as<float>()[2], 3);
}

TEST(Session, BoundTensorsRunAgain) {
  Session session = *Session::create(one_step({{0, 0}}).engine());
  std::vector<float> data = iota(4);
  const Tensor x = Tensor::borrow(DType::f32, {4}, data.data());
  ASSERT_TRUE(session.bind_io(std::span(&x, 1), std::span(&x, 1)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run_bound().ok());
  EXPECT_EQ(data[0], 3);
}

TEST(Session, WrongTensorsAreRefusedByName) {
  Session session = *Session::create(one_step().engine());
  std::vector<float> data = iota(8);
  Tensor y;
  const auto message = [&](const Tensor& x, Tensor& out) { return run(session, x, out).str(); };
  EXPECT_EQ(message(Tensor::borrow(DType::f64, {4}, data.data()), y),
            "invalid_argument: input 'x' must be f32, given is f64");
  EXPECT_EQ(message(Tensor::borrow(DType::f32, {2, 2}, data.data()), y),
            "invalid_argument: input 'x' must have the shape [n], given is [2, 2]");
  EXPECT_EQ(message(Tensor::borrow(DType::f32, {2}, nullptr), y), "invalid_argument: input 'x' has no memory");
  Tensor small = Tensor::borrow(DType::f32, {3}, data.data());
  EXPECT_EQ(message(Tensor::borrow(DType::f32, {4}, data.data()), small),
            "invalid_argument: output 'y' must be f32[4], given is f32[3]");
  Tensor nowhere = Tensor::borrow(DType::f32, {4}, nullptr);
  const Tensor x = Tensor::borrow(DType::f32, {4}, data.data());
  EXPECT_EQ(message(x, nowhere), "invalid_argument: output 'y' has no memory");
  EXPECT_EQ(session.run({}, {}).str(), "invalid_argument: the model has 1 inputs, given are 0");
  EXPECT_EQ(session.run(std::span(&x, 1), {}).str(), "invalid_argument: the model has 1 outputs, given are 0");
  EXPECT_EQ(session.stats().runs, 0);
}

TEST(Session, ManyShapesUseOneArenaOfTheLargest) {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), t = b.temporary();
  const ir::KernelId k = b.kernel({"k", 1, 1, add_one, {}, 0, false, {}});
  b.launch(k, {flat(x), flat(t)});
  b.launch(k, {flat(t), flat(y)});
  Session session = *Session::create(b.engine());
  for (int64_t size : {64, 16, 4096, 64, 16, 1024}) {
    std::vector<float> data = iota(static_cast<std::size_t>(size));
    const Tensor in = Tensor::borrow(DType::f32, {size}, data.data());
    const auto out = session.run(std::span(&in, 1));
    ASSERT_TRUE(out.ok());
    EXPECT_EQ((*out)[0].as<float>()[size - 1], static_cast<float>(size + 1));
  }
  EXPECT_EQ(session.stats().arena_bytes, 16384);
  EXPECT_EQ(session.stats().prepared, 4);
  for (int64_t size = 1; size < 40; ++size) ASSERT_TRUE(session.prepare(std::vector<TensorShape>{{size}}).ok());
  EXPECT_EQ(session.stats().prepared, 16);
}

TEST(Session, PlansTellWhatAShapeCosts) {
  Engine engine = one_step().engine();
  const auto plan = engine.plan(std::vector<TensorShape>{{32}});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->launches, 1);
  EXPECT_EQ(plan->moved_bytes, 256);
  EXPECT_EQ(plan->steps[0].implementation, "k");
  EXPECT_EQ(*engine.output_shapes(std::vector<TensorShape>{{32}}), (std::vector<TensorShape>{{32}}));
  Session session = *Session::create(engine);
  const Tensor x = *Tensor::make(DType::f32, {32});
  const auto profile = session.profile(std::span(&x, 1));
  ASSERT_TRUE(profile.ok());
  EXPECT_GT(profile->steps[0].us, 0);
}

TEST(StridedCopy, TransposesReversesAndBroadcasts) {
  const std::vector<int32_t> src = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> dst(6);
  const int64_t shape[] = {3, 2}, rows[] = {2, 1}, columns[] = {1, 3}, back[] = {-2, -1}, same[] = {0, 1};
  runtime::strided_copy(dst.data(), rows, src.data(), columns, shape, 4);
  EXPECT_EQ(dst, (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  runtime::strided_copy(dst.data(), rows, src.data() + 5, back, shape, 4);
  EXPECT_EQ(dst, (std::vector<int32_t>{6, 5, 4, 3, 2, 1}));
  runtime::strided_copy(dst.data(), rows, src.data(), same, shape, 4);
  EXPECT_EQ(dst, (std::vector<int32_t>{1, 2, 1, 2, 1, 2}));
  int8_t one = 0;
  const int8_t seven = 7;
  runtime::strided_copy(&one, {}, &seven, {}, {}, 1);
  EXPECT_EQ(one, 7);
}

}  // namespace
}  // namespace fusec
