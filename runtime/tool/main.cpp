// SPDX-License-Identifier: Apache-2.0
// What `fusec` does: runs packages with the runtime alone and replaces the process by fusec-compiler for
// everything else. A process that runs a package therefore loads neither LLVM nor protobuf.

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "fusec/package.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/entry.h"

namespace {

// By name or by content: a package under another name is refused where it is opened.
bool names_package(std::string_view argument) {
  return !argument.starts_with('-') && (argument.ends_with(".fsc") || fusec::is_package(std::string(argument)));
}

// "run", "bench", "profile" or "inspect" with a package among its arguments.
bool is_for_package(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command != "run" && command != "bench" && command != "profile" && command != "inspect") return false;
  for (int i = 2; i < argc; ++i) {
    if (names_package(argv[i])) return true;
  }
  return false;
}

// Answers only where fusec-compiler cannot be started: its path.
std::string hand_over(char** argv) {
  char self[PATH_MAX + 1] = {};
  const ssize_t length = readlink("/proc/self/exe", self, PATH_MAX);
  const std::string_view path(self, length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string compiler = std::string(path.substr(0, path.rfind('/') + 1)) + "fusec-compiler";
  (void)execv(compiler.c_str(), argv);
  return compiler;
}

int refuse(const std::string& compiler, int reason) {
  std::fprintf(
      stderr,
      "fusec: '%s' cannot be started: %s. Without it fusec runs, benches, profiles and inspects packages (.fsc) only\n",
      compiler.c_str(), std::strerror(reason));
  return 4;
}

// --help, --version, or nothing: without the compiler, of the commands of this program.
bool asks_for_no_command(int argc, char** argv) { return argc < 2 || argv[1][0] == '-'; }

}  // namespace

int fusec_tool_packages(int argc, char** argv) {
  using namespace fusec::tool;
  if (!is_for_package(argc, argv)) {
    const std::string compiler = hand_over(argv);
    const int reason = errno;
    if (reason != ENOENT || !asks_for_no_command(argc, argv)) return refuse(compiler, reason);
  }
  const Front front = package_front();
  return run_command_line({run_command(front), bench_command(front), profile_command(front), inspect_command(front)},
                          argc, argv, false);
}
