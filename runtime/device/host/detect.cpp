// SPDX-License-Identifier: Apache-2.0
// Builds the Target of this machine from CPUID, and finds the cache sizes and the number of usable cores in /sys, the
// affinity mask and the control group. The compiler never asks the machine; it only sees this Target.

#include "runtime/device/host/detect.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace fusec::runtime {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Features beyond x86-64-v4 that code generation may use, by LLVM's names.
std::vector<std::string> extra_features() {
  std::vector<std::string> out;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vbmi")) out.push_back("avx512vbmi");
  if (__builtin_cpu_supports("avx512vnni")) out.push_back("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) out.push_back("avx512bf16");
#endif
  return out;
}

// 2, 3 or 4: the highest level of the x86-64 psABI that processor and system support; 0: none.
int x86_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 0;
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  if (!v3) return 2;
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : 3;
#else
  return 0;
#endif
}

// Data and unified caches of core 0, as the kernel lists them.
void read_caches(Target& target) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = read_line(folder + "level");
    if (level.empty()) break;
    if (read_line(folder + "type") == "Instruction") continue;
    const std::optional<int64_t> bytes = parse_cache_size(read_line(folder + "size"));
    if (!bytes) continue;
    if (level == "1") target.l1_bytes = *bytes;
    if (level == "2") target.l2_bytes = *bytes;
    target.last_level_cache = *bytes;
  }
}

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Cores granted by version 2 (one line "quota period") or 1 (two files) of control groups. The group's own files appear
// at the mount point inside a container; outside of one, the path of /proc/self/cgroup leads to them.
std::optional<int> cgroup_cores() {
  std::ifstream groups("/proc/self/cgroup");
  std::optional<int> least;
  const auto take = [&](std::optional<int> cores) {
    if (cores) least = std::min(least.value_or(*cores), *cores);
  };
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); !path.empty() && path != "/"; path = path.substr(0, path.rfind('/'))) {
      take(cores_of_cpu_max(read_line("/sys/fs/cgroup" + path + "/cpu.max")));
    }
  }
  take(cores_of_cpu_max(read_line("/sys/fs/cgroup/cpu.max")));
  const std::string v1 = "/sys/fs/cgroup/cpu/cpu.cfs_";
  take(cores_of_cpu_max(read_line(v1 + "quota_us") + " " + read_line(v1 + "period_us")));
  return least;
}

}  // namespace

std::optional<int> cores_of_cpu_max(const std::string& text) {
  std::istringstream in(text);
  int64_t quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<int64_t>((quota - 1) / period + 1, 1, 1 << 16));
}

std::optional<int64_t> parse_cache_size(const std::string& text) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number <= 0 || number > (int64_t{1} << 40)) return std::nullopt;
  const std::string unit(rest, text.data() + text.size());
  if (unit.empty()) return number;
  if (unit == "K") return number << 10;
  if (unit == "M") return number << 20;
  return std::nullopt;
}

std::optional<int64_t> bytes_of_memory_max(const std::string& text) {
  int64_t bytes = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool whole = error == std::errc() && rest == text.data() + text.size();
  return whole && bytes > 0 ? std::optional(bytes) : std::nullopt;
}

int64_t host_memory() {
  const int64_t all = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t least = all;
  for (const char* const file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    least = std::min(least, bytes_of_memory_max(read_line(file)).value_or(all));
  return least;
}

int host_threads(const Options& options) {
  if (options.host_threads != nullptr) {
    const int had = std::max(options.host_threads->count(), 1);
    return options.threads > 0 ? std::min(options.threads, had) : had;
  }
  if (options.threads > 0) return options.threads;
  if (const char* text = secure_getenv("OMP_NUM_THREADS")) {
    const int threads = std::atoi(text);
    if (threads > 0) return threads;
  }
  const int cores = affinity_cores();
  return std::min(cores, cgroup_cores().value_or(cores));
}

Result<Target> host_target(const Options& options) {
  const int level = x86_level();
  if (level == 0) return Status(StatusCode::unsupported, "the processor is below x86-64-v2 (SSE4.2)");
  FUSEC_ASSIGN(Target own, named_target("x86-64-v" + std::to_string(level)));
  if (level == 4) {
    for (const std::string& feature : extra_features()) own.features.push_back(feature);
    std::sort(own.features.begin(), own.features.end());
  }
  Target target = own;
  if (!options.target.empty()) {
    FUSEC_ASSIGN(target, named_target(options.target));
    if (target.kind != TargetKind::cpu) {
      return Status(StatusCode::invalid_argument, "target " + target.name + " is a GPU's; the device is cpu");
    }
    for (const std::string& feature : target.features) {
      if (own.has(feature)) continue;
      return Status(StatusCode::invalid_argument, "this machine lacks '" + feature + "' of " + target.name);
    }
  }
  target.threads = host_threads(options);
  read_caches(target);
  return target;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "unknown";
}

}  // namespace fusec::runtime
