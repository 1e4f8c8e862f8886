// SPDX-License-Identifier: Apache-2.0
// The out-of-memory loop: does a piece of work in a forked child while its n-th allocation fails, or all from the n-th
// on, for n over the whole range, and then does it once more with memory. Fails when a child answers anything but ok or
// out_of_memory, throws, hangs, cannot do the work afterwards, or crashes for a cause that is not in kKnown.
//
//   fusec_oom_test [--tries N] [--seed N] [--list] [WORK...]
//   fusec_oom_test --at N [--always] WORK     one try in this process, to be looked at with a debugger
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/status.h"
#include "tests/oom/fail_malloc.h"
#include "tests/oom/symbols.h"
#include "tests/oom/works.h"

namespace fusec::oom_test {
namespace {

constexpr int kChildren = 2;       // side by side
constexpr unsigned kSeconds = 60;  // that a child may take

// What cannot be contained, by its cause: one of the calls between the crash and the first of our functions is `symbol`
// of `module`. docs/debugging.md has the table of these and where they come from.
struct Known {
  int signal;
  const char* module;
  const char* symbol;  // part of the mangled name; empty: any
  const char* cause;
};
constexpr Known kKnown[] = {
    {SIGSEGV, "libfdnn.so.3", "", "oneDNN constructs an object at the null of its own operator new"},
    {SIGABRT, "libfdnn.so.3", "St7promiseI", "oneDNN's broken promise needs memory for its exception, in a destructor"},
    {SIGABRT, "libfdnn.so.3", "dnnl_primitive_desc", "oneDNN destroys a descriptor that it left half made"},
    {SIGABRT, "program", "4llvm", "std::bad_alloc is not let out of a function of LLVM"},
    {SIGSEGV, "program", "4llvm", "an object of LLVM that was left half made is destroyed"},
};

// Written by a child, read by its parent.
struct Report {
  enum Phase { calling, again, done } phase;
  bool failed;  // an allocation did
  bool threw, right;
  StatusCode first, second;
  char message[240];
  int signal, frames;
  void* stack[48];
};

Report* shared = nullptr;  // the child's own

void on_signal(int number) {
  shared->signal = number;
  (void)disarm();
  shared->frames = backtrace(shared->stack, static_cast<int>(std::size(shared->stack)));
  _exit(1);
}

void catch_signals() {
  void* warm[2];
  (void)backtrace(warm, 2);  // loads what it needs
  static std::array<char, 64 << 10> stack;
  stack_t other = {};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  (void)sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) (void)sigaction(number, &action, nullptr);
}

void note(Report& report, const Status& status) {
  const std::string text = status.str();
  std::strncpy(report.message, text.c_str(), sizeof(report.message) - 1);
}

[[noreturn]] void child(const Work& work, int64_t n, Mode mode, Report& report) {
  shared = &report;
  catch_signals();
  (void)alarm(kSeconds);
  const int null = open("/dev/null", O_WRONLY);
  (void)dup2(null, STDERR_FILENO);
  try {
    arm(n, mode);
    const Status status = work.call();
    (void)disarm();
    report.failed = has_failed();
    report.first = status.code();
    report.right = !status.ok() || work.is_right();
    note(report, status);
    report.phase = Report::again;
    const Status next = work.call();
    report.second = next.code();
    if (!next.ok()) note(report, next);
    report.right = report.right && (!next.ok() || work.is_right());
  } catch (...) {
    (void)disarm();
    report.threw = true;
  }
  report.phase = Report::done;
  _exit(0);
}

// How many allocations the work takes.
int64_t measure(const Work& work) {
  auto* const count =
      static_cast<int64_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *count = -1;
  const pid_t pid = fork();
  if (pid == 0) {
    arm(0, Mode::once);
    const Status status = work.call();
    const int64_t seen = disarm();
    if (!status.ok()) std::fprintf(stderr, "%s fails by itself: %s\n", work.name.c_str(), status.str().c_str());
    if (status.ok() && work.is_right()) *count = seen;
    _exit(0);
  }
  (void)waitpid(pid, nullptr, 0);
  const int64_t seen = *count;
  (void)munmap(count, 4096);
  return seen;
}

std::string find_name(const void* address) {
  const Place place = find_place(address);
  if (!place.symbol.empty()) return place.module + "!" + demangled(place.symbol).substr(0, 110);
  Dl_info info = {};
  char offset[32] = "?";
  if (dladdr(address, &info) != 0) {
    const auto bytes = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
    std::snprintf(offset, sizeof(offset), "+0x%zx", static_cast<std::size_t>(bytes));
  }
  return place.module + offset;
}

// LLVM's handler of failed allocations is ours, but called by LLVM, whose functions its exception must leave.
bool is_ours(const Place& place) {
  const bool handler = place.symbol.find("5fusec7codegen12_GLOBAL__N_113out_of_memory") != std::string::npos;
  return place.module == "program" && place.symbol.find("5fusec") != std::string::npos && !handler;
}

// Of a crash: the calls up to the first of ours, and the known cause, or null.
struct Crash {
  std::string where;
  const char* known = nullptr;
};

Crash explain(const Report& report) {
  Crash crash;
  crash.where = "signal " + std::to_string(report.signal) + (report.phase == Report::again ? ", in the next call" : "");
  int shown = 0;
  // The handler itself and what the kernel called it through come first.
  for (int i = 2; i < report.frames && shown < 12; ++i) {
    const Place place = find_place(report.stack[i]);
    for (const Known& known : kKnown) {
      const bool is_it = known.signal == report.signal && !is_ours(place) && place.module == known.module &&
                         place.symbol.find(known.symbol) != std::string::npos;
      if (is_it && crash.known == nullptr) crash.known = known.cause;
    }
    if (place.module == "libc.so.6") continue;
    crash.where += "\n      " + find_name(report.stack[i]);
    ++shown;
    if (is_ours(place)) break;
  }
  return crash;
}

struct Row {
  std::string work;
  Mode mode = Mode::once;
  int64_t allocations = 0;
  int tries = 0, out_of_memory = 0, ok = 0, other = 0, poisoned = 0, threw = 0, hung = 0, known = 0, crashed = 0;
  std::map<std::string, std::vector<int64_t>> faults = {};  // n by fault
  std::map<std::string, int> causes = {};

