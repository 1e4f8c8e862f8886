// SPDX-License-Identifier: Apache-2.0
// Makes tensors, and loads and stores their elements, in the import stage. Fills weights whose data file is missing
// with reproducible random numbers, and parses the recipes that give their distribution.

#include "compiler/import/onnx/tensor.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>

#include "compiler/import/onnx/error.h"
#include "ir/ops/cast.h"
#include "ir/support/parallel.h"

namespace fusec::importer {
namespace {

const void* at(const Tensor& tensor, int64_t i) {
  return static_cast<const char*>(tensor.data()) + i * static_cast<int64_t>(size_of(tensor.dtype()));
}
void* at(Tensor& tensor, int64_t i) {
  return static_cast<char*>(tensor.data()) + i * static_cast<int64_t>(size_of(tensor.dtype()));
}

}  // namespace

void store_f64(Tensor& tensor, int64_t i, double value) { ir::store_double(tensor.dtype(), at(tensor, i), value); }
void store_i64(Tensor& tensor, int64_t i, int64_t value) { ir::store_int(tensor.dtype(), at(tensor, i), value); }
double load_f64(const Tensor& tensor, int64_t i) { return ir::load_double(tensor.dtype(), at(tensor, i)); }
int64_t load_i64(const Tensor& tensor, int64_t i) { return ir::load_int(tensor.dtype(), at(tensor, i)); }

Tensor make_tensor(DType dtype, std::vector<int64_t> shape) { return take(Tensor::make(dtype, std::move(shape))); }

Tensor scalar_tensor(DType dtype, double value) {
  Tensor tensor = make_tensor(dtype, {});
  store_f64(tensor, 0, value);
  return tensor;
}

Tensor ints_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor = make_tensor(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) store_i64(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<int64_t> to_ints(const Tensor& tensor) {
  std::vector<int64_t> values(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_i64(tensor, static_cast<int64_t>(i));
  return values;
}

namespace {

// Constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57, kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

template <std::size_t blocks>
void philox_rounds(std::array<std::array<uint32_t, 4>, blocks>& all, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (std::array<uint32_t, 4>& x : all) {
      const uint64_t a = uint64_t{kMul0} * x[0], b = uint64_t{kMul1} * x[2];
      x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(a)};
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Rounds of several blocks take turns, so that none waits for its own multiplications.
constexpr std::size_t kBlocks = 8;

// Two independent normals from each of so many Philox blocks.
std::array<double, 2 * kBlocks> normals(uint64_t seed, uint64_t stream, uint64_t block) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  std::array<std::array<uint32_t, 4>, kBlocks> random;
  for (std::size_t i = 0; i < kBlocks; ++i) random[i] = {low(block + i), high(block + i), low(stream), high(stream)};
  philox_rounds(random, low(seed), high(seed));
  // 53 random bits, shifted by half a step so that the logarithm never sees 0.
  const auto unit = [](uint32_t hi, uint32_t lo) {
    return (static_cast<double>(static_cast<int64_t>((uint64_t{hi} << 32 | lo) >> 11)) + 0.5) * 0x1p-53;
  };
  std::array<double, 2 * kBlocks> out;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::array<uint32_t, 4>& r = random[i];
    const double radius = std::sqrt(-2 * std::log(unit(r[0], r[1])));
    const double angle = 2 * std::numbers::pi * unit(r[2], r[3]);
    out[2 * i] = radius * std::cos(angle), out[2 * i + 1] = radius * std::sin(angle);
  }
  return out;
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, uint32_t key0, uint32_t key1) {
  std::array<std::array<uint32_t, 4>, 1> blocks = {x};
  philox_rounds(blocks, key0, key1);
  return blocks[0];
}

Result<std::map<std::string, WeightDistribution>> parse_recipes(const std::string& json) {
  // ONNX leaves the keys of metadata to the producer, so such a model is valid and the error is `unsupported`.
  Status bad(StatusCode::unsupported, "metadata 'weights_recipe' is not an object of name -> [mean, std, min]");
  auto root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object()) return bad;
  std::map<std::string, WeightDistribution> recipes;
  for (const auto& [name, row] : root.items()) {
    if (!row.is_array() || row.size() != 3) return bad;
    for (const auto& number : row) {
      if (!number.is_number()) return bad;
    }
    recipes[name] = {row[0].get<double>(), row[1].get<double>(), row[2].get<double>()};
  }
  return recipes;
}

void fill_random(Tensor& tensor, const WeightDistribution& recipe, uint64_t seed, const std::string& name) {
  constexpr int64_t kAtOnce = 2 * kBlocks, kGrain = 4096;  // elements; pieces of so many that are worth a thread
  const uint64_t stream = fnv1a(name);
  const int64_t n = tensor.num_elements();
  float* const singles = tensor.dtype() == DType::f32 ? tensor.as<float>() : nullptr;
  ir::parallel_for(0, (n + kAtOnce - 1) / kAtOnce, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const auto z = normals(seed, stream, static_cast<uint64_t>(piece) * kBlocks);
      const int64_t first = piece * kAtOnce, count = std::min(n - first, kAtOnce);
      for (int64_t i = 0; i < count; ++i) {
        const double value = std::max(recipe.min, recipe.mean + recipe.std * z[static_cast<std::size_t>(i)]);
        if (singles != nullptr) {
          singles[first + i] = static_cast<float>(value);
        } else {
          store_f64(tensor, first + i, value);
        }
      }
    }
  });
}

}  // namespace fusec::importer
