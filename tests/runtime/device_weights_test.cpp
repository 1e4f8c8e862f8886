// SPDX-License-Identifier: Apache-2.0
// Packed weights of several Engines, in host memory that plays a device's.
#include "runtime/library/interface/device_weights.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "tests/runtime/host_device_memory.h"

namespace fusec::runtime {
namespace {

CallOperand matrix(const std::vector<float>& values, int64_t rows, int64_t columns) {
  CallOperand out;
  out.dtype = DType::f32;
  out.dims = {rows, columns}, out.strides = {columns, 1};
  out.constant = values.data();
  return out;
}

TEST(DeviceWeights, EnginesShareWhatIsPackedAlike) {
  const auto memory = std::make_shared<testing::HostDeviceMemory>();
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::optional<DeviceWeights> first(memory), second(memory);
  const CallOperand from = matrix(values, 2, 3);
  const auto* packed = static_cast<const float*>(*first->get(from, {1, 2}));
  EXPECT_EQ(*first->get(from, {1, 2}), packed);
  EXPECT_EQ(*second->get(from, {1, 2}), packed);
  EXPECT_EQ(packed[1], 4);
  EXPECT_NE(*second->get(from, {3, 1}), packed);  // in another order
  EXPECT_EQ(memory->made, 2);
  first.reset();
  EXPECT_EQ(memory->alive, 2);
  EXPECT_EQ(packed[5], 6);
  second.reset();
  EXPECT_EQ(memory->alive, 0);
}

TEST(DeviceWeights, AnAddressThatWasAnothersIsPackedAgain) {
  const auto memory = std::make_shared<testing::HostDeviceMemory>();
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  DeviceWeights first(memory), second(memory);
  void* const packed = *first.get(matrix(values, 2, 3), {1, 2});
  values[4] = 7;
  const void* const again = *second.get(matrix(values, 2, 3), {1, 2});
  EXPECT_NE(again, packed);
  EXPECT_EQ(static_cast<const float*>(again)[3], 7);
}

struct FailingMemory : testing::HostDeviceMemory {
  Status upload(void* device, const void* host, std::size_t bytes) override {
    return fails ? Status(StatusCode::device, "it fails") : HostDeviceMemory::upload(device, host, bytes);
  }
  bool fails = false;
};

TEST(DeviceWeights, AFailureKeepsNothing) {
  const auto memory = std::make_shared<FailingMemory>();
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  DeviceWeights first(memory), second(memory);
  (void)*first.get(matrix(values, 2, 3), {1, 2});
  values[4] = 7;
  memory->fails = true;
  for (int time = 0; time < 2; ++time) EXPECT_FALSE(second.get(matrix(values, 2, 3), {1, 2}).ok());
  EXPECT_EQ(memory->alive, 1);
  memory->fails = false;
  EXPECT_EQ(static_cast<const float*>(*second.get(matrix(values, 2, 3), {1, 2}))[3], 7);
}

// Of two queries behind one stored key; rows are four elements apart.
TEST(DeviceWeights, CausalMasks) {
  const auto memory = std::make_shared<testing::HostDeviceMemory>();
  DeviceWeights weights(memory);
  const auto* mask = static_cast<const float*>(*weights.causal_mask(DType::f32, 2, 3, 4));
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(std::vector<float>(mask, mask + 8), (std::vector<float>{0, 0, low, 0, 0, 0, 0, 0}));
  EXPECT_EQ(*weights.causal_mask(DType::f32, 2, 3, 4), mask);
  EXPECT_NE(*weights.causal_mask(DType::f32, 3, 3, 4), mask);
}

TEST(DeviceWeights, DevicesHaveTheirOwn) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto one = std::make_shared<testing::HostDeviceMemory>(), other = std::make_shared<testing::HostDeviceMemory>();
  DeviceWeights first(one), second(other);
  EXPECT_NE(*first.get(matrix(values, 2, 3), {1, 2}), *second.get(matrix(values, 2, 3), {1, 2}));
  EXPECT_EQ(other->made, 1);
}

}  // namespace
}  // namespace fusec::runtime
