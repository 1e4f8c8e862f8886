// SPDX-License-Identifier: Apache-2.0
// Runs the fusec command in a folder of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace fusec::tool_test {

struct Outcome {
  int code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// A temporary folder that goes with the object; it holds the kernel cache of the commands too.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  // Past so many seconds (0: no limit) the command is ended, with code 124. `set`: NAME=VALUE, over what is set for it
  // otherwise.
  Outcome fusec(const std::vector<std::string>& arguments, int seconds = 0, const std::string& set = {}) const;
  // Writes a file and answers its path.
  std::string file(const std::string& name, const std::string& text) const;
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  // The calls and choices that a tuning database of the folder has measured.
  std::set<std::string> measured_rows(const std::string& database) const;

 private:
  std::string dir_;
};

std::string read_text(const std::string& path);

}  // namespace fusec::tool_test
