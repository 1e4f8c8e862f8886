// SPDX-License-Identifier: Apache-2.0
// The command line: commands with their flags, which environment variables (FUSEC_CACHE_LIMIT for --cache-limit) and a
// file (--config) may set, too. The parser itself is seen by flags.cpp alone.
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
// Parses, runs one command, prints an error as one line on stderr, answers the exit code. complete: these are all
// commands there are, so that a key of --config which names no flag of any is a mistake.
int run_command_line(const std::vector<Command>& commands, int argc, char** argv, bool complete = true);

// What --help says, for pages and completions.
struct FlagText {
  std::string short_name, name;  // "-v" or empty; "--verbose", or the name of an argument
  std::string value;             // "TEXT", "INT", ...; empty: the flag takes none
  std::string help;
  bool is_argument = false, is_required = false, may_repeat = false;
};
struct CommandText {
  std::string name, summary, examples;
  std::vector<FlagText> flags;  // arguments first; those of every command (--config, --quiet, ...) last
};
std::vector<CommandText> describe(const std::vector<Command>& commands);
// The flags that every command has, by their names.
bool is_common(const FlagText& flag);

// The variable of a flag: "FUSEC_CACHE_LIMIT" of "--cache-limit".
std::string variable_of(const std::string& flag);

}  // namespace fusec::tool
