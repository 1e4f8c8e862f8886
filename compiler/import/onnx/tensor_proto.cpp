// SPDX-License-Identifier: Apache-2.0
// Reads the contents of ONNX tensors in the import stage, from inline fields, external files or random numbers. Sizes
// come from an untrusted file, so they are checked before memory is allocated.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/proto.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

using proto::TensorProto;

struct TypePair {
  int onnx;
  DType dtype;
};
constexpr TypePair kTypes[] = {
    {TensorProto::FLOAT, DType::f32},     {TensorProto::UINT8, DType::u8},   {TensorProto::INT8, DType::i8},
    {TensorProto::UINT16, DType::u16},    {TensorProto::INT16, DType::i16},  {TensorProto::INT32, DType::i32},
    {TensorProto::INT64, DType::i64},     {TensorProto::BOOL, DType::bool_}, {TensorProto::FLOAT16, DType::f16},
    {TensorProto::DOUBLE, DType::f64},    {TensorProto::UINT32, DType::u32}, {TensorProto::UINT64, DType::u64},
    {TensorProto::BFLOAT16, DType::bf16},
};

// The byte range of external data.
struct External {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

// The extents must have passed checked_extents. Next to a zero, the others may be arbitrarily large.
int64_t byte_count(DType dtype, const std::vector<int64_t>& extents) {
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
  return std::accumulate(extents.begin(), extents.end(), static_cast<int64_t>(size_of(dtype)), std::multiplies<>());
}

int64_t parse_count(const std::string& key, const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail_invalid(fmt::format("external data has {} = '{}', not a count of bytes", key, short_name(text)));
  }
  return value;
}

External parse_external(const TensorProto& tensor) {
  External external;
  std::set<std::string> seen;
  for (const auto& entry : tensor.external_data()) {
    if (!seen.insert(entry.key()).second)
      fail_invalid(fmt::format("external data has the key '{}' twice", short_name(entry.key())));
    if (entry.key() == "location") {
      external.location = entry.value();
    } else if (entry.key() == "offset") {
      external.offset = parse_count("offset", entry.value());
    } else if (entry.key() == "length") {
      external.length = parse_count("length", entry.value());
    } else if (entry.key() != "checksum") {
      fail_unsupported(fmt::format("external data has an unknown key '{}'", short_name(entry.key())));
    }
  }
  return external;
}

// Opens the file under the first root that has it; nullopt when none has.
std::optional<File> find_external(const std::string& location, const ImportOptions& options) {
  std::vector<std::string> roots = options.external_roots;
  if (!options.model_dir.empty()) roots.insert(roots.begin(), options.model_dir);
  for (const std::string& root : roots) {
    Result<File> file = open_beneath(root, location);
    if (file.ok()) return std::move(file).value();
    if (file.status().code() == StatusCode::invalid_model) throw ImportError{file.status()};
  }
  return std::nullopt;
}

// Memory is allocated only after the file is known to hold the data.
Tensor read_external(const TensorProto& proto, std::vector<int64_t> extents, const TensorSource& source) {
  const External external = parse_external(proto);
  const DType dtype = to_dtype(proto.data_type());
  const int64_t bytes = byte_count(dtype, extents);
  if (external.length && *external.length != bytes) {
    fail_invalid(fmt::format("external data has length {}, but the tensor needs {} bytes", *external.length, bytes));
  }
  const std::optional<File> file = find_external(external.location, *source.options);
  if (!file) {
    const std::string name = short_name(external.location);
    if (!source.options->random_weights) {
      throw ImportError{
          Status(StatusCode::invalid_argument,
                 fmt::format("its external data file '{}' is not there (--random-weights SEED fills it)", name))};
    }
    Tensor tensor = make_tensor(dtype, std::move(extents));
    auto recipe = source.recipes.find(proto.name());
    fill_random(tensor, recipe == source.recipes.end() ? WeightDistribution() : recipe->second,
                *source.options->random_weights, proto.name());
    return tensor;
  }
  const int64_t size = take(file_size(*file));
  if (external.offset > size || bytes > size - external.offset) {
    fail_invalid(fmt::format("its data is at bytes {}+{} of '{}', which has only {}", external.offset, bytes,
                             short_name(external.location), size));
  }
  Tensor tensor = make_tensor(dtype, std::move(extents));
  check(read_exactly(*file, external.offset, tensor.data(), tensor.bytes()));
  return tensor;
}

// The number of data fields that are set.
int count_fields(const TensorProto& t) {
  return (t.has_raw_data() && !t.raw_data().empty()) + (t.float_data_size() > 0) + (t.int32_data_size() > 0) +
         (t.int64_data_size() > 0) + (t.double_data_size() > 0) + (t.uint64_data_size() > 0) +
         (t.string_data_size() > 0);
}

