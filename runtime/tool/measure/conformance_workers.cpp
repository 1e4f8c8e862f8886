// SPDX-License-Identifier: Apache-2.0
// Runs conformance cases in child processes, so that a case that crashes or hangs fails alone. A child reads case
// numbers, one per line, and answers each with one line of JSON.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/tool/io/output.h"
#include "runtime/tool/measure/conformance.h"

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

void send_all(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // the other end is gone, which the reader finds out
    sent += static_cast<std::size_t>(n);
  }
}

// Lines out of what arrives in pieces.
struct Lines {
  std::string rest;
  // False: nothing more will come.
  bool fill(int fd) {
    char buffer[4096];
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n > 0) rest.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
  bool next(std::string& line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string::npos) return false;
    line = rest.substr(0, end);
    rest.erase(0, end + 1);
    return true;
  }
};

using Folders = std::vector<std::filesystem::path>;

[[noreturn]] void serve(int fd, const Folders& folders, const CaseOptions& options) {
  Lines lines;
  std::string line;
  while (lines.fill(fd)) {
    while (lines.next(line)) {
      const std::size_t i = std::stoul(line);
      const Json json = make_json(run_case(folders[i], options));
      send_all(fd, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    }
  }
  _exit(0);  // destructors of what the parent made are the parent's
}

struct Worker {
  pid_t pid = -1;
  int fd = -1;
  std::size_t index = 0;  // of its case
  bool busy = false;
  Clock::time_point until;
  Lines lines;
};

class Pool {
 public:
  Pool(const Folders& folders, const CaseOptions& options, double seconds)
      : folders_(folders), options_(options), seconds_(seconds), results_(folders.size()) {}

  std::vector<CaseResult> run(int jobs) {
    Progress progress{Progress::Steps()};  // without a thread: this process forks
    workers_.resize(std::min(static_cast<std::size_t>(std::max(jobs, 1)), folders_.size()));
    for (Worker& w : workers_) give(w);
    while (done_ < folders_.size()) {
      wait();
      progress.step(done_, folders_.size(), "cases");
    }
    for (Worker& w : workers_) stop(w);
    return std::move(results_);
  }

 private:
  // The next case, to a process that is started where there is none.
  void give(Worker& w) {
    if (next_ == folders_.size()) return;
    w.index = next_++;
    if (w.pid < 0 && !start(w)) return fail(w, "no process could be started for it");
    w.busy = true;
    w.until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    send_all(w.fd, fmt::format("{}\n", w.index));
  }

  bool start(Worker& w) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    std::fflush(nullptr);
    w.pid = fork();
    if (w.pid == 0) {
      for (const Worker& other : workers_) {
        if (other.fd >= 0) close(other.fd);
      }
      close(ends[0]);
      serve(ends[1], folders_, options_);
    }
    close(ends[1]);
    w.fd = ends[0];
    w.lines = {};
    if (w.pid < 0) close(std::exchange(w.fd, -1));
    return w.pid > 0;
  }

  void stop(Worker& w, int* status = nullptr) {
    if (w.pid < 0) return;
    close(std::exchange(w.fd, -1));
    int ignored = 0;
    waitpid(std::exchange(w.pid, -1), status != nullptr ? status : &ignored, 0);
  }

  void finish(Worker& w, CaseResult result) {
    results_[w.index] = std::move(result);
    w.busy = false;
    ++done_;
    give(w);
  }

  void fail(Worker& w, std::string reason) {
    CaseResult result;
    result.name = folders_[w.index].filename().string();
    result.reason = std::move(reason);
    finish(w, std::move(result));
  }

  void wait() {
    std::vector<pollfd> fds;
    Clock::time_point until = Clock::time_point::max();
    for (const Worker& w : workers_) {
      fds.push_back({w.busy ? w.fd : -1, POLLIN, 0});
      if (w.busy) until = std::min(until, w.until);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left + 1, 0, 60'000)));
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (!workers_[i].busy) continue;
      if (fds[i].revents != 0) {
        hear(workers_[i]);
      } else if (Clock::now() >= workers_[i].until) {
        kill(workers_[i].pid, SIGKILL);
        stop(workers_[i]);
        fail(workers_[i], fmt::format("it took longer than {:g} s", seconds_));
      }
    }
  }

  void hear(Worker& w) {
    const bool open = w.lines.fill(w.fd);
    std::string line;
    if (w.lines.next(line)) {
      const Json json = Json::parse(line, nullptr, false);
      return json.is_object() ? finish(w, case_of_json(json)) : fail(w, "its answer cannot be read");
    }
    if (open) return;
    int status = 0;
    stop(w, &status);
    fail(w, WIFSIGNALED(status) ? fmt::format("crashed: {}", strsignal(WTERMSIG(status)))
                                : fmt::format("its process ended with exit code {}", WEXITSTATUS(status)));
  }

  const Folders& folders_;
  const CaseOptions& options_;
  double seconds_;
  std::vector<CaseResult> results_;
  std::vector<Worker> workers_;
  std::size_t next_ = 0, done_ = 0;
};

}  // namespace

std::vector<CaseResult> run_cases(const Folders& folders, const CaseOptions& options, int jobs, double seconds) {
  return Pool(folders, options, seconds).run(jobs);
}

}  // namespace fusec::tool
