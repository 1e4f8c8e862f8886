// SPDX-License-Identifier: Apache-2.0
#include "ir/ops/random.h"

#include <cmath>

#include "ir/ops/element.h"
#include "ir/support/hash.h"

namespace fusec::ir {
namespace {

uint64_t random_word(uint64_t seed, uint64_t index) { return mix64(mix64(seed) + index); }

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
  char* element = out.as<char>();
  const auto count = static_cast<uint64_t>(out.num_elements());
  for (uint64_t i = 0; i < count; ++i, element += size_of(dtype)) {
    if (is_float(dtype)) {
      store_element(dtype, element, random_float(seed, i));
    } else {
      const uint64_t range = dtype == DType::bool_ ? 2 : 10;
      store_element(dtype, element, (random_word(seed, i) >> 32) % range);
    }
  }
  return out;
}

}  // namespace fusec::ir
