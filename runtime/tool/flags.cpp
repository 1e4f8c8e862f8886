// SPDX-License-Identifier: Apache-2.0
// Parses the command line with CLI11, takes flags that it does not give from the environment and from --config, runs
// the chosen command, and maps its Status to an exit code. No other file includes CLI11.

#include "runtime/tool/flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "ir/support/check.h"
#include "runtime/tool/io/output.h"
#include "runtime/tool/process.h"
#include "runtime/tool/settings.h"

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
Data goes to stdout, everything else to stderr. `fusec COMMAND --help` has examples. FUSEC_CACHE_LIMIT=1G in the
environment is --cache-limit 1G, and so with every flag; --config FILE sets flags, too.)";

int report(const Status& status) {
  std::string line = status.str();
  for (char& c : line) {
    if (c == '\n' && status.code() != StatusCode::compile_failed) c = ' ';
  }
  std::fprintf(stderr, "%s %s\n", colored("fusec:", Color::red, stderr).c_str(), line.c_str());
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

// CLI11 takes an unknown command for a stray argument.
std::string unknown_command(const std::vector<Command>& commands, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  const std::string given = argv[1];
  for (const Command& command : commands) {
    if (command.name == given) return {};
  }
  return given;
}

// The flags of every command.
struct CommonFlags {
  std::string config, color = "auto";
  bool print_config = false, quiet = false;
};
constexpr const char* kCommonNames[] = {"--config", "--print-config", "--quiet", "--color"};

void declare_for_all(Flags& flags, CommonFlags& to) {
  flags.option(
      "--config", to.config,
      "FILE of flags in TOML: key = value, for all commands at the top and for one below [COMMAND]; the command "
      "line and the environment go first");
  flags.flag("--print-config", to.print_config,
             "print every flag of the command with its value and where that is from, and do nothing else");
  flags.flag("-q,--quiet", to.quiet, "no progress and no warnings on stderr");
  flags.option("--color", to.color, "auto (default: on a terminal, unless NO_COLOR is set), always or never");
}

class Line {
 public:
  explicit Line(const std::vector<Command>& commands)
      : app_("fusec: compiles and runs neural-network inference graphs", "fusec"), impls_(commands.size()) {
    app_.require_subcommand(1);
    app_.footer(kFooter);
    app_.set_version_flag("--version", "fusec 0.1.0");
    for (std::size_t i = 0; i < commands.size(); ++i) {
      impls_[i].app = app_.add_subcommand(commands[i].name, commands[i].summary);
      impls_[i].app->footer("\nExamples:\n" + commands[i].examples);
      Flags flags(impls_[i]);
      commands[i].declare(flags);
      declare_for_all(flags, common_);
    }
  }
  CLI::App& app() { return app_; }
  CLI::App& command(std::size_t i) { return *impls_[i].app; }
  CommonFlags& common() { return common_; }

 private:
  CLI::App app_;
  std::vector<Flags::Impl> impls_;
  CommonFlags common_;
};

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

bool can_be_set(const CLI::Option& option) {
  return !option.get_positional() && option.get_lnames() != std::vector<std::string>{"help"};
}

std::set<std::string> list_flags(Line& line, std::size_t commands) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < commands; ++i)
    for (const CLI::Option* option : line.command(i).get_options())
      if (can_be_set(*option)) names.insert(long_name(*option));
  return names;
}

// The items of --config, by CLI11's reader of TOML and INI.
Result<std::vector<ConfigValue>> read_config(const std::string& path) {
  std::vector<ConfigValue> values;
  if (path.empty()) return values;
  try {
    CLI::ConfigTOML reader;
    for (const CLI::ConfigItem& item : reader.from_file(path)) {
      if (item.name == "++" || item.name == "--") continue;
      values.push_back({CLI::detail::join(item.parents, "."), item.name, item.inputs});
    }
  } catch (const CLI::Error& error) {
    return Status(StatusCode::invalid_argument, fmt::format("--config '{}': {}", path, error.what()));
  }
  return values;
}

// Gives an option that the command line lacks its values, in the way CLI11 does.
Status set_option(CLI::Option& option, const Setting& setting) {
  const bool several = option.get_items_expected_max() > 1;
  try {
    if (several) {
      for (const std::string& value : setting.values) option.add_result(value);
    } else {
      option.add_result(CLI::detail::join(setting.values, ","));
    }
    option.run_callback();
  } catch (const CLI::Error& error) {
    return Status(StatusCode::invalid_argument, fmt::format("{}: {}", setting.from, error.what()));
  }
  return {};
}

std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out + "\"";
}

