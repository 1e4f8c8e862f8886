// SPDX-License-Identifier: Apache-2.0
// fuzz_graphs: random graphs, compiled and evaluated.
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "ir/support/hash.h"
#include "ir/text/graph_text.h"
#include "runtime/device/host/detect.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/generate.h"
#include "tests/fuzz/shrink.h"
#include "tests/fuzz/variant.h"

namespace fusec::fuzz {
namespace {

constexpr const char* kUsage = R"(usage: fuzz_graphs [options]
  --count N            cases to run (default 200)
  --seed S             of the first case; case i has seed S + i (default 1)
  --kernel-evaluator   run kernels by their evaluator instead of compiling them
  --beside FORM        also in another form: unfused, narrow, shuffled, permuted, fixed, or any of these by the seed
                       (narrow: not on a GPU)
  --shrink-to DIR      write each failure, made small, as DIR/fuzz_<seed>.fir
  --print              print each graph before it runs
  --threads N          fix the threads of a run
  --target NAME        fix the target
  --numerics NAME      precise, exact or fast
  --no-library         plain loops in place of oneDNN, generated code in place of a GPU's libraries, always
  --disable-pass NAME  leave this pass out (may be repeated)
  --device NAME        compile and run for this device, with tensors on the host: cuda:0
  --codegen NAME       of a GPU: nvrtc or llvm
  --jobs N             processes side by side (default 1)
  --first              stop each process at its first failure
  --seconds N          end after so long, without an end to the cases unless --count is given
SIGTERM ends the run after the cases at work; the counts until then are printed.
)";

struct Settings {
  int64_t count = 0;  // 0: 200, or no end where seconds are given
  int seconds = 0;
  uint64_t seed = 1;
  bool kernel_evaluator = false, first = false, print = false, no_library = false;
  std::string shrink_to, target, numerics, device, codegen, beside = "nothing";
  std::string cache_dir;  // of kernels, for every fourth case
  int threads = 0;
  int jobs = 1;
  std::vector<std::string> disabled;
};

// What is undecided in an average case. Every case weighs the same, so that one large tensor does not outvote all.
struct Share {
  int64_t cases, elements;
  int64_t undecided;  // sum over cases, in millionths of the case's elements
};

// Counts of all processes.
struct Totals {
  volatile sig_atomic_t stop;  // no more cases: what has been counted is printed
  int64_t cases, failures;
  Share plain, special;
  int64_t next[64];  // the case each process is at
  struct Slow {
    double seconds;
    uint64_t seed;
  } slowest[64];  // of each process
  struct Found {
    Fault fault;
    char message[4000];
  } found[64];
};

// Several processes add to one total.
void add(Share& total, const Count& of_case) {
  if (of_case.elements == 0) return;
  __atomic_add_fetch(&total.cases, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&total.elements, of_case.elements, __ATOMIC_RELAXED);
  __atomic_add_fetch(&total.undecided, of_case.undecided * 1'000'000 / of_case.elements, __ATOMIC_RELAXED);
}

double percent_undecided(const Share& s) {
  return s.cases == 0 ? 0 : 1e-4 * static_cast<double>(s.undecided) / static_cast<double>(s.cases);
}

Totals* shared_totals = nullptr;
void stop(int) { shared_totals->stop = 1; }

// Percent of an average case. A comparison, a cast or an index that hangs on rounding is rare. NaN, infinities and the
// largest numbers make more: 3 % over many seeds. One product over a row with infinities may leave half of a case
// undecided, so the mean of the 140 such runs in 1,000 cases varies by more than 1 %.
constexpr double kMaxUndecided = 1, kMaxUndecidedSpecial = 8;

constexpr int kFound = 3;  // exit code of a process that found something

bool runs_here(const std::string& target) {
  Options options;
  options.target = target;
  return runtime::host_target(options).ok();
}

Case make_case(const Settings& s, int64_t i) {
  Case c = generate(s.seed + static_cast<uint64_t>(i));
  c.setting.kernel_evaluator = s.kernel_evaluator;
  c.setting.beside = s.beside == "any" ? Beside{static_cast<uint8_t>(1 + c.seed % 6)} : *find_beside(s.beside);
  if (c.setting.beside == Beside::narrow && !s.device.empty()) c.setting.beside = Beside::nothing;
  if (c.seed % 4 == 3 && !s.kernel_evaluator) {
    c.setting.cache_dir = s.cache_dir;
    // Kernels of other extents: of some the text is the same, and what is known of them is not.
    if (c.setting.beside == Beside::nothing && !c.graph.symbols.empty()) c.setting.beside = Beside::fixed;
  }
  if (c.setting.beside == Beside::narrow && !s.kernel_evaluator) c.setting.target.clear();
  // What the seed drew may be above this machine: its own target then. One that was asked for is tried, and refused.
  if (!s.kernel_evaluator && !runs_here(c.setting.target)) c.setting.target.clear();
  // A GPU's schedules and the passes of its own need no GPU here.
  if (s.kernel_evaluator && c.seed % 8 == 1) c.setting.target = "sm_90";
  if (s.threads > 0) c.setting.threads = s.threads;
  if (!s.target.empty()) c.setting.target = s.target;
  if (!s.device.empty()) {
    c.setting.device = s.device;
    c.setting.target.clear();
    if (c.setting.call == Call::jit) c.setting.call = Call::session;
  }
  if (s.codegen == "nvrtc") c.setting.codegen = Codegen::nvrtc;
  if (s.codegen == "llvm") c.setting.codegen = Codegen::llvm;
  if (s.numerics == "precise") c.setting.numerics = Numerics::precise;
  if (s.numerics == "exact") c.setting.numerics = Numerics::exact;
  if (s.numerics == "fast") c.setting.numerics = Numerics::fast;
  if (s.no_library) c.setting.use_library = false;
  c.setting.disabled_passes.insert(c.setting.disabled_passes.end(), s.disabled.begin(), s.disabled.end());
  return c;
}

std::string describe(const Setting& s) {
  std::string out = s.numerics == Numerics::precise ? "precise" : s.numerics == Numerics::exact ? "exact" : "fast";
  out += s.use_library ? "" : ", no library";
  if (!s.target.empty()) out += ", " + s.target;
  out += fmt::format(", {} threads", s.threads);
  out += s.kernel_evaluator         ? ", kernels evaluated"
         : s.call == Call::strided  ? ", strided"
         : s.call == Call::jit      ? ", jit"
         : s.call == Call::in_place ? ", in place"
                                    : "";
  if (!s.cache_dir.empty()) out += ", kernels of cases before";
  if (s.device != "cpu") out += ", on " + s.device;
  if (s.beside != Beside::nothing) out += std::string(", beside ") + to_string(s.beside);
  for (const std::string& pass : s.disabled_passes) out += ", without " + pass;
  return out;
}

void report(const Settings& s, const Case& c, const Outcome& outcome) {
  fmt::print("seed {}: {}: {}\n  ({})\n", c.seed, to_string(outcome.fault), outcome.message, describe(c.setting));
  std::fflush(stdout);  // before children of this process have it, too
  if (s.shrink_to.empty()) return;
  const Case small = shrink(c, outcome);
  const Outcome again = check_apart(small);
  fmt::print("  made small: {}: {}\n  ({})\n{}", to_string(again.fault), again.message, describe(small.setting),
             as_text(small));
  const std::string path = fmt::format("{}/fuzz_{}.fir", s.shrink_to, c.seed);
  if (FILE* file = std::fopen(path.c_str(), "w")) {
    std::fputs(as_test(small).c_str(), file);
    std::fclose(file);
  }
  std::fflush(stdout);
}

#ifndef __SANITIZE_ADDRESS__
// Prints the calls that lead to a crash; the signal then ends the process as if there were no handler.
void print_stack(int) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

void print_stack_of_crashes() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs, which a handler must not
  static char stack[1 << 16];
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = print_stack;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}
#else
void print_stack_of_crashes() {}
#endif

