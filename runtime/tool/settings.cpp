// SPDX-License-Identifier: Apache-2.0
// Finds values of flags in environment variables and in the lines of a configuration, and looks for variables that are
// misspelled. Variables that were there before flags could be set so keep their meaning.

#include "runtime/tool/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "runtime/tool/flags.h"

namespace fusec::tool {
namespace {

constexpr std::string_view kPrefix = "FUSEC_";

struct OlderVariable {
  const char* name;
  bool is_flag;  // it means what the flag of its name does
};
constexpr OlderVariable kOlder[] = {
    {"FUSEC_CACHE_DIR", true},      {"FUSEC_SHARED_CACHE_DIR", true}, {"FUSEC_CACHE_SERVER", true},
    {"FUSEC_CACHE_SECRET", false},  {"FUSEC_CACHE_PASSWORD", false},  {"FUSEC_SHARD", false},
    {"FUSEC_CUDA_HOME", false},     {"FUSEC_HIDE_LIBRARIES", false},  {"FUSEC_LIBRARY", false},
    {"FUSEC_JOBS", false},          {"FUSEC_BLESS", false},           {"FUSEC_BUILD", false},
    {"FUSEC_CUDA_EMULATION", false}};

// To trust a package is said of that package, each time: what sets it for all would undo the check.
constexpr const char* kSaidEachTime = "--trust";

const OlderVariable* find_older(const std::string& name) {
  const auto found =
      std::find_if(std::begin(kOlder), std::end(kOlder), [&](const OlderVariable& v) { return name == v.name; });
  return found == std::end(kOlder) ? nullptr : &*found;
}

std::map<std::string, std::string> read_variables(const char* const* environment) {
  std::map<std::string, std::string> out;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view text = *environment;
    const std::size_t at = text.find('=');
    if (!text.starts_with(kPrefix) || at == std::string_view::npos) continue;
    out.emplace(text.substr(0, at), text.substr(at + 1));
  }
  return out;
}

std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ';');) out.push_back(part);
  return out;
}

// Letters to insert, leave out or replace to make one of the other.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Settings::Settings(const char* const* environment, std::vector<ConfigValue> config, std::string path)
    : variables_(read_variables(environment)), config_(std::move(config)), path_(std::move(path)) {}

std::optional<Setting> Settings::find(const std::string& command, const std::string& flag) const {
  if (flag == kSaidEachTime) return std::nullopt;
  const std::string variable = variable_of(flag);
  const OlderVariable* const older = find_older(variable);
  const auto set = variables_.find(variable);
  if (set != variables_.end() && !set->second.empty() && (older == nullptr || older->is_flag))
    return Setting{split_values(set->second), "environment " + variable, older != nullptr};
  for (const std::string& section : {command, std::string()}) {
    for (const ConfigValue& value : config_) {
      if (value.section == section && "--" + value.key == flag && value.values != std::vector<std::string>{""})
        return Setting{value.values, "config " + path_};
    }
  }
  return std::nullopt;
}

Status check_config(const std::string& path, const std::vector<ConfigValue>& config, const std::set<std::string>& flags,
                    const std::set<std::string>& commands) {
  for (const ConfigValue& value : config) {
    if (!value.section.empty() && !commands.contains(value.section)) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("--config '{}': [{}] is no command; see fusec --help", path, value.section));
    }
    if (value.key == "config" || value.key == "print-config" || "--" + value.key == kSaidEachTime ||
        !flags.contains("--" + value.key)) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("--config '{}': '{}' is no flag that a file can set", path, value.key));
    }
  }
  return {};
}

std::vector<std::string> misspelled_variables(const char* const* environment, const std::set<std::string>& flags,
                                              bool complete) {
  std::set<std::string> known;
  for (const std::string& flag : flags)
    if (flag != kSaidEachTime) known.insert(variable_of(flag));
  for (const OlderVariable& older : kOlder) known.insert(older.name);
  std::vector<std::string> warnings;
  for (const auto& [name, value] : read_variables(environment)) {
    if (known.contains(name)) continue;
    if (name == variable_of(kSaidEachTime)) {
      warnings.push_back(
          fmt::format("the environment variable {} means nothing: give {} with the command", name, kSaidEachTime));
      continue;
    }
    const std::size_t most = complete && name.size() > kPrefix.size() + 5 ? 2 : 1;
    for (const std::string& other : known) {
      if (edit_distance(name, other) > most) continue;
      warnings.push_back(fmt::format("the environment variable {} means nothing; is {} meant?", name, other));
      break;
    }
  }
  return warnings;
}

}  // namespace fusec::tool
