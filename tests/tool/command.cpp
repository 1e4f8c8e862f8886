// SPDX-License-Identifier: Apache-2.0
#include "tests/tool/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fusec::tool_test {
namespace {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::set<std::string> Workplace::measured_rows(const std::string& database) const {
  std::set<std::string> keys;
  const nlohmann::json listed = fusec({"tune", "--list", "--json", "--tuning-db", path(database)}).json();
  for (const nlohmann::json& row : listed["rows"]) {
    if (row["library"] != "model")
      keys.insert(row["call"].get<std::string>() + row["library"].get<std::string>() +
                  row["choice"].get<std::string>());
  }
  return keys;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Workplace::Workplace() {
  std::string name = (std::filesystem::temp_directory_path() / "fusec_tool_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  dir_ = name;
}

Workplace::~Workplace() { std::filesystem::remove_all(dir_); }

Outcome Workplace::fusec(const std::vector<std::string>& arguments, int seconds, const std::string& set) const {
  const std::string limit = seconds > 0 ? "timeout -k 1 " + std::to_string(seconds) + " " : "";
  std::string line = "FUSEC_CACHE_DIR=" + quoted(path("cache")) + " OMP_NUM_THREADS=2 " + set + " " + limit;
  line += quoted(FUSEC_TOOL);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += " >" + quoted(path("stdout")) + " 2>" + quoted(path("stderr"));
  const int state = std::system(line.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  outcome.out = read_text(path("stdout"));
  outcome.err = read_text(path("stderr"));
  return outcome;
}

std::string Workplace::file(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

}  // namespace fusec::tool_test
