// SPDX-License-Identifier: Apache-2.0
// Reads the interface of a model, and finds the symbol along which requests can be joined.

#include "bindings/triton/interface.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fusec::triton {
namespace {

using Json = nlohmann::json;

struct TypeRow {
  const char *dtype, *name;
  TRITONSERVER_DataType type;
  fusec_dtype c;
};
constexpr TypeRow kTypes[] = {
    {"bool", "TYPE_BOOL", TRITONSERVER_TYPE_BOOL, {FUSEC_DTYPE_BOOL, 8, 1}},
    {"u8", "TYPE_UINT8", TRITONSERVER_TYPE_UINT8, {FUSEC_DTYPE_UINT, 8, 1}},
    {"u16", "TYPE_UINT16", TRITONSERVER_TYPE_UINT16, {FUSEC_DTYPE_UINT, 16, 1}},
    {"u32", "TYPE_UINT32", TRITONSERVER_TYPE_UINT32, {FUSEC_DTYPE_UINT, 32, 1}},
    {"u64", "TYPE_UINT64", TRITONSERVER_TYPE_UINT64, {FUSEC_DTYPE_UINT, 64, 1}},
    {"i8", "TYPE_INT8", TRITONSERVER_TYPE_INT8, {FUSEC_DTYPE_INT, 8, 1}},
    {"i16", "TYPE_INT16", TRITONSERVER_TYPE_INT16, {FUSEC_DTYPE_INT, 16, 1}},
    {"i32", "TYPE_INT32", TRITONSERVER_TYPE_INT32, {FUSEC_DTYPE_INT, 32, 1}},
    {"i64", "TYPE_INT64", TRITONSERVER_TYPE_INT64, {FUSEC_DTYPE_INT, 64, 1}},
    {"f16", "TYPE_FP16", TRITONSERVER_TYPE_FP16, {FUSEC_DTYPE_FLOAT, 16, 1}},
    {"f32", "TYPE_FP32", TRITONSERVER_TYPE_FP32, {FUSEC_DTYPE_FLOAT, 32, 1}},
    {"f64", "TYPE_FP64", TRITONSERVER_TYPE_FP64, {FUSEC_DTYPE_FLOAT, 64, 1}},
    {"bf16", "TYPE_BF16", TRITONSERVER_TYPE_BF16, {FUSEC_DTYPE_BFLOAT, 16, 1}},
};

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

// Whether the text of an extent names the symbol.
bool mentions(const std::string& extent, const std::string& symbol) {
  for (std::size_t at = extent.find(symbol); at != std::string::npos; at = extent.find(symbol, at + 1)) {
    const std::size_t end = at + symbol.size();
    const bool begins = at == 0 || !is_name_character(extent[at - 1]);
    if (begins && (end == extent.size() || !is_name_character(extent[end]))) return true;
  }
  return false;
}

Error read_tensors(const Json& list, std::vector<TensorInfo>& out) {
  for (const Json& item : list) {
    TensorInfo info;
    info.name = item.value("name", "");
    const std::string dtype = item.value("dtype", "");
    const auto* const row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.dtype == dtype; });
    if (row == std::end(kTypes))
      return make_error(TRITONSERVER_ERROR_UNSUPPORTED,
                        "'" + info.name + "' is of type " + dtype + ", which Triton lacks");
    info.dtype = row->c, info.type = row->type, info.type_name = row->name;
    for (const Json& extent : item["shape"])
      info.extents.push_back(extent.is_string() ? extent.get<std::string>() : extent.dump());
    out.push_back(std::move(info));
  }
  return nullptr;
}

bool is_batch(const std::string& symbol, const std::vector<TensorInfo>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) {
    return !t.extents.empty() && t.extents[0] == symbol &&
           std::none_of(t.extents.begin() + 1, t.extents.end(),
                        [&](const std::string& extent) { return mentions(extent, symbol); });
  });
}

}  // namespace

int64_t extent_or_any(const std::string& extent) {
  const bool is_number = !extent.empty() && std::all_of(extent.begin(), extent.end(),
                                                        [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? std::stoll(extent) : -1;
}

Error read_interface(const char* document, Interface& out) {
  const Json io = Json::parse(document, nullptr, false);
  if (!io.is_object()) return make_error(TRITONSERVER_ERROR_INTERNAL, "the interface of the model is no JSON object");
  FUSEC_TRITON_TRY(read_tensors(io["inputs"], out.inputs));
  FUSEC_TRITON_TRY(read_tensors(io["outputs"], out.outputs));
  for (const Json& item : io["symbols"]) {
    const std::string symbol = item.get<std::string>();
    if (!out.inputs.empty() && is_batch(symbol, out.inputs) && is_batch(symbol, out.outputs)) out.batch = symbol;
  }
  for (const Json& range : io.value("ranges", Json::array()))
    if (range["extent"] == out.batch && range["most"].is_number()) out.most = range["most"].get<int64_t>();
  return nullptr;
}

}  // namespace fusec::triton
