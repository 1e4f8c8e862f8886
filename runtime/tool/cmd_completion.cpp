// SPDX-License-Identifier: Apache-2.0
// Implements `fusec completion` and `fusec reference`, which print what the commands declare in the forms of shells and
// of pages.

#include <fmt/format.h>

#include "runtime/tool/cli_pages.h"
#include "runtime/tool/commands.h"

namespace fusec::tool {
namespace {

using Writer = std::string (*)(const std::vector<CommandText>&);
struct Form {
  const char* name;
  Writer write;
};
constexpr Form kShells[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
constexpr Form kPages[] = {{"markdown", cli_markdown}, {"man", cli_man}};

template <std::size_t N>
Result<bool> write(const Form (&forms)[N], const std::string& name, std::vector<Command> (*all)()) {
  std::string names;
  for (const Form& form : forms) {
    names += (names.empty() ? "" : ", ") + std::string(form.name);
    if (name != form.name) continue;
    print_text(form.write(describe(all())));
    return true;
  }
  return Status(StatusCode::invalid_argument, fmt::format("'{}' is not one of {}", name, names));
}

}  // namespace

Command completion_command(std::vector<Command> (*all)()) {
  auto shell = std::make_shared<std::string>();
  return {"completion", "print what a shell needs to complete commands and flags",
          "  source <(fusec completion bash)\n"
          "  fusec completion zsh >~/.zfunc/_fusec            a folder of fpath\n"
          "  fusec completion fish >~/.config/fish/completions/fusec.fish",
          [shell](Flags& f) { f.argument("shell", *shell, "bash, zsh or fish"); },
          [shell, all] { return write(kShells, *shell, all); }};
}

Command reference_command(std::vector<Command> (*all)()) {
  auto form = std::make_shared<std::string>();
  return {"reference", "print all commands and flags as a page",
          "  fusec reference man | man -l -\n"
          "  fusec reference markdown                         docs/cli.md",
          [form](Flags& f) { f.argument("form", *form, "markdown or man"); },
          [form, all] { return write(kPages, *form, all); }};
}

}  // namespace fusec::tool
