// SPDX-License-Identifier: Apache-2.0
// Measures wall-clock times of a call, alone or between two copies of as many bytes, and the fastest copy of this
// machine's memory: memcpy and streaming stores, on all threads and on one. Rounds whose two copies differ too much are
// dropped, because the machine changed its memory speed in between.

#include "runtime/tool/measure/timing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/threads/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMinRuns = 5, kMaxRuns = 100'000;
constexpr int64_t kFewRuns = 3;   // of a call for which the budget has no room
constexpr double kPatience = 2;   // budgets that a restless machine may cost
constexpr double kSearch = 0.25;  // of the budget, to find the fastest copy
constexpr double kSteady = 1.08;  // two copies of one round: the machine changes its memory speed within seconds
constexpr double kBlockUs = 200;  // what is timed takes at least so long, against the clock's own cost
constexpr int64_t kMaxRepeats = 1000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// good: runs that will count, of all of them.
bool enough(const Budget& budget, int64_t runs, int64_t good, Clock::time_point start) {
  if (budget.runs > 0) return runs >= budget.runs;
  const double seconds = seconds_since(start);
  if (seconds >= kPatience * budget.seconds) return runs >= kFewRuns;
  return runs >= kMaxRuns || (good >= kMinRuns && seconds >= budget.seconds);
}

int64_t repeats_for(double us) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kBlockUs / std::max(us, 0.01))), 1, kMaxRepeats);
}

double time_repeated(const Call& call, int64_t repeats) {
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < repeats; ++i) call();
  return 1e6 * seconds_since(start) / static_cast<double>(repeats);
}

struct Round {
  double before = 0, call = 0, after = 0;
  bool steady() const { return std::max(before, after) <= kSteady * std::min(before, after); }
  double copy() const { return (before + after) / 2; }
};

Paired summary(const std::vector<Round>& rounds) {
  Paired out;
  out.rounds = static_cast<int64_t>(rounds.size());
  out.kept = std::count_if(rounds.begin(), rounds.end(), [](const Round& r) { return r.steady(); });
  std::vector<double> copies, scores;
  for (const Round& round : rounds) {
    if (out.kept > 0 && !round.steady()) continue;
    out.us.push_back(round.call);
    copies.push_back(round.copy());
    scores.push_back(round.copy() / round.call);
  }
  out.copy_us = median(copies);
  out.score = median(scores);
  const auto [low, high] = std::minmax_element(copies.begin(), copies.end());
  out.copy_spread = *high / *low;
  return out;
}

}  // namespace

double time_us(const Call& call) { return time_repeated(call, 1); }

std::vector<double> time_runs(const Call& call, const Budget& budget) {
  for (int64_t i = 0; i < budget.warmup; ++i) call();
  std::vector<double> us;
  const Clock::time_point start = Clock::now();
  while (!enough(budget, static_cast<int64_t>(us.size()), static_cast<int64_t>(us.size()), start))
    us.push_back(time_us(call));
  return us;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
  const std::size_t at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

Paired time_paired(const Call& call, CopySpeed& copy, int64_t bytes, const Budget& budget) {
  const CopyMethod method = copy.fastest(bytes, kSearch * budget.seconds);
  double last_us = 0;
  for (int64_t i = 0; i < std::max<int64_t>(budget.warmup, 1); ++i) last_us = time_us(call);
  const Call copy_call = [&] { copy.run(method, bytes); };
  const int64_t calls = repeats_for(last_us), copies = repeats_for(time_us(copy_call));
  std::vector<Round> rounds;
  int64_t steady = 0;
  double before = time_repeated(copy_call, copies);
  const Clock::time_point start = Clock::now();
  while (!enough(budget, static_cast<int64_t>(rounds.size()), steady, start)) {
    Round round;
    round.before = before;
    round.call = time_repeated(call, calls);
    round.after = before = time_repeated(copy_call, copies);
    rounds.push_back(round);
    steady += round.steady();
  }
  Paired out = summary(rounds);
  out.method = method;
  return out;
}

namespace {

constexpr int64_t kLine = 64;
constexpr int kTries = 4;
constexpr int64_t kOneThread = 4 << 20;  // bytes up to which a copy by one thread may be the fastest

#if defined(__x86_64__)
constexpr int64_t kAhead = 2048;  // bytes; 1 to 4 KiB measured the same

[[gnu::target("avx512f")]] void copy_avx512(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 4 * kLine) {
    for (int64_t j = i; j < i + 4 * kLine; j += kLine) {
      _mm_prefetch(reinterpret_cast<const char*>(from + j + kAhead), _MM_HINT_T0);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + j),
                          _mm512_load_si512(reinterpret_cast<const __m512i*>(from + j)));
    }
  }
  _mm_sfence();
}

