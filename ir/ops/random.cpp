// SPDX-License-Identifier: Apache-2.0
// Generates reproducible random tensors for tests, benchmarks and the `random` constants of graph text. Values depend
// only on seed and index, so they may not change.

#include "ir/ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/ops/element.h"
#include "ir/support/hash.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

uint64_t random_word(uint64_t seed, uint64_t index) { return mix64(mix64(seed) + index); }

constexpr int64_t kBlock = 256;               // values between two looks at the dtype
constexpr int64_t kGrain = int64_t{1} << 18;  // values that are worth a thread of their own

// Values `begin` ... `begin + count - 1` of the tensor, count <= kBlock.
void store_block(Tensor& out, uint64_t seed, int64_t begin, int64_t count) {
  const auto store = [&]<class T>(const std::array<T, kBlock>& values) {
    store_elements<T>(out.dtype(), out.data(), begin, 1, count, values.data());
  };
  if (is_float(out.dtype())) {
    std::array<double, kBlock> values;
    for (int64_t i = 0; i < count; ++i) values[i] = random_float(seed, static_cast<uint64_t>(begin + i));
    return store(values);
  }
  const uint64_t range = out.dtype() == DType::bool_ ? 2 : 10;
  std::array<uint64_t, kBlock> values;
  for (int64_t i = 0; i < count; ++i) values[i] = (random_word(seed, static_cast<uint64_t>(begin + i)) >> 32) % range;
  store(values);
}

}  // namespace

double random_float(uint64_t seed, uint64_t index) {
  const uint64_t word = random_word(seed, index);
  int64_t sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<int64_t>(word >> (16 * part) & 0xffff);
  // Four uniforms on 0...65535: mean 2*65535, variance 4*(65536^2 - 1)/12.
  static const double kDeviation = std::sqrt((65536.0 * 65536.0 - 1) / 3);
  return static_cast<double>(sum - 2 * 65535) / kDeviation;
}

Result<Tensor> random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  FUSEC_ASSIGN(Tensor out, Tensor::make(dtype, std::move(shape)));
  const int64_t count = out.num_elements();
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlock) store_block(out, seed, i, std::min(kBlock, end - i));
  });
  return out;
}

}  // namespace fusec::ir
