// SPDX-License-Identifier: Apache-2.0
// Parses `--shape` and `--input`, derives the symbol values and input shapes, and fills the inputs from files or with
// seeded random values.

#include "runtime/tool/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "ir/graph/limits.h"
#include "ir/ops/element.h"
#include "ir/ops/random.h"
#include "ir/support/hash.h"
#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

Status bad(std::string message) { return Status(StatusCode::invalid_argument, std::move(message)); }

const TensorInfo* find_input(const Model& model, const std::string& name) {
  auto it = std::find_if(model.inputs.begin(), model.inputs.end(), [&](const TensorInfo& i) { return i.name == name; });
  return it == model.inputs.end() ? nullptr : &*it;
}

bool has_symbol(const Model& model, const std::string& name) {
  return std::find(model.symbols.begin(), model.symbols.end(), name) != model.symbols.end();
}

std::string join_names(const Model& model) {
  std::string out;
  for (const TensorInfo& input : model.inputs) out += (out.empty() ? "" : ", ") + input.name;
  return out.empty() ? "none" : out;
}

}  // namespace

Result<Assignment> parse_assignment(const std::string& flag, const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) return bad(fmt::format("{} '{}' is not NAME=VALUE", flag, text));
  return Assignment{text.substr(0, at), text.substr(at + 1)};
}

namespace {

// An array of numpy's as an input, whose dtype it must have.
Result<Tensor> fit_array(const TensorInfo& info, const Tensor& data, const std::string& path) {
  return as_dtype(data, info.dtype, fmt::format("'{}' for input '{}'", path, info.name));
}

Result<Tensor> fit_json(const TensorInfo& info, const Json& json, const std::string& path) {
  return tensor_of_json(json, info.dtype, fmt::format("'{}' for input '{}'", path, info.name));
}

// A file of one tensor, or of many, of which that with the name of the input is meant.
Result<Tensor> read_input_file(const TensorInfo& info, const std::string& path) {
  if (path.ends_with(".npz")) {
    FUSEC_ASSIGN(const auto arrays, read_npz(path));
    const auto found = arrays.find(info.name);
    if (found == arrays.end()) return bad(fmt::format("'{}' has no array '{}'", path, info.name));
    return fit_array(info, found->second, path);
  }
  if (path.ends_with(".json")) {
    FUSEC_ASSIGN(const Json json, read_json(path));
    if (!json.is_object()) return fit_json(info, json, path);
    if (!json.contains(info.name)) return bad(fmt::format("'{}' has no key '{}'", path, info.name));
    return fit_json(info, json[info.name], path);
  }
  FUSEC_ASSIGN(const Tensor data, read_npy(path));
  return fit_array(info, data, path);
}

Result<InputSpec> parse_spec(const TensorInfo& info, const std::string& text) {
  InputSpec spec;
  if (text.starts_with("@")) {
    spec.kind = InputSpec::Kind::file;
    FUSEC_ASSIGN(spec.data, read_input_file(info, text.substr(1)));
  } else if (text == "zeros" || text == "ones") {
    spec.kind = text == "zeros" ? InputSpec::Kind::zeros : InputSpec::Kind::ones;
  } else if (text.starts_with("random:")) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + 7, end, spec.seed);
    if (error != std::errc() || rest != end) return bad(fmt::format("--input {}: '{}' has no seed", info.name, text));
  } else {
    return bad(fmt::format("--input {}: '{}' is none of @FILE (.npy, .npz, .json), random:SEED, zeros, ones", info.name,
                           text));
  }
  return spec;
}

Status parse_shape_flag(const Model& model, const std::string& text, Request& request) {
  FUSEC_ASSIGN(const Assignment a, parse_assignment("--shape", text));
  const bool is_symbol = has_symbol(model, a.name);
  const bool scalar = a.value.empty() || a.value == "scalar";
  FUSEC_ASSIGN(const TensorShape shape,
               scalar ? Result<TensorShape>(TensorShape()) : parse_integers(a.value, 'x', "--shape " + text));
  if (find_input(model, a.name) != nullptr) {
    request.shapes[a.name] = shape;
  } else if (is_symbol && shape.size() == 1) {
    request.symbols[a.name] = shape[0];
  } else {
    std::string symbols;
    for (const std::string& s : model.symbols) symbols += (symbols.empty() ? "" : ", ") + s;
    return bad(fmt::format("--shape {}: the model has no such input or symbol; inputs: {}; symbols: {}", text,
                           join_names(model), symbols.empty() ? "none" : symbols));
  }
  return {};
}