[[gnu::target("avx2")]] void copy_avx2(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 4 * kLine) {
    for (int64_t j = i; j < i + 4 * kLine; j += kLine) {
      _mm_prefetch(reinterpret_cast<const char*>(from + j + kAhead), _MM_HINT_T0);
      const auto* source = reinterpret_cast<const __m256i*>(from + j);
      const __m256i low = _mm256_load_si256(source), high = _mm256_load_si256(source + 1);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + j), low);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + j) + 1, high);
    }
  }
  _mm_sfence();
}

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }
#else
void copy_avx512(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void copy_avx2(std::byte* to, const std::byte* from, int64_t bytes) { copy_avx512(to, from, bytes); }
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

// Whole groups of four lines by `kind`, what is left by memcpy.
void copy_range(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t wide = kind == CopyKind::memcpy_ ? 0 : bytes / (4 * kLine) * (4 * kLine);
  if (kind == CopyKind::avx512) copy_avx512(to, from, wide);
  if (kind == CopyKind::avx2) copy_avx2(to, from, wide);
  if (bytes > wide) std::memcpy(to + wide, from + wide, static_cast<std::size_t>(bytes - wide));
}

int64_t half(int64_t bytes) { return std::max<int64_t>(bytes / 2, 1); }

}  // namespace

const char* to_string(CopyKind kind) {
  switch (kind) {
    case CopyKind::memcpy_:
      return "memcpy";
    case CopyKind::avx2:
      return "avx2 streaming";
    case CopyKind::avx512:
      return "avx512 streaming";
  }
  return "";
}

std::string to_string(const CopyMethod& method) {
  return std::string(to_string(method.kind)) +
         (method.threads == 1 ? ", 1 thread" : ", " + std::to_string(method.threads) + " threads");
}

Result<CopySpeed> CopySpeed::make(int64_t bytes, int threads) {
  CopySpeed copy;
  copy.threads_ = threads;
  FUSEC_TRY(copy.reserve(bytes));
  return copy;
}

Status CopySpeed::reserve(int64_t bytes) {
  const int64_t wanted = half(bytes);
  if (from_.bytes() >= wanted) return {};
  from_ = {};
  to_ = {};
  FUSEC_ASSIGN(from_, runtime::AlignedBuffer::make(wanted));
  FUSEC_ASSIGN(to_, runtime::AlignedBuffer::make(wanted));
  // Each thread touches first what it will copy; pages that were never written would all be one page of zeros.
  runtime::parallel_for(threads_, wanted / kLine + 1, [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kLine, bytes_here = std::min(end * kLine, wanted) - first;
    std::memset(from_.data() + first, 1, static_cast<std::size_t>(bytes_here));
    std::memset(to_.data() + first, 2, static_cast<std::size_t>(bytes_here));
  });
  return {};
}

void CopySpeed::run(const CopyMethod& method, int64_t bytes) const {
  const int64_t total = half(bytes);
  runtime::parallel_for(method.threads, (total + kLine - 1) / kLine, [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kLine;
    copy_range(method.kind, to_.data() + first, from_.data() + first, std::min(end * kLine, total) - first);
  });
}

std::vector<CopyKind> CopySpeed::kinds() const {
  std::vector<CopyKind> out{CopyKind::memcpy_};
  if (has_avx2()) out.push_back(CopyKind::avx2);
  if (has_avx512()) out.push_back(CopyKind::avx512);
  return out;
}

double CopySpeed::best_us(const CopyMethod& method, int64_t bytes, int tries) const {
  double best = 1e300;
  for (int i = 0; i < tries; ++i) best = std::min(best, time_us([&] { run(method, bytes); }));
  return best;
}

CopyMethod CopySpeed::fastest(int64_t bytes, double seconds) const {
  std::vector<CopyMethod> methods;
  for (const CopyKind kind : kinds()) {
    methods.push_back({kind, threads_});
    if (threads_ > 1 && bytes <= kOneThread) methods.push_back({kind, 1});
  }
  std::vector<double> best(methods.size(), 1e300);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kTries && (i == 0 || seconds_since(start) < seconds); ++i) {
    for (std::size_t w = 0; w < methods.size(); ++w) best[w] = std::min(best[w], best_us(methods[w], bytes, 2));
  }
  return methods[static_cast<std::size_t>(std::min_element(best.begin(), best.end()) - best.begin())];
}

std::vector<CopyRow> copy_table(CopySpeed& copy, int64_t max_bytes) {
  std::vector<CopyRow> rows;
  for (const int64_t mb : {1, 8, 48, 256, 1024}) {
    const int64_t bytes = mb << 20;
    if (bytes > max_bytes) break;
    for (const CopyKind kind : copy.kinds()) {
      rows.push_back(
          {bytes, kind, static_cast<double>(bytes) / (1e3 * copy.best_us({kind, copy.threads()}, bytes, 5))});
    }
  }
  return rows;
}

}  // namespace fusec::tool