// Of an option that nothing has set, its variable holds the default.
std::string value_text(CLI::Option& option) {
  std::vector<std::string> values = option.results();
  const bool several = option.get_items_expected_max() > 1;
  if (option.count() == 0 && !several) {
    option.capture_default_str();
    values = {option.get_items_expected_max() == 0 ? "false" : option.get_default_str()};
  }
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + toml_text(value);
  return several ? "[" + list + "]" : list;
}

void print_settings(CLI::App& command, const std::map<std::string, std::string>& from) {
  std::string text = "[" + command.get_name() + "]\n";
  for (CLI::Option* option : command.get_options()) {
    if (!can_be_set(*option)) continue;
    const std::string name = long_name(*option);
    text += fmt::format("{} = {}  # {}\n", name.substr(2), value_text(*option), from.at(name));
  }
  print_text(text);
}

// From where each flag of the command has its value; sets those that the command line lacks.
Result<std::map<std::string, std::string>> apply_settings(CLI::App& command, const Settings& settings) {
  std::map<std::string, std::string> from;
  for (CLI::Option* option : command.get_options()) {
    if (!can_be_set(*option)) continue;
    const std::string name = long_name(*option);
    from[name] = option->count() > 0 ? "command line" : "default";
    if (option->count() > 0) continue;
    const std::optional<Setting> setting = settings.find(command.get_name(), name);
    if (!setting) continue;
    from[name] = setting->from;
    if (!setting->is_read_elsewhere) FUSEC_TRY(set_option(*option, *setting));
  }
  return from;
}

// false: the command is not to be run.
Result<bool> prepare(Line& line, CLI::App& command, std::size_t commands, bool complete) {
  CommonFlags& common = line.common();
  const std::set<std::string> names = list_flags(line, commands);
  if (const char* const config = std::getenv("FUSEC_CONFIG"); config != nullptr && common.config.empty())
    common.config = config;
  FUSEC_ASSIGN(std::vector<ConfigValue> config, read_config(common.config));
  std::set<std::string> sections;
  for (const CLI::App* one : line.app().get_subcommands({})) sections.insert(one->get_name());
  if (complete) FUSEC_TRY(check_config(common.config, config, names, sections));
  const Settings settings(environ, std::move(config), common.config);
  using From = std::map<std::string, std::string>;
  FUSEC_ASSIGN(const From from, apply_settings(command, settings));
  FUSEC_TRY(set_terminal(common.quiet, common.color));
  for (const std::string& warning : misspelled_variables(environ, names, complete)) warn(warning);
  if (!common.print_config) return true;
  print_settings(command, from);
  return false;
}

bool asks_for_config(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](const char* word) { return std::string(word) == "--print-config"; });
}

}  // namespace

std::string variable_of(const std::string& flag) {
  std::string name = "FUSEC_" + flag.substr(flag.find_first_not_of('-'));
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool is_common(const FlagText& flag) {
  return std::find(std::begin(kCommonNames), std::end(kCommonNames), flag.name) != std::end(kCommonNames);
}

std::vector<CommandText> describe(const std::vector<Command>& commands) {
  Line line(commands);
  std::vector<CommandText> out;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    CommandText& text = out.emplace_back(CommandText{commands[i].name, commands[i].summary, commands[i].examples, {}});
    for (const CLI::Option* option : line.command(i).get_options()) {
      if (!option->get_positional() && !can_be_set(*option)) continue;
      FlagText flag;
      flag.is_argument = option->get_positional();
      flag.name = flag.is_argument ? option->get_name(true) : long_name(*option);
      if (!option->get_snames().empty()) flag.short_name = "-" + option->get_snames().front();
      if (option->get_items_expected_max() > 0) flag.value = option->get_type_name();
      flag.help = option->get_description();
      flag.is_required = option->get_required();
      flag.may_repeat = option->get_items_expected_max() > 1;
      text.flags.push_back(std::move(flag));
    }
    std::stable_sort(text.flags.begin(), text.flags.end(),
                     [](const FlagText& a, const FlagText& b) { return a.is_argument > b.is_argument; });
  }
  return out;
}

int run_command_line(const std::vector<Command>& commands, int argc, char** argv, bool complete) {
  if (const std::string name = unknown_command(commands, argc, argv); !name.empty()) {
    std::fprintf(stderr, "fusec: there is no command '%s'; see fusec --help\n", name.c_str());
    return 2;
  }
  Line line(commands);
  CLI::App& app = line.app();
  if (asks_for_config(argc, argv)) {
    for (std::size_t i = 0; i < commands.size(); ++i)
      for (CLI::Option* option : line.command(i).get_options()) option->required(false);
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
    if (!line.command(i).parsed()) continue;
    const Result<bool> go = ir::guarded([&] { return prepare(line, line.command(i), commands.size(), complete); });
    if (!go.ok()) return report(go.status());
    return *go ? run(commands[i]) : 0;
  }
  return 2;
}

}  // namespace fusec::tool