  bool good() const { return tries > 0 && other + poisoned + threw + hung + crashed == 0; }
};

void count(Row& row, const Report& report, int status, int64_t n) {
  ++row.tries;
  if (report.signal != 0) {
    const Crash crash = explain(report);
    ++(crash.known != nullptr ? row.known : row.crashed);
    if (crash.known != nullptr)
      ++row.causes[crash.known];
    else
      row.faults["crash, " + crash.where].push_back(n);
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    ++row.hung;
    row.faults["it hangs"].push_back(n);
  } else if (WIFSIGNALED(status) || report.phase != Report::done) {
    ++row.crashed;
    row.faults["the process ended, wait status " + std::to_string(status)].push_back(n);
  } else if (report.threw) {
    ++row.threw;
    row.faults["an exception left the library"].push_back(n);
  } else if (report.second != StatusCode::ok || !report.right) {
    ++row.poisoned;
    row.faults[std::string("the next call is not right: ") + report.message].push_back(n);
  } else if (report.first == StatusCode::ok) {
    ++row.ok;
  } else if (report.first == StatusCode::out_of_memory) {
    ++row.out_of_memory;
  } else {
    ++row.other;
    row.faults[std::string("another error: ") + report.message].push_back(n);
  }
}

// The first ones, where static objects are made, then even steps.
std::vector<int64_t> sample(int64_t allocations, int tries, uint32_t seed) {
  std::vector<int64_t> out;
  const int64_t dense = std::min<int64_t>(allocations, tries / 10);
  for (int64_t n = 1; n <= dense; ++n) out.push_back(n);
  const int64_t left = std::min<int64_t>(tries - dense, allocations - dense);
  for (int64_t i = 0; i < left; ++i) {
    const int64_t begin = dense + (allocations - dense) * i / left,
                  end = dense + (allocations - dense) * (i + 1) / left;
    seed = seed * 1664525u + 1013904223u;
    out.push_back(begin + 1 + (seed >> 8) % std::max<int64_t>(end - begin, 1));
  }
  return out;
}

Row run(const Work& work, Mode mode, int64_t allocations, int tries, uint32_t seed) {
  Row row{work.name, mode, allocations};
  auto* const reports = static_cast<Report*>(
      mmap(nullptr, kChildren * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::array<pid_t, kChildren> pids{};
  std::array<int64_t, kChildren> at{};
  const auto collect = [&] {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    for (std::size_t i = 0; i < kChildren; ++i) {
      if (pids[i] != pid) continue;
      count(row, reports[i], status, at[i]);
      pids[i] = 0;
    }
  };
  for (const int64_t n : sample(allocations, tries, seed)) {
    while (std::find(pids.begin(), pids.end(), 0) == pids.end()) collect();
    const auto slot = static_cast<std::size_t>(std::find(pids.begin(), pids.end(), 0) - pids.begin());
    reports[slot] = Report{};
    at[slot] = n;
    pids[slot] = fork();
    if (pids[slot] == 0) child(work, n, mode, reports[slot]);
  }
  while (std::any_of(pids.begin(), pids.end(), [](pid_t p) { return p > 0; })) collect();
  (void)munmap(reports, kChildren * sizeof(Report));
  return row;
}

void print_head() {
  std::printf(
      "| work | fails | allocations | tries | out_of_memory | ok | other error | poisoned | exception | hang | "
      "crash, known cause | crash |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::fflush(stdout);
}

void print(const Row& r) {
  std::printf("| %s | %s | %lld | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.work.c_str(),
              r.mode == Mode::once ? "the n-th" : "from the n-th on", static_cast<long long>(r.allocations), r.tries,
              r.out_of_memory, r.ok, r.other, r.poisoned, r.threw, r.hung, r.known, r.crashed);
  for (const auto& [cause, times] : r.causes) std::printf("    known, %d times: %s\n", times, cause.c_str());
  for (const auto& [fault, at] : r.faults) {
    std::printf("    FAULT, %zu times, first at n = %lld: %s\n", at.size(), static_cast<long long>(at.front()),
                fault.c_str());
  }
  std::fflush(stdout);
}

// In a process of its own, which is as fresh as a user's.
bool in_a_process(const std::function<bool()>& body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const bool good = body();
    std::fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  (void)waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Without fork and without a handler.
bool try_here(const Work& work, int64_t n, Mode mode) {
  work.prepare();
  arm(n, mode);
  const Status first = work.call();
  (void)disarm();
  const Status second = work.call();
  std::printf("%s\n%s\n", first.str().c_str(), second.str().c_str());
  return second.ok();
}

bool loop(const Work& work, int tries, uint32_t seed) {
  work.prepare();
  const int64_t allocations = measure(work);
  if (allocations <= 0) return std::printf("%s does not work with memory\n", work.name.c_str()), false;
  const Row once = run(work, Mode::once, allocations, tries, seed);
  print(once);
  const Row always = run(work, Mode::always, allocations, std::max(tries / 2, 1), seed + 1);
  print(always);
  return once.good() && always.good();
}

int run_main(int argc, char** argv, const std::string& folder) {
  int tries = 150;
  uint32_t seed = 1;
  int64_t at = 0;
  bool list = false, always = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--tries" && i + 1 < argc)
      tries = std::atoi(argv[++i]);
    else if (arg == "--seed" && i + 1 < argc)
      seed = static_cast<uint32_t>(std::atoi(argv[++i]));
    else if (arg == "--at" && i + 1 < argc)
      at = std::atoll(argv[++i]);
    else if (arg == "--always")
      always = true;
    else if (arg == "--list")
      list = true;
    else
      wanted.emplace_back(arg);
  }
  const std::vector<Work> all = works(folder);
  if (list) {
    for (const Work& work : all) std::puts(work.name.c_str());
    return 0;
  }
  if (!in_a_process([&] { return write_files(folder), true; })) return 1;
  if (at == 0) print_head();
  bool good = true;
  std::size_t done = 0;
  for (const Work& work : all) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), work.name) == wanted.end()) continue;
    good = (at > 0 ? try_here(work, at, always ? Mode::always : Mode::once)
                   : in_a_process([&] { return loop(work, tries, seed); })) &&
           good;
    ++done;
  }
  if (done == 0) std::puts("no work has this name; --list names them");
  return good && done > 0 ? 0 : 1;
}

}  // namespace
}  // namespace fusec::oom_test

int main(int argc, char** argv) {
  // One thread, because a forked child has no others; OpenMP reads this when the process starts.
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads == nullptr || std::strcmp(threads, "1") != 0) {
    (void)setenv("OMP_NUM_THREADS", "1", 1);
    (void)execv("/proc/self/exe", argv);
    return 1;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("fusec_oom." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  const int code = fusec::oom_test::run_main(argc, argv, folder.string());
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}