// Symbols that stand alone as an axis of `info` take the extents of `shape`; `givers` tells from where they have them.
Status bind_axes(const TensorInfo& info, const TensorShape& shape, Symbols& symbols,
                 std::map<std::string, std::string>& givers) {
  if (shape.size() != info.shape.size()) {
    return bad(fmt::format("input '{}' has {} axes {}, given are {}", info.name, info.shape.size(),
                           to_string(info.shape), shape_text(shape)));
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto symbol = info.shape[i].as_symbol();
    if (!symbol) continue;
    const auto [it, fresh] = symbols.emplace(*symbol, shape[i]);
    if (fresh) givers.emplace(*symbol, fmt::format("axis {} of input '{}'", i, info.name));
    if (it->second != shape[i]) {
      return bad(fmt::format("input '{}' axis {} is {}, but {} is {} by {}", info.name, i, shape[i], *symbol,
                             it->second, givers.at(*symbol)));
    }
  }
  return {};
}

Status check_given(const Model& model, const Symbols& symbols, const std::map<std::string, TensorShape>& given) {
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(model, symbols));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto it = given.find(model.inputs[i].name);
    if (it == given.end() || it->second == shapes[i]) continue;
    return bad(fmt::format("input '{}' is {} = {} here, given is {}", model.inputs[i].name,
                           to_string(model.inputs[i].shape), shape_text(shapes[i]), shape_text(it->second)));
  }
  return {};
}

template <class T>
void fill(Tensor& tensor, T value) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    ir::store_elements<T>(tensor.dtype(), tensor.data(), i, 1, 1, &value);
}

Result<Tensor> ones(DType dtype, const TensorShape& shape) {
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(dtype, shape));
  ir::visit_compute(dtype, [&]<class T>(T) { fill<T>(tensor, T(1)); });
  return tensor;
}

// Uniform over 0 ... limit-1.
Result<Tensor> indices(DType dtype, const TensorShape& shape, uint64_t seed, int64_t limit) {
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(dtype, shape));
  ir::visit_compute(dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        const T value =
            static_cast<T>(ir::mix64(ir::mix64(seed) + static_cast<uint64_t>(i)) % static_cast<uint64_t>(limit));
        ir::store_elements<T>(dtype, tensor.data(), i, 1, 1, &value);
      }
    }
  });
  return tensor;
}

// Spaces the seeds of adjacent inputs and samples far apart.
constexpr uint64_t kInputStride = 0x9e3779b97f4a7c15, kSampleStride = 0xd1b54a32d192ed03;

Result<Tensor> make_input(const TensorInfo& info, const InputSpec& spec, const TensorShape& shape, std::size_t ordinal,
                          std::optional<int64_t> limit) {
  const uint64_t seed = spec.seed + kInputStride * ordinal;
  switch (spec.kind) {
    case InputSpec::Kind::file:
      return spec.data;
    case InputSpec::Kind::zeros:
      return Tensor::make(info.dtype, shape);
    case InputSpec::Kind::ones:
      return ones(info.dtype, shape);
    case InputSpec::Kind::random:
      break;
  }
  if (limit) return indices(info.dtype, shape, seed, std::max<int64_t>(*limit, 1));
  return ir::random_tensor(info.dtype, shape, seed);
}

InputSpec spec_of(const Request& request, const TensorInfo& input) {
  const auto spec = request.inputs.find(input.name);
  return spec == request.inputs.end() ? InputSpec() : spec->second;
}

// The smallest extent that the integer input indexes; nullopt: it indexes nothing.
std::optional<int64_t> index_limit(const TensorInfo& info, const Symbols& symbols) {
  std::optional<int64_t> least;
  for (const Dim& extent : info.indexed_extents) {
    const int64_t value = extent.eval(symbols).value_or(1);
    least = std::min(least.value_or(value), value);
  }
  return least;
}

}  // namespace

std::vector<std::string> shapes_of(const Model& model, const std::vector<std::string>& shapes) {
  std::vector<std::string> own;
  std::copy_if(shapes.begin(), shapes.end(), std::back_inserter(own), [&](const std::string& text) {
    const std::string name = text.substr(0, text.rfind('='));
    return find_input(model, name) != nullptr || has_symbol(model, name);
  });
  return own;
}

