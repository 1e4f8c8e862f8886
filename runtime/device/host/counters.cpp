// SPDX-License-Identifier: Apache-2.0
// By perf_event_open of Linux. A counter counts one thread: workers of a team exist already when counting starts.

#include "runtime/device/host/counters.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace fusec::runtime {
namespace {

struct CounterKind {
  uint64_t config;
  const char* name;
};
constexpr CounterKind kCounters[] = {{PERF_COUNT_HW_INSTRUCTIONS, "instructions"},
                                     {PERF_COUNT_HW_CPU_CYCLES, "cycles"},
                                     {PERF_COUNT_HW_CACHE_MISSES, "cache-misses"}};

int open_counter(uint64_t config, int thread) {
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = config;
  attributes.exclude_kernel = 1;  // which is allowed to more programs
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::vector<int> threads_of_process() {
  std::vector<int> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    int thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) threads.push_back(thread);
  }
  return threads;
}

Status forbidden(int reason) {
  std::string level;
  std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> level;
  std::string text = std::string("cycles and cache misses are not counted: ") + std::strerror(reason);
  if (!level.empty()) text += " (kernel.perf_event_paranoid is " + level + ")";
  return Status(StatusCode::unsupported, text);
}

}  // namespace

Result<ProcessorCounters> ProcessorCounters::start() {
  ProcessorCounters counters;
  int reason = ENOENT;
  for (const int thread : threads_of_process()) {
    for (const CounterKind& kind : kCounters) {
      const int file = open_counter(kind.config, thread);
      if (file >= 0) {
        counters.counters_.push_back({file, kind.name});
      } else {
        reason = errno;
      }
    }
  }
  if (counters.counters_.empty()) return forbidden(reason);
  return counters;
}

ProcessorCounters::~ProcessorCounters() {
  for (const Counter& counter : counters_) (void)close(counter.file);
}

// A counter that shared its register with others counted only some of the time.
std::map<std::string, double> ProcessorCounters::read() const {
  std::map<std::string, double> sums;
  for (const Counter& counter : counters_) {
    std::array<uint64_t, 3> values{};  // the count, nanoseconds enabled, nanoseconds counted
    if (::read(counter.file, values.data(), sizeof(values)) != sizeof(values)) continue;
    double& sum = sums[counter.name];
    if (values[2] > 0)
      sum += static_cast<double>(values[0]) * static_cast<double>(values[1]) / static_cast<double>(values[2]);
  }
  return sums;
}

}  // namespace fusec::runtime
