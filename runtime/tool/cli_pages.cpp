// SPDX-License-Identifier: Apache-2.0
// Writes the reference of the command line in markdown and in roff.

#include "runtime/tool/cli_pages.h"

#include <fmt/format.h>

#include <algorithm>

namespace fusec::tool {
namespace {

constexpr const char* kMarkdownHead = R"(# The command line

This page is generated: `docs/generate.sh build/release/bin/fusec` brings it up to date. `fusec COMMAND --help` prints
the same. Data goes to stdout, everything else to stderr. [errors.md](errors.md) explains exit codes and messages.

## Flags from elsewhere

A flag that the command line does not give is taken from the environment, then from the file of `--config`, and then has
its default. `--print-config` prints every flag of a command with its value and where that is from.

- The variable of a flag is its name in capitals: `FUSEC_DEVICE=cpu`, `FUSEC_NO_CACHE=1`. `;` stands between the values
  of a flag that may be given several times: `FUSEC_SHAPE='N=8;seq=128'`. An empty variable is none. A variable whose
  name differs from one of these in a letter or two is a warning.
- `FUSEC_JOBS` and `FUSEC_SHARD` are no flags: the first limits `./dev`, the second is what `--shard auto` reads.
- The file is TOML. Keys at the top are for all commands that have the flag, and those below `[bench]` for one command:

```
device = "cpu"
threads = 4

[bench]
duration = 2
shape = ["N=8", "seq=128"]
```

)";

std::string flag_names(const FlagText& flag) {
  return (flag.short_name.empty() ? "" : flag.short_name + ", ") + flag.name +
         (flag.is_argument || flag.value.empty() ? "" : " " + flag.value);
}

std::string usage(const CommandText& command) {
  std::string text = "fusec " + command.name + " [flags]";
  for (const FlagText& flag : command.flags) {
    if (!flag.is_argument) continue;
    const std::string name = flag.name + (flag.may_repeat ? "..." : "");
    text += flag.is_required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '<' ? "&lt;" : c == '*' ? "\\*" : std::string(1, c);
  return out;
}

std::string markdown_table(const std::vector<FlagText>& flags, bool common) {
  std::string rows;
  for (const FlagText& flag : flags) {
    if (is_common(flag) == common) rows += fmt::format("| `{}` | {} |\n", flag_names(flag), cell(flag.help));
  }
  return rows.empty() ? "" : "| flag | meaning |\n|---|---|\n" + rows;
}

// A line that begins with a dot or an apostrophe would be a request, and a dash alone a hyphen.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

std::string man_flags(const std::vector<FlagText>& flags, bool common) {
  std::string text;
  for (const FlagText& flag : flags) {
    if (is_common(flag) == common) text += fmt::format(".TP\n.B {}\n{}\n", roff(flag_names(flag)), roff(flag.help));
  }
  return text;
}

}  // namespace

std::string cli_markdown(const std::vector<CommandText>& commands) {
  std::string text = kMarkdownHead;
  text += "## Flags of every command\n\n" + markdown_table(commands.front().flags, true) + "\n## Commands\n\n";
  text += "| command | what it does |\n|---|---|\n";
  for (const CommandText& command : commands)
    text += fmt::format("| [{}](#fusec-{}) | {} |\n", command.name, command.name, cell(command.summary));
  for (const CommandText& command : commands) {
    text += fmt::format("\n## fusec {}\n\n`{}`: {}.\n\n", command.name, usage(command), cell(command.summary));
    if (const std::string table = markdown_table(command.flags, false); !table.empty()) text += table + "\n";
    text += "```\n" + command.examples + "\n```\n";
  }
  return text;
}

std::string cli_man(const std::vector<CommandText>& commands) {
  std::string text =
      ".TH FUSEC 1 \"\" \"fusec 0.1.0\" \"User Commands\"\n.SH NAME\nfusec \\- compile and run neural\\-network "
      "inference "
      "graphs\n.SH SYNOPSIS\n.B fusec\n.I COMMAND\n[flags]\n.SH DESCRIPTION\n"
      "Data goes to stdout, everything else to stderr. A flag that the command line does not give is taken from the "
      "environment (FUSEC_CACHE_LIMIT is \\-\\-cache\\-limit), then from the file of \\-\\-config.\n";
  text += ".SH \"FLAGS OF EVERY COMMAND\"\n" + man_flags(commands.front().flags, true) + ".SH COMMANDS\n";
  for (const CommandText& command : commands) {
    text += fmt::format(".SS {}\n{}\n.PP\n.B {}\n", roff(command.name), roff(command.summary), roff(usage(command)));
    text += man_flags(command.flags, false) + ".PP\nExamples:\n.nf\n" + roff(command.examples) + "\n.fi\n";
  }
  text +=
      ".SH \"EXIT STATUS\"\n.TP\n0\nok\n.TP\n1\na check failed\n.TP\n2\nusage or argument\n.TP\n3\nthe model is "
      "invalid or "
      "lacks support\n.TP\n4\na device or library is missing, or memory\n.TP\n70\na defect of fusec\n";
  return text;
}

}  // namespace fusec::tool