template <class Field>
void copy_field(const Field& field, Tensor& tensor, bool is_bits) {
  int64_t n = tensor.num_elements();
  if (field.size() != n) fail_invalid(fmt::format("it needs {} elements but has data for {}", n, field.size()));
  for (int64_t i = 0; i < n; ++i) {
    auto value = field.Get(static_cast<int>(i));
    if (is_bits) {
      auto bits = static_cast<uint16_t>(value);
      std::memcpy(static_cast<char*>(tensor.data()) + 2 * i, &bits, 2);
    } else if constexpr (std::is_floating_point_v<decltype(value)>) {
      store_f64(tensor, i, value);
    } else {
      store_i64(tensor, i, static_cast<int64_t>(value));
    }
  }
}

void copy_typed(const TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return copy_field(proto.float_data(), tensor, false);
    case DType::f64:
      return copy_field(proto.double_data(), tensor, false);
    case DType::i64:
      return copy_field(proto.int64_data(), tensor, false);
    case DType::u32:
    case DType::u64:
      return copy_field(proto.uint64_data(), tensor, false);
    case DType::f16:
    case DType::bf16:
      return copy_field(proto.int32_data(), tensor, true);
    default:
      return copy_field(proto.int32_data(), tensor, false);
  }
}

void copy_raw(const std::string& raw, Tensor& tensor) {
  if (raw.size() != tensor.bytes()) {
    fail_invalid(fmt::format("it needs {} bytes but raw_data has {}", tensor.bytes(), raw.size()));
  }
  if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());
}

Tensor read_inline(const TensorProto& proto, std::vector<int64_t> extents) {
  const DType dtype = to_dtype(proto.data_type());
  // The data must be present before memory is allocated for it.
  const int64_t n = byte_count(dtype, extents) / static_cast<int64_t>(size_of(dtype));
  if (n > 0 && count_fields(proto) == 0) fail_invalid(fmt::format("it needs {} elements but has no data", n));
  if (count_fields(proto) > 1) fail_invalid("more than one of its data fields is set");
  if (static_cast<int64_t>(proto.ByteSizeLong()) < n / 8)
    fail_invalid(fmt::format("it has data for less than {} elements", n));
  Tensor tensor = make_tensor(dtype, std::move(extents));
  if (proto.has_raw_data()) {
    copy_raw(proto.raw_data(), tensor);
  } else {
    copy_typed(proto, tensor);
  }
  return tensor;
}

}  // namespace

DType to_dtype(int64_t onnx_type) {
  for (const TypePair& pair : kTypes) {
    if (pair.onnx == onnx_type) return pair.dtype;
  }
  const bool is_int = onnx_type == static_cast<int>(onnx_type);
  if (!is_int || !TensorProto::DataType_IsValid(static_cast<int>(onnx_type)) || onnx_type == TensorProto::UNDEFINED) {
    fail_invalid(fmt::format("element type {} does not exist", onnx_type));
  }
  fail_unsupported(
      fmt::format("element type {}", TensorProto::DataType_Name(static_cast<TensorProto::DataType>(onnx_type))));
}

int from_dtype(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.onnx;
  }
  return TensorProto::UNDEFINED;
}

std::vector<int64_t> checked_extents(const TensorProto& tensor, const ImportLimits& limits) {
  if (tensor.dims_size() > limits.rank) {
    fail_limit(fmt::format("it has {} axes, more than the limit rank = {}", tensor.dims_size(), limits.rank));
  }
  auto bytes = static_cast<int64_t>(size_of(to_dtype(tensor.data_type())));
  bool too_large = false, empty = false;
  for (int64_t extent : tensor.dims()) {
    if (extent < 0) fail_invalid(fmt::format("it has a negative extent {}", extent));
    empty |= extent == 0;
    too_large |= __builtin_mul_overflow(bytes, extent, &bytes);
  }
  if (!empty && (too_large || bytes > limits.tensor_bytes)) {
    fail_limit(fmt::format("it is larger than the limit tensor_bytes = {}", limits.tensor_bytes));
  }
  return {tensor.dims().begin(), tensor.dims().end()};
}

Tensor read_tensor(const TensorProto& proto, const TensorSource& source) {
  try {
    std::vector<int64_t> extents = checked_extents(proto, source.options->limits);
    if (proto.has_segment()) fail_unsupported("a tensor stored in segments");
    const bool is_external = proto.data_location() == TensorProto::EXTERNAL;
    if (is_external && count_fields(proto) != 0) fail_invalid("it has both external and inline data");
    Tensor tensor =
        is_external ? read_external(proto, std::move(extents), source) : read_inline(proto, std::move(extents));
    if (tensor.dtype() == DType::bool_) {
      for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.as<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
    }
    return tensor;
  } catch (ImportError& error) {
    add_note(error, fmt::format("in tensor '{}'", short_name(proto.name())));
    throw;
  }
}

}  // namespace fusec::importer
