// SPDX-License-Identifier: Apache-2.0
// The command line: commands with their flags. The parser itself is seen by flags.cpp alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

// The flags of one command, bound to variables that outlive the parse. Names are "--long" or "-s,--long".
class Flags {
 public:
  struct Impl;
  explicit Flags(Impl& impl) : impl_(impl) {}

  void argument(const std::string& name, std::string& to, const std::string& help, bool required = true);
  // Every word behind the other arguments; "--" keeps those with a dash from being taken for options.
  void rest(const std::string& name, std::vector<std::string>& to, const std::string& help);
  void flag(const std::string& name, bool& to, const std::string& help);
  void option(const std::string& name, std::string& to, const std::string& help);
  void option(const std::string& name, int& to, const std::string& help);
  void option(const std::string& name, int64_t& to, const std::string& help);
  void option(const std::string& name, double& to, const std::string& help);
  void option(const std::string& name, std::optional<uint64_t>& to, const std::string& help);
  void option(const std::string& name, std::optional<double>& to, const std::string& help);
  // May be given several times, one value each.
  void option(const std::string& name, std::vector<std::string>& to, const std::string& help);

 private:
  Impl& impl_;
};

// run() answers whether what the command checks holds: false is exit code 1.
struct Command {
  std::string name, summary, examples;
  std::function<void(Flags&)> declare;
  std::function<Result<bool>()> run;
};

// The exit code of an error.
int exit_code(StatusCode code);
// Parses, runs one command, prints an error as one line on stderr, answers the exit code.
int run_command_line(const std::vector<Command>& commands, int argc, char** argv);

}  // namespace fusec::tool
