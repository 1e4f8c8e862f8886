// SPDX-License-Identifier: Apache-2.0
// Parses the command line with CLI11, runs the chosen command, and maps its Status to an exit code. No other file
// includes CLI11.

#include "runtime/tool/flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "ir/support/check.h"
#include "runtime/tool/process.h"

namespace fusec::tool {

struct Flags::Impl {
  CLI::App* app;
};

void Flags::argument(const std::string& name, std::string& to, const std::string& help, bool required) {
  impl_.app->add_option(name, to, help)->required(required);
}
void Flags::rest(const std::string& name, std::vector<std::string>& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::flag(const std::string& name, bool& to, const std::string& help) { impl_.app->add_flag(name, to, help); }
void Flags::option(const std::string& name, std::string& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::option(const std::string& name, int& to, const std::string& help) { impl_.app->add_option(name, to, help); }
void Flags::option(const std::string& name, int64_t& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::option(const std::string& name, double& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::option(const std::string& name, std::optional<uint64_t>& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::option(const std::string& name, std::optional<double>& to, const std::string& help) {
  impl_.app->add_option(name, to, help);
}
void Flags::option(const std::string& name, std::vector<std::string>& to, const std::string& help) {
  impl_.app->add_option(name, to, help)->allow_extra_args(false);
}

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return 0;
    case StatusCode::invalid_argument:
      return 2;
    case StatusCode::invalid_model:
    case StatusCode::unsupported:
      return 3;
    case StatusCode::device:
    case StatusCode::out_of_memory:
      return 4;
    case StatusCode::compile_failed:
    case StatusCode::cache:
    case StatusCode::internal:
    case StatusCode::cancelled:
      break;
  }
  return 70;
}

namespace {

constexpr const char* kFooter = R"(
Exit codes: 0 ok; 1 a check failed; 2 usage or argument; 3 the model is invalid or lacks support; 4 a device or library
is missing, or memory; 70 a defect of fusec.
Data goes to stdout, everything else to stderr. `fusec COMMAND --help` has examples.)";

int report(const Status& status) {
  std::string line = status.str();
  for (char& c : line) {
    if (c == '\n' && status.code() != StatusCode::compile_failed) c = ' ';
  }
  std::fprintf(stderr, "fusec: %s\n", line.c_str());
  return exit_code(status.code());
}

int run(const Command& command) {
  clean_up_on_signals();
  const Result<bool> result = ir::guarded(command.run);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return report({StatusCode::device, "stdout cannot be written"});
  if (!result.ok()) return report(result.status());
  return *result ? 0 : 1;
}

std::string usage_hint(const CLI::App& app) {
  std::string name = "fusec";
  for (const CLI::App* sub : app.get_subcommands()) name += " " + sub->get_name();
  return "see " + name + " --help";
}

}  // namespace

namespace {

// CLI11 takes an unknown command for a stray argument.
std::string unknown_command(const std::vector<Command>& commands, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  const std::string given = argv[1];
  for (const Command& command : commands) {
    if (command.name == given) return {};
  }
  return given;
}

}  // namespace

int run_command_line(const std::vector<Command>& commands, int argc, char** argv) {
  if (const std::string name = unknown_command(commands, argc, argv); !name.empty()) {
    std::fprintf(stderr, "fusec: there is no command '%s'; see fusec --help\n", name.c_str());
    return 2;
  }
  CLI::App app("fusec: compiles and runs neural-network inference graphs", "fusec");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", "fusec 0.1.0");
  std::vector<Flags::Impl> impls(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    impls[i].app = app.add_subcommand(commands[i].name, commands[i].summary);
    impls[i].app->footer("\nExamples:\n" + commands[i].examples);
    Flags flags(impls[i]);
    commands[i].declare(flags);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    const int code = app.exit(help);
    return std::fflush(stdout) != 0 || std::ferror(stdout) != 0
               ? report({StatusCode::device, "stdout cannot be written"})
               : code;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "fusec: %s; %s\n", error.what(), usage_hint(app).c_str());
    return 2;
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (impls[i].app->parsed()) return run(commands[i]);
  }
  return 2;
}

}  // namespace fusec::tool
