// SPDX-License-Identifier: Apache-2.0
// The two ends of a socket between the tuner and the process that times candidates. Requests are lines: "begin BYTES"
// and a program's text, "time CANDIDATE QUICK BEST", "turn FIRST SECOND QUICK", "local CANDIDATE". An answer is a line:
// "ok" and numbers, "failed" and a reason, or "lost" and a reason, after which the child ends.

#include "runtime/engine/child_timer.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>

#include "ir/text/program_text.h"

namespace fusec::runtime {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;
constexpr int kMaxStarts = 3;  // in a row, of children that answer nothing at all

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string ended_text(int state) {
  if (WIFSIGNALED(state)) return fmt::format("signal {} ({})", WTERMSIG(state), strsignal(WTERMSIG(state)));
  return fmt::format("exit code {}", WEXITSTATUS(state));
}

// A running child and the socket to it.
class Child {
 public:
  Child() = default;
  ~Child() { stop(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool runs() const { return pid_ > 0; }

  Status start(const std::vector<std::string>& argv) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Status(StatusCode::device, "no socket can be made for a child process");
    std::vector<char*> arguments;
    for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int error = posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    if (error == 0) return {};
    pid_ = 0;
    stop();
    return Status(StatusCode::device, fmt::format("'{}' cannot be started: {}", argv[0], std::strerror(error)));
  }

  bool send_text(const std::string& text) const {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

  // A line without its end. An error says what became of the child, which has then ended.
  Result<std::string> line(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto until =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    std::string text;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) {
        stop();
        return Status(StatusCode::device, fmt::format("it did not end in {} s", seconds));
      }
      pollfd p{socket_, POLLIN, 0};
      if (poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
      char c = 0;
      const ssize_t n = read(socket_, &c, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n == 1 && c == '\n') return text;
      if (n == 1 && text.size() < kLongestLine) text += c;
      if (n != 1) return Status(StatusCode::device, "the process that ran it ended with " + ended_text(stop()));
    }
  }

  // Ends the child, if it has not ended. Returns its state.
  int stop() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    int state = 0;
    if (pid_ > 0) {
      (void)waitpid_ended(state);
      pid_ = 0;
    }
    return state;
  }

 private:
  // A child whose socket is closed may be about to end by itself, and then its own state counts.
  bool waitpid_ended(int& state) const {
    for (int tries = 0; tries < 50; ++tries) {
      if (waitpid(pid_, &state, WNOHANG) == pid_) return true;
      usleep(2000);
    }
    kill(pid_, SIGKILL);
    while (waitpid(pid_, &state, 0) < 0 && errno == EINTR) continue;
    return false;
  }

  pid_t pid_ = 0;
  int socket_ = -1;
};

class ChildTimer final : public CandidateTimer {
 public:
  ChildTimer(std::vector<std::string> argv, double seconds) : argv_(std::move(argv)), seconds_(seconds) {}

  Status begin(const ir::Program& work) override {
    program_ = ir::print(work);
    begun_ = false;
    return {};
  }
  Result<std::vector<double>> time(int candidate, bool quick, double best_us) override {
    return ask(fmt::format("time {} {} {}\n", candidate, quick ? 1 : 0, best_us));
  }
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(int first, int second, bool quick) override {
    FUSEC_ASSIGN(const std::vector<double> both, ask(fmt::format("turn {} {} {}\n", first, second, quick ? 1 : 0)));
    const auto half = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
    return std::pair(std::vector<double>(both.begin(), half), std::vector<double>(half, both.end()));
  }
  Result<int64_t> local_bytes(int candidate) override {
    FUSEC_ASSIGN(const std::vector<double> answer, ask(fmt::format("local {}\n", candidate)));
    return answer.empty() ? 0 : static_cast<int64_t>(answer[0]);
  }
  // A child that is lost is replaced, unless none answers at all.
  Status alive() const override { return silent_ < kMaxStarts ? Status() : last_; }

 private:
  Result<std::vector<double>> ask(const std::string& request) {
    if (!begun_ || !child_.runs()) {
      FUSEC_TRY(exchange(fmt::format("begin {}\n{}", program_.size(), program_)).status());
      begun_ = true;
    }
    return exchange(request);
  }

  Result<std::vector<double>> exchange(const std::string& request) {
    if (!child_.runs()) {
      ++silent_;
      if (last_ = child_.start(argv_); !last_.ok()) return last_;
    }
    (void)child_.send_text(request);  // a child that has ended is noticed where it should answer
    Result<std::string> line = child_.line(seconds_);
    if (!line.ok()) return last_ = line.status();
    silent_ = 0;
    return parse(*line);
  }

  Result<std::vector<double>> parse(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word != "ok") {
      if (word == "lost") child_.stop();
      return Status(StatusCode::device, line.size() > word.size() ? line.substr(word.size() + 1) : line);
    }
    std::vector<double> numbers;
    for (double number = 0; in >> number;) numbers.push_back(number);
    return numbers;
  }

  const std::vector<std::string> argv_;
  const double seconds_;
  Child child_;
  std::string program_;
  bool begun_ = false;  // the child has the program
  int silent_ = 0;      // children in a row that answered nothing
  Status last_;
};

// --- the child's end -------------------------------------------------------------------------------------------------

class Requests {
 public:
  explicit Requests(int in) : in_(in) {}

  bool line(std::string& text) {
    text.clear();
    for (char c = 0; bytes(&c, 1);) {
      if (c == '\n') return true;
      text += c;
    }
    return false;
  }
  bool bytes(char* to, std::size_t count) const {
    for (std::size_t at = 0; at < count;) {
      const ssize_t n = read(in_, to + at, count - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int in_;
};

Result<std::vector<double>> answer(const std::string& line, Requests& requests, CandidateTimer& timer) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  if (word == "begin") {
    std::size_t size = 0;
    in >> size;
    std::string text(std::min(size, std::size_t{1} << 28), '\0');
    if (!requests.bytes(text.data(), text.size())) return Status(StatusCode::invalid_argument, "a program is cut off");
    FUSEC_ASSIGN(const ir::Program program, ir::parse_program(text));
    FUSEC_TRY(timer.begin(program));
    return std::vector<double>();
  }
  int first = 0, second = 0, quick = 0;
  double best = 0;
  if (word == "time" && in >> first >> quick >> best) return timer.time(first, quick != 0, best);
  if (word == "local" && in >> first) {
    FUSEC_ASSIGN(const int64_t bytes, timer.local_bytes(first));
    return std::vector<double>{static_cast<double>(bytes)};
  }
  if (word != "turn" || !(in >> first >> second >> quick))
    return Status(StatusCode::invalid_argument, "no request: " + line);
  FUSEC_ASSIGN(auto both, timer.time_in_turn(first, second, quick != 0));
  both.first.insert(both.first.end(), both.second.begin(), both.second.end());
  return std::move(both.first);
}

bool write_text(int out, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(out, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::unique_ptr<CandidateTimer> make_child_timer(std::vector<std::string> argv, double seconds) {
  return std::make_unique<ChildTimer>(std::move(argv), seconds);
}

Status serve_candidates(int in, int out, CandidateTimer& timer) {
  Requests requests(in);
  for (std::string line; requests.line(line);) {
    const Result<std::vector<double>> times = answer(line, requests, timer);
    std::string text = "ok";
    if (times.ok()) {
      for (const double us : *times) text += fmt::format(" {}", us);
    } else {
      text = (timer.alive().ok() ? "failed " : "lost ") + one_line(times.status().message());
    }
    if (!write_text(out, text + "\n") || text.starts_with("lost")) break;
  }
  return {};
}

}  // namespace fusec::runtime