// Cases job, job + jobs, ... from where it stands, until one fails. What fails is left to the supervisor, whose
// children have no threads of earlier cases to wait for.
void work(const Settings& s, Totals& totals, int job) {
  for (int64_t& i = totals.next[job]; i < s.count && !totals.stop; i += s.jobs) {
    alarm(kMaxSeconds);
    const auto started = std::chrono::steady_clock::now();
    const Case c = make_case(s, i);
    if (s.print) fmt::print("seed {} ({})\n{}", c.seed, describe(c.setting), ir::print(c.graph));
    std::fflush(stdout);
    const Outcome outcome = check(c);
    add(totals.plain, outcome.plain);
    add(totals.special, outcome.special);
    if (outcome.fault != Fault::none) {
      Totals::Found& found = totals.found[job];
      found.fault = outcome.fault;
      found.message[outcome.message.copy(found.message, sizeof found.message - 1)] = 0;
      _exit(kFound);
    }
    __atomic_add_fetch(&totals.cases, 1, __ATOMIC_RELAXED);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (seconds > totals.slowest[job].seconds) totals.slowest[job] = {seconds, c.seed};
  }
}

// One process works; when it ends at a case, that is a failure, and another goes on behind it.
void supervise(const Settings& s, Totals& totals, int job) {
  while (totals.next[job] < s.count && !totals.stop) {
    const pid_t child = fork();
    if (child == 0) {
      print_stack_of_crashes();
      work(s, totals, job);
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    Outcome outcome = crashed(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kFound)
      outcome = {totals.found[job].fault, totals.found[job].message};
    __atomic_add_fetch(&totals.failures, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&totals.cases, 1, __ATOMIC_RELAXED);
    report(s, make_case(s, totals.next[job]), outcome);
    totals.next[job] += s.jobs;
    if (s.first) return;
  }
}

// A folder of this process in memory, where there is such a place, that is gone at the end.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    path_ = ((std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) /
             "fusec_fuzz_XXXXXX")
                .string();
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run(Settings s) {
  if (s.count == 0) s.count = s.seconds > 0 ? int64_t{1} << 40 : 200;
  const Folder folder;
  s.cache_dir = folder.path();
  void* shared = mmap(nullptr, sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Totals& totals = *new (shared) Totals{};
  shared_totals = &totals;
  std::signal(SIGTERM, stop);  // of all processes
  std::fflush(stdout);
  std::vector<pid_t> jobs;
  for (int job = 0; job < s.jobs; ++job) {
    totals.next[job] = job;
    const pid_t child = fork();
    if (child == 0) {
      supervise(s, totals, job);
      std::fflush(stdout);
      _exit(0);
    }
    jobs.push_back(child);
  }
  if (s.seconds > 0) {  // of this process alone, which only waits
    std::signal(SIGALRM, stop);
    alarm(static_cast<unsigned>(s.seconds));
  }
  for (const pid_t child : jobs) waitpid(child, nullptr, 0);
  alarm(0);
  const bool time_is_up = s.seconds > 0 && totals.stop;
  if (totals.stop && !time_is_up) fmt::print("stopped before the end of {} cases\n", s.count);
  const Totals::Slow& slow = *std::max_element(std::begin(totals.slowest), std::end(totals.slowest),
                                               [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  fmt::print("slowest: seed {}, {:.1f} s\n", slow.seed, slow.seconds);
  fmt::print("of runs with special values: {} elements, {:.3f} % undecided\n", totals.special.elements,
             percent_undecided(totals.special));
  fmt::print("{} cases, {} failures, {} elements, {:.3f} % undecided\n", totals.cases, totals.failures,
             totals.plain.elements, percent_undecided(totals.plain));
  const bool decided =
      percent_undecided(totals.plain) < kMaxUndecided && percent_undecided(totals.special) < kMaxUndecidedSpecial;
  return totals.failures == 0 && (totals.cases == s.count || time_is_up) && decided ? 0 : 1;
}

}  // namespace
}  // namespace fusec::fuzz

int main(int argc, char** argv) {
  fusec::fuzz::Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--kernel-evaluator") {
      s.kernel_evaluator = true;
    } else if (flag == "--first") {
      s.first = true;
    } else if (flag == "--print") {
      s.print = true;
    } else if (flag == "--no-library") {
      s.no_library = true;
    } else if (i + 1 == argc || !flag.starts_with("--")) {
      std::fputs(fusec::fuzz::kUsage, stderr);
      return 2;
    } else {
      const std::string value = argv[++i];
      if (flag == "--count")
        s.count = std::atoll(value.c_str());
      else if (flag == "--seed")
        s.seed = std::strtoull(value.c_str(), nullptr, 10);
      else if (flag == "--shrink-to")
        s.shrink_to = value;
      else if (flag == "--threads")
        s.threads = std::atoi(value.c_str());
      else if (flag == "--device")
        s.device = value;
      else if (flag == "--codegen" && (value == "nvrtc" || value == "llvm"))
        s.codegen = value;
      else if (flag == "--beside" && (value == "any" || fusec::fuzz::find_beside(value)))
        s.beside = value;
      else if (flag == "--target")
        s.target = value;
      else if (flag == "--numerics")
        s.numerics = value;
      else if (flag == "--disable-pass")
        s.disabled.push_back(value);
      else if (flag == "--jobs")
        s.jobs = std::clamp(std::atoi(value.c_str()), 1, 64);
      else if (flag == "--seconds")
        s.seconds = std::max(std::atoi(value.c_str()), 1);
      else {
        std::fputs(fusec::fuzz::kUsage, stderr);
        return 2;
      }
    }
  }
  if (s.beside == "narrow" && !s.device.empty()) {
    std::fputs("--beside narrow: not with --device\n", stderr);
    return 2;
  }
  std::error_code error;
  if (!s.shrink_to.empty()) std::filesystem::create_directories(s.shrink_to, error);
  if (error) {
    fmt::print(stderr, "--shrink-to {}: {}\n", s.shrink_to, error.message());
    return 2;
  }
  return fusec::fuzz::run(s);
}
