// SPDX-License-Identifier: Apache-2.0
// Runs every tests/text/**/*.fir. A file is a line "test <command> <args>", the input, a line "====", and the exact
// output expected. With FUSEC_BLESS=1 the output is written into the file instead of compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/text/commands.h"

namespace fusec::text_test {
namespace {

namespace fs = std::filesystem;

fs::path root() { return fs::path(FUSEC_SOURCE_DIR) / "tests" / "text"; }

std::vector<std::string> all_cases() {
  std::vector<std::string> cases;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root())) {
    if (entry.path().extension() == ".fir") cases.push_back(fs::relative(entry.path(), root()).string());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Case {
  std::string head;  // the command line and the input, up to the separator
  std::string command, args, input, expected;
};

constexpr std::string_view kSeparator = "\n====\n";

Case split(const std::string& text) {
  Case c;
  const std::size_t line_end = std::min(text.find('\n'), text.size());
  const std::size_t separator = std::min(text.find(kSeparator), text.size());
  std::string line = text.substr(0, line_end);
  if (line.rfind("test ", 0) != 0) return c;
  line.erase(0, 5);
  const std::size_t space = std::min(line.find(' '), line.size());
  c.command = line.substr(0, space);
  c.args = line.substr(std::min(space + 1, line.size()));
  c.head = text.substr(0, separator);
  if (separator > line_end) c.input = text.substr(line_end + 1, separator - line_end);
  if (separator < text.size()) c.expected = text.substr(separator + kSeparator.size());
  return c;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class TextTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TextTest, File) {
  const fs::path path = root() / GetParam();
  const Case c = split(read(path));
  const Command* command = find_command(c.command);
  ASSERT_NE(command, nullptr) << path << ": the first line must be \"test <command> <args>\"; there is no command '"
                              << c.command << "'";
  if (!FUSEC_WITH_LLVM && c.command == "emit" && c.args.find("cuda ") == std::string::npos)
    GTEST_SKIP() << "this build has no LLVM";
  const auto output = command->function(c.input, c.args);
  ASSERT_TRUE(output.ok()) << path << ": " << output.status().str();
  const char* bless = std::getenv("FUSEC_BLESS");
  if (bless != nullptr && std::string(bless) == "1") {
    std::ofstream(path, std::ios::binary) << c.head << kSeparator << *output;
    return;
  }
  EXPECT_EQ(*output, c.expected) << path << "\nFUSEC_BLESS=1 writes the new output into the file";
}

INSTANTIATE_TEST_SUITE_P(Fir, TextTest, ::testing::ValuesIn(all_cases()), test_name);

}  // namespace
}  // namespace fusec::text_test
