// SPDX-License-Identifier: Apache-2.0
// The command line as texts for others: the page docs/cli.md, the manual page, and completions of shells. All are made
// from what the commands declare.
#pragma once

#include <string>
#include <vector>

#include "runtime/tool/flags.h"

namespace fusec::tool {

std::string cli_markdown(const std::vector<CommandText>& commands);
// roff, of section 1.
std::string cli_man(const std::vector<CommandText>& commands);

std::string bash_completion(const std::vector<CommandText>& commands);
std::string zsh_completion(const std::vector<CommandText>& commands);
std::string fish_completion(const std::vector<CommandText>& commands);

}  // namespace fusec::tool
