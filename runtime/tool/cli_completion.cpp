// SPDX-License-Identifier: Apache-2.0
// Writes what bash, zsh and fish need to complete commands, flags and the words that a flag accepts. Everything else
// completes as a file.

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "fusec/options.h"
#include "runtime/tool/cli_pages.h"

namespace fusec::tool {
namespace {

// Of a flag that accepts one of a few words: these, else nothing.
std::vector<std::string> accepted_words(const FlagText& flag) {
  if (flag.name == "--color") return {"auto", "always", "never"};
  std::vector<std::string> words;
  for (const OptionKey& key : option_keys()) {
    if (flag.value.empty() || std::string("--") + std::string(key.key) != flag.name) continue;
    std::istringstream list{std::string(key.accepts)};
    for (std::string word; std::getline(list, word, ',');) {
      word.erase(0, word.find_first_not_of(' '));
      if (word.find(' ') != std::string::npos) return {};  // a sentence
      if (word != "...") words.push_back(word);
    }
  }
  return words.size() > 1 ? words : std::vector<std::string>();
}

std::string join_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string flag_words(const CommandText& command) {
  std::vector<std::string> words = {"--help"};
  for (const FlagText& flag : command.flags) {
    if (!flag.is_argument) words.push_back(flag.name);
  }
  return join_words(words);
}

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : c == '\n' ? std::string(" ") : std::string(1, c);
  return out + "'";
}

// The flags of all commands that accept words, each once.
std::vector<FlagText> flags_with_words(const std::vector<CommandText>& commands) {
  std::vector<FlagText> out;
  for (const CommandText& command : commands) {
    for (const FlagText& flag : command.flags) {
      const bool is_known = std::any_of(out.begin(), out.end(), [&](const FlagText& f) { return f.name == flag.name; });
      if (!is_known && !accepted_words(flag).empty()) out.push_back(flag);
    }
  }
  return out;
}

}  // namespace

std::string bash_completion(const std::vector<CommandText>& commands) {
  std::string names, flags, values;
  for (const CommandText& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    flags += fmt::format("    {}) flags='{}' ;;\n", command.name, flag_words(command));
  }
  for (const FlagText& flag : flags_with_words(commands))
    values += fmt::format("    {}) values='{}' ;;\n", flag.name, join_words(accepted_words(flag)));
  return fmt::format(R"(# bash completion for fusec; made by `fusec completion bash`
_fusec() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags= values=
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $before in
{}  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
  return 0
}}
complete -o filenames -F _fusec fusec
)",
                     names, flags, values);
}

std::string zsh_completion(const std::vector<CommandText>& commands) {
  std::string names, flags, values;
  for (const CommandText& command : commands) {
    names += fmt::format("    {}\n", single_quoted(command.name + ":" + command.summary));
    flags += fmt::format("    {}) flags=(\n", command.name);
    for (const FlagText& flag : command.flags) {
      if (!flag.is_argument) flags += fmt::format("      {}\n", single_quoted(flag.name + ":" + flag.help));
    }
    flags += "    ) ;;\n";
  }
  for (const FlagText& flag : flags_with_words(commands))
    values += fmt::format("    {}) values=({}) ;;\n", flag.name, join_words(accepted_words(flag)));
  return fmt::format(R"(#compdef fusec
# zsh completion for fusec; made by `fusec completion zsh`
_fusec() {{
  local -a commands flags values
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
{}  esac
  case $words[CURRENT-1] in
{}  esac
  if (( $#values )); then
    compadd -a values
  elif [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  else
    _files
  fi
}}
_fusec "$@"
)",
                     names, flags, values);
}

std::string fish_completion(const std::vector<CommandText>& commands) {
  std::string text = "# fish completion for fusec; made by `fusec completion fish`\n";
  for (const CommandText& command : commands) {
    text += fmt::format("complete -c fusec -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        single_quoted(command.summary));
    for (const FlagText& flag : command.flags) {
      if (flag.is_argument) continue;
      const std::vector<std::string> words = accepted_words(flag);
      const std::string values = !words.empty()       ? " -x -a " + single_quoted(join_words(words))
                                 : flag.value.empty() ? ""
                                                      : " -r";
      text += fmt::format("complete -c fusec -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n", command.name,
                          flag.name.substr(2), values, single_quoted(flag.help));
    }
  }
  return text;
}

}  // namespace fusec::tool
