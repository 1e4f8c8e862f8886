// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run into a folder, and reads such a folder.

#include "runtime/tool/value_files.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/text/graph_text.h"
#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLabel = 60;
constexpr const char* kIndex = "index.json";

bool is_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool matches(const std::string& pattern, const ValueInfo& info) {
  return pattern.empty() || fnmatch(pattern.c_str(), info.name.c_str(), 0) == 0 ||
         fnmatch(pattern.c_str(), info.origin.c_str(), 0) == 0;
}

Status bad_index(const std::string& dir, const std::string& what) {
  return Status(StatusCode::invalid_argument,
                fmt::format("'{}' is no folder of fusec run --dump-values: {}", dir, what));
}

std::string text_of(const Json& entry, const char* key) {
  const auto at = entry.find(key);
  return at != entry.end() && at->is_string() ? at->get<std::string>() : std::string();
}

Result<std::vector<StoredValue>> read_list(const std::string& dir, const Json& index, const char* key) {
  std::vector<StoredValue> out;
  const auto list = index.find(key);
  if (list == index.end() || !list->is_array()) return bad_index(dir, fmt::format("{} has no list '{}'", kIndex, key));
  for (const Json& entry : *list) {
    if (!entry.is_object()) return bad_index(dir, fmt::format("an entry of '{}' is no object", key));
    const std::string file = text_of(entry, "file");
    if (file.empty() || file.front() == '.' || file.find('/') != std::string::npos)
      return bad_index(dir, fmt::format("{} names a file outside of it", kIndex));
    out.push_back({text_of(entry, "value"), text_of(entry, "origin"), text_of(entry, "key"), text_of(entry, "own_key"),
                   (fs::path(dir) / file).string()});
  }
  return out;
}

}  // namespace

std::string value_file_name(std::size_t number, const std::string& label) {
  std::string safe;
  for (const char c : label) {
    if (safe.size() == kLongestLabel) break;
    if (is_safe(c)) {
      safe += c;
    } else if (!safe.empty() && safe.back() != '_') {
      safe += '_';
    }
  }
  return fmt::format("{:04}{}{}.npy", number, safe.empty() ? "" : "-", safe);
}

std::string hash_of(const Tensor& tensor) {
  return tensor.is_contiguous() ? fmt::format("{:016x}", ir::content_hash(tensor)) : std::string();
}

Result<ValueFiles> ValueFiles::make(const std::string& dir, const std::string& match) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error)
    return Status(StatusCode::invalid_argument,
                  fmt::format("--dump-values: the folder '{}' cannot be made: {}", dir, error.message()));
  return ValueFiles(dir, match);
}

Status ValueFiles::add(const ValueInfo& info, const Tensor& value) {
  if (!matches(match_, info)) return {};
  const std::string file = value_file_name(list_.size(), info.origin.empty() ? info.name : info.origin);
  FUSEC_TRY(write_npy((fs::path(dir_) / file).string(), value));
  list_.push_back({{"file", file},
                   {"value", info.name},
                   {"origin", info.origin},
                   {"op", info.op},
                   {"dtype", to_string(value.dtype())},
                   {"shape", value.shape()},
                   {"region", info.region},
                   {"step", info.step},
                   {"kernel", info.kernel},
                   {"key", info.key},
                   {"own_key", info.own_key}});
  return {};
}

Status ValueFiles::finish(const ValueRun& run, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  Json given = Json::array(), made = Json::array();
  const Engine& engine = run.engine();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given.push_back({{"value", engine.inputs()[i].name}, {"hash", hash_of(inputs[i])}});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string file = fmt::format("output-{}.npy", i);
    FUSEC_TRY(write_npy((fs::path(dir_) / file).string(), outputs[i]));
    made.push_back({{"file", file}, {"value", engine.outputs()[i].name}});
  }
  const Json index = {{"runs_on", runs_on(engine)},
                      {"nodes", run.nodes()},
                      {"nodes_inside_regions", run.nodes_inside_regions()},
                      {"inputs", given},
                      {"outputs", made},
                      {"values", list_}};
  const std::string path = (fs::path(dir_) / kIndex).string();
  std::ofstream out(path);
  out << index.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be written", path));
  return {};
}

Result<StoredValues> read_value_index(const std::string& dir) {
  std::ifstream in(fs::path(dir) / kIndex);
  if (!in) return bad_index(dir, fmt::format("it has no {}", kIndex));
  std::ostringstream text;
  text << in.rdbuf();
  const Json index = Json::parse(text.str(), nullptr, false);
  if (!index.is_object()) return bad_index(dir, fmt::format("{} is no JSON object", kIndex));
  StoredValues stored;
  FUSEC_ASSIGN(stored.values, read_list(dir, index, "values"));
  FUSEC_ASSIGN(stored.outputs, read_list(dir, index, "outputs"));
  if (const auto given = index.find("inputs"); given != index.end() && given->is_array()) {
    for (const Json& entry : *given)
      if (entry.is_object()) stored.input_hashes[text_of(entry, "value")] = text_of(entry, "hash");
  }
  return stored;
}

}  // namespace fusec::tool
