// SPDX-License-Identifier: Apache-2.0
// Runs another program without a shell, collects its output, and kills it after a time limit, for `fusec reduce`.
// Removes the temporary files of this process when a signal ends it; the handler restores the default action, so the
// process still ends by the signal.

#include "runtime/tool/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "ir/support/temporary_files.h"

namespace fusec::tool {
namespace {

// Reads until the writers are gone or time is up.
bool drain(int fd, double seconds, std::size_t most, std::string& to) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    if (left <= 0) return false;
    if (poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EINTR)) return true;
    if (n > 0 && to.size() < most) to.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string ended_text(int code) {
  if (code == kTimedOut) return "no end";
  if (code > 128) return fmt::format("signal {} ({})", code - 128, strsignal(code - 128));
  return fmt::format("exit code {}", code);
}

Result<Ended> run_child(const std::vector<std::string>& argv, double seconds, std::size_t most_output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status(StatusCode::device, "no pipe can be made");
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ended ended;
  const bool done = error == 0 && drain(ends[0], seconds, most_output, ended.output);
  close(ends[0]);
  if (error != 0) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("'{}' cannot be started: {}", argv[0], std::strerror(error)));
  }
  if (!done) kill(child, SIGKILL);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  ended.code = !done ? kTimedOut : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return ended;
}

namespace {

// The signal is blocked in here, and has its default action again: it ends the process when this returns.
void end(int signal) {
  ir::remove_temporary_files();
  (void)raise(signal);
}

}  // namespace

void clean_up_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old;
    if (sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = end;
    action.sa_flags = SA_RESETHAND;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(signal, &action, nullptr);
  }
}

}  // namespace fusec::tool
