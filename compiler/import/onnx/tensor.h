// SPDX-License-Identifier: Apache-2.0
// Tensors at import: elements of row-major tensors by linear index, and random contents for weights whose data is
// absent. Random elements depend only on the seed, the tensor's name and their index.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::importer {

void store_f64(Tensor& tensor, int64_t i, double value);  // see ir::store_double
void store_i64(Tensor& tensor, int64_t i, int64_t value);
double load_f64(const Tensor& tensor, int64_t i);
int64_t load_i64(const Tensor& tensor, int64_t i);

Tensor make_tensor(DType dtype, std::vector<int64_t> shape);  // throws ImportError when memory is short
Tensor scalar_tensor(DType dtype, double value);              // rank 0
Tensor ints_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values);
std::vector<int64_t> to_ints(const Tensor& tensor);  // every element

// Element i of tensor t is max(min, mean + std * z(seed, t, i)).
struct WeightDistribution {
  double mean = 0, std = 0.02, min = -std::numeric_limits<double>::infinity();
};

// Parses metadata_props["weights_recipe"]: a JSON object, tensor name -> [mean, std, min].
Result<std::map<std::string, WeightDistribution>> parse_recipes(const std::string& json);

// Computes Philox4x32 with ten rounds; key0 and key1 are its key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint32_t key0, uint32_t key1);

// Fills the tensor from standard normal z(seed, name, i) for i in [0, n): Philox4x32-10 with the seed as its key and (i
// / 2, FNV-1a of the name) as its counter, then Box-Muller in f64. Each element depends only on the seed, the name and
// i.
void fill_random(Tensor& tensor, const WeightDistribution& recipe, uint64_t seed, const std::string& name);

}  // namespace fusec::importer
