// SPDX-License-Identifier: Apache-2.0
// Makes a tensor of nested lists of numbers in JSON.

#include <fmt/format.h>

#include <fstream>
#include <span>
#include <sstream>
#include <type_traits>

#include "ir/ops/element.h"
#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kMaxDepth = 64;

Status refuse_json(const std::string& what, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("{}: {}", what, why));
}

// Extents by the first element of each list.
std::vector<int64_t> find_shape(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json* at = &json; at->is_array() && shape.size() < kMaxDepth; at = &at->front()) {
    shape.push_back(static_cast<int64_t>(at->size()));
    if (at->empty()) break;
  }
  return shape;
}

// The leaves in order. false: a list is longer or shorter than the first of its depth, or deeper.
bool collect(const Json& json, std::span<const int64_t> shape, std::vector<const Json*>& leaves) {
  if (shape.empty()) {
    leaves.push_back(&json);
    return !json.is_array();
  }
  if (!json.is_array() || static_cast<int64_t>(json.size()) != shape.front()) return false;
  for (const Json& one : json) {
    if (!collect(one, shape.subspan(1), leaves)) return false;
  }
  return true;
}

// Bits of the dtype without the sign.
int count_bits(DType dtype) {
  const int bits = dtype == DType::bool_ ? 1 : 8 * static_cast<int>(size_of(dtype));
  return bits - (is_signed_int(dtype) ? 1 : 0);
}

// The element as a T, in which the evaluator computes; false where the dtype does not hold it.
template <class T>
bool convert(const Json& leaf, DType dtype, T& to) {
  if (leaf.is_boolean()) return to = static_cast<T>(leaf.get<bool>()), true;
  if (!leaf.is_number()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    return to = leaf.get<T>(), true;
  } else {
    if (leaf.is_number_float()) return false;
    const int bits = count_bits(dtype);
    if (leaf.is_number_unsigned()) {
      const auto value = leaf.get<uint64_t>();
      return to = static_cast<T>(value), bits == 64 || value >> bits == 0;
    }
    const auto value = leaf.get<int64_t>();  // negative
    return to = static_cast<T>(value), std::is_signed_v<T> && value >> bits == -1;
  }
}

}  // namespace

Result<Tensor> tensor_of_json(const Json& json, DType dtype, const std::string& what) {
  const std::vector<int64_t> shape = find_shape(json);
  std::vector<const Json*> leaves;
  if (!collect(json, shape, leaves)) return refuse_json(what, "its lists are of unequal length or depth");
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(dtype, shape));
  const Json* wrong = nullptr;
  ir::visit_compute(dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < leaves.size() && wrong == nullptr; ++i) {
      T value{};
      if (!convert(*leaves[i], dtype, value)) wrong = leaves[i];
      ir::store_elements<T>(dtype, tensor.data(), static_cast<int64_t>(i), 1, 1, &value);
    }
  });
  if (wrong != nullptr) return refuse_json(what, fmt::format("{} is no {}", wrong->dump(), to_string(dtype)));
  return tensor;
}

Result<Json> read_json(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be opened", path));
  Json json = Json::parse(text.str(), nullptr, false);
  if (json.is_discarded()) return Status(StatusCode::invalid_argument, fmt::format("'{}' is no JSON", path));
  return json;
}

}  // namespace fusec::tool
