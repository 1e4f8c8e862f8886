// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/import_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <vector>

#include "ir/graph/limits.h"
#include "ir/ops/element.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/io/tensor_file.h"
#if FUSEC_WITH_ONNX
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#endif

namespace fusec::tool {
namespace {

Status refuse(std::string message) { return Status(StatusCode::invalid_argument, std::move(message)); }

// Of texts NAME=VALUE, each name once.
template <class T, class Parse>
Result<std::map<std::string, T>> parse_list(const char* flag, const std::vector<std::string>& texts,
                                            const Parse& parse) {
  std::map<std::string, T> out;
  for (const std::string& text : texts) {
    FUSEC_ASSIGN(const Assignment given, parse_assignment(flag, text));
    FUSEC_ASSIGN(T value, parse(given));
    if (!out.emplace(given.name, std::move(value)).second)
      return refuse(fmt::format("{} {}: '{}' is given twice", flag, text, given.name));
  }
  return out;
}

}  // namespace

Result<std::map<std::string, ExtentRange>> parse_ranges(const ModelFlags& flags) {
  return parse_list<ExtentRange>("--range", flags.ranges, [](const Assignment& given) -> Result<ExtentRange> {
    if (const auto range = ir::parse_range(given.value)) return *range;
    return refuse(
        fmt::format("--range {}={} is no range: give the smallest value, the largest or both, as 1:64, :64 or "
                    "2:",
                    given.name, given.value));
  });
}

Status apply_import_flags(const ModelFlags& flags, ir::Graph& graph) {
  for (const auto& [flag, given] : {std::pair("--fix", &flags.fixes), {"--constant", &flags.constants}}) {
    if (given->empty()) continue;
    return refuse(
        fmt::format("{} is for ONNX models: write what {} says into the text of the graph", flag, given->front()));
  }
  FUSEC_ASSIGN(const auto ranges, parse_ranges(flags));
  for (const auto& [name, range] : ranges) {
    if (std::find(graph.symbols.begin(), graph.symbols.end(), name) == graph.symbols.end()) {
      return refuse(fmt::format("--range {}: the graph has no such symbol; it has: {}", name,
                                graph.symbols.empty() ? "none" : fmt::format("{}", fmt::join(graph.symbols, ", "))));
    }
    ExtentRange& own = graph.limits[Dim::symbol(name)];
    const ExtentRange both{std::max(own.least, range.least), std::min(own.most, range.most)};
    if (both.least > both.most) {
      return refuse(
          fmt::format("--range {}: the graph lets the symbol be {}, so no value is left", name, ir::range_text(own)));
    }
    own = both;
  }
  return {};
}

#if FUSEC_WITH_ONNX
namespace {

using Input = importer::ModelSummary::Input;

Result<Tensor> listed_tensor(const Input& input, const std::string& text) {
  std::vector<std::string> parts = split(text, ',');
  for (std::string& part : parts)
    if (input.dtype == DType::bool_ && (part == "true" || part == "false")) part = part == "true" ? "1" : "0";
  const Status wrong =
      refuse(fmt::format("--constant {}={}: a {} input takes @file.npy, or numbers of it separated by commas",
                         input.name, text, to_string(*input.dtype)));
  if (parts.empty()) return wrong;
  if (input.rank.value_or(1) > 1 || (input.rank == 0 && parts.size() > 1)) {
    return refuse(fmt::format("--constant {}={}: the input has {} axes; give its contents as @file.npy", input.name,
                              text, *input.rank));
  }
  const std::vector<int64_t> shape(input.rank == 0 ? 0 : 1, static_cast<int64_t>(parts.size()));
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(*input.dtype, shape));
  const bool fits = ir::visit_compute(*input.dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      T value{}, stored{};
      const char* const end = parts[i].data() + parts[i].size();
      const auto [rest, error] = std::from_chars(parts[i].data(), end, value);
      if (error != std::errc() || rest != end) return false;
      ir::store_elements<T>(*input.dtype, tensor.data(), static_cast<int64_t>(i), 1, 1, &value);
      ir::load_elements<T>(*input.dtype, tensor.data(), static_cast<int64_t>(i), 1, 1, &stored);
      if (!is_float(*input.dtype) && stored != value) return false;
    }
    return true;
  });
  if (!fits) return wrong;
  return tensor;
}

Result<Tensor> parse_constant(const std::vector<Input>& inputs, const Assignment& given) {
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Input& i) { return i.name == given.name; });
  if (input == inputs.end()) {
    std::vector<std::string> names;
    std::transform(inputs.begin(), inputs.end(), std::back_inserter(names), [](const Input& i) { return i.name; });
    return refuse(fmt::format("--constant {}: the model has no such input; it has: {}", given.name,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (!input->dtype) return refuse(fmt::format("--constant {}: the input is no tensor", given.name));
  if (!given.value.starts_with("@")) return listed_tensor(*input, given.value);
  const std::string path = given.value.substr(1);
  FUSEC_ASSIGN(const Tensor data, read_tensor_file(path));
  return as_dtype(data, *input->dtype, fmt::format("'{}' for input '{}'", path, given.name));
}

}  // namespace

Status apply_import_flags(const std::string& path, const ModelFlags& flags, ImportOptions& options) {
  FUSEC_ASSIGN(options.ranges, parse_ranges(flags));
  FUSEC_ASSIGN(options.symbols,
               parse_list<int64_t>("--fix", flags.fixes, [](const Assignment& given) -> Result<int64_t> {
                 if (const auto extent = ir::parse_extent(given.value)) return *extent;
                 return refuse(fmt::format("--fix {}={}: '{}' is no extent, which is a whole number of at least 0",
                                           given.name, given.value, given.value));
               }));
  if (flags.constants.empty()) return {};
  FUSEC_ASSIGN(const std::vector<uint8_t> bytes, importer::read_file(path, options.limits.model_bytes));
  FUSEC_ASSIGN(const importer::ModelSummary summary, importer::summarize(bytes, options.limits));
  FUSEC_ASSIGN(options.constants, parse_list<Tensor>("--constant", flags.constants, [&](const Assignment& given) {
                 return parse_constant(summary.inputs, given);
               }));
  return {};
}

Status name_flag(const ModelFlags& flags, const Status& error) {
  if (error.code() != StatusCode::invalid_argument) return error;
  for (const auto& [flag, texts] :
       {std::pair("--fix", &flags.fixes), {"--range", &flags.ranges}, {"--constant", &flags.constants}}) {
    for (const std::string& text : *texts) {
      const std::string name = "'" + text.substr(0, text.rfind('=')) + "'";
      if (error.str().find(name) == std::string::npos) continue;
      Status named(error.code(), fmt::format("{} {}: {}", flag, text, error.message()));
      for (const std::string& note : error.notes()) named = std::move(named).with_note(note);
      return named;
    }
  }
  return error;
}
#endif

}  // namespace fusec::tool