namespace {

// The whole set of --inputs. Names that the model lacks are refused, inputs that the file lacks are random.
Status add_input_set(const Model& model, const std::string& path, Request& request) {
  std::map<std::string, Tensor> arrays;
  Json json = Json::object();
  if (path.ends_with(".npz")) {
    FUSEC_ASSIGN(arrays, read_npz(path));
    for (const auto& [name, array] : arrays) json[name] = nullptr;
  } else if (path.ends_with(".json")) {
    FUSEC_ASSIGN(json, read_json(path));
    if (!json.is_object()) return bad(fmt::format("--inputs '{}' is no JSON object of inputs by name", path));
  } else {
    return bad(fmt::format("--inputs '{}' is neither .npz nor .json", path));
  }
  for (const auto& [name, value] : json.items()) {
    const TensorInfo* const info = find_input(model, name);
    if (info == nullptr)
      return bad(fmt::format("--inputs '{}': the model has no input '{}'; it has: {}", path, name, join_names(model)));
    const auto array = arrays.find(name);
    FUSEC_ASSIGN(Tensor data,
                 array != arrays.end() ? fit_array(*info, array->second, path) : fit_json(*info, value, path));
    InputSpec& spec = request.inputs[name];
    spec.kind = InputSpec::Kind::file;
    spec.data = std::move(data);
  }
  return {};
}

}  // namespace

Result<Request> parse_request(const Model& model, const ModelFlags& flags) {
  Request request;
  if (!flags.input_set.empty()) FUSEC_TRY(add_input_set(model, flags.input_set, request));
  for (const std::string& text : flags.shapes) FUSEC_TRY(parse_shape_flag(model, text, request));
  for (const std::string& text : flags.inputs) {
    FUSEC_ASSIGN(const Assignment a, parse_assignment("--input", text));
    const TensorInfo* info = find_input(model, a.name);
    if (info == nullptr) {
      return bad(fmt::format("--input {}: the model has no such input; it has: {}", a.name, join_names(model)));
    }
    FUSEC_ASSIGN(request.inputs[a.name], parse_spec(*info, a.value));
  }
  return request;
}

Result<std::string> batch_symbol(const Model& model) {
  for (const TensorInfo& input : model.inputs) {
    if (input.shape.empty()) continue;
    if (const auto symbol = input.shape[0].as_symbol()) return *symbol;
  }
  return bad("--batch: no input's first axis is a free symbol, so the batch is fixed");
}

Result<Symbols> solve_symbols(const Model& model, const Request& request, int64_t batch) {
  Symbols symbols = request.symbols;
  std::map<std::string, std::string> givers;
  for (const auto& [name, value] : symbols) givers[name] = "--shape";
  if (batch > 0) {
    FUSEC_ASSIGN(const std::string name, batch_symbol(model));
    symbols[name] = batch;
    givers[name] = "--batch";
  }
  std::map<std::string, TensorShape> given = request.shapes;
  for (const auto& [name, spec] : request.inputs) {
    if (spec.kind == InputSpec::Kind::file) given[name] = spec.data.shape();
  }
  for (const auto& [name, shape] : given) FUSEC_TRY(bind_axes(*find_input(model, name), shape, symbols, givers));
  for (const std::string& name : model.symbols) {
    const auto known = model.ranges.find(name);
    const ExtentRange range = known == model.ranges.end() ? ExtentRange() : known->second;
    const int64_t value = symbols.emplace(name, std::clamp<int64_t>(1, range.least, range.most)).first->second;
    if (value < range.least || value > range.most)
      return bad(fmt::format("the symbol {} must be {}, given is {}", name, ir::range_text(range), value));
  }
  FUSEC_TRY(check_given(model, symbols, given));
  return symbols;
}

Result<std::vector<TensorShape>> input_shapes(const Model& model, const Symbols& symbols) {
  std::vector<TensorShape> shapes;
  for (const TensorInfo& input : model.inputs) {
    TensorShape shape;
    for (const Dim& extent : input.shape) {
      const auto value = extent.eval(symbols);
      if (!value || *value < 0) {
        return bad(fmt::format("input '{}': the extent {} has no value at {}; set its symbols by --shape", input.name,
                               extent.str(), symbols_text(symbols)));
      }
      shape.push_back(*value);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

bool has_random_inputs(const Model& model, const Request& request) {
  return std::any_of(model.inputs.begin(), model.inputs.end(),
                     [&](const TensorInfo& input) { return spec_of(request, input).kind == InputSpec::Kind::random; });
}

Result<std::vector<Tensor>> make_inputs(const Model& model, const Request& request, const Symbols& symbols) {
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(model, symbols));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    InputSpec spec = spec_of(request, model.inputs[i]);
    spec.seed += kSampleStride * request.sample;
    FUSEC_ASSIGN(Tensor input, make_input(model.inputs[i], spec, shapes[i], i, index_limit(model.inputs[i], symbols)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace fusec::tool
