// SPDX-License-Identifier: Apache-2.0
// Values of flags that the command line does not give: from environment variables, then from the file of --config.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

// One line of the file. section: a command, or "" at the top.
struct ConfigValue {
  std::string section, key;  // the key is a flag without dashes
  std::vector<std::string> values;
};

struct Setting {
  std::vector<std::string> values;
  std::string from;                // "environment FUSEC_DEVICE", "config f.toml"
  bool is_read_elsewhere = false;  // the variable is older than its flag, and what it sets reads it
};

class Settings {
 public:
  // environment: NAME=VALUE, ended by null.
  Settings(const char* const* environment, std::vector<ConfigValue> config, std::string path);
  // Of a flag ("--device") of a command. In a variable ';' stands between several values; an empty one is none.
  std::optional<Setting> find(const std::string& command, const std::string& flag) const;

 private:
  std::map<std::string, std::string> variables_;
  std::vector<ConfigValue> config_;
  std::string path_;
};

// invalid_argument: a section that is no command, or a key that is no flag.
Status check_config(const std::string& path, const std::vector<ConfigValue>& config, const std::set<std::string>& flags,
                    const std::set<std::string>& commands);

// A line for each variable that begins with FUSEC_, has no meaning, and differs from one that has in a letter or two.
// complete: `flags` are those of all commands; otherwise only a single letter is taken for a mistake.
std::vector<std::string> misspelled_variables(const char* const* environment, const std::set<std::string>& flags,
                                              bool complete);

}  // namespace fusec::tool
