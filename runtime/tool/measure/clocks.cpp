// SPDX-License-Identifier: Apache-2.0
// Reads clocks, governor and load from /proc and /sys, and the clocks of a GPU from NVML, which is opened at run time.
// The few declarations of NVML that are needed stand here, because its header comes with the CUDA toolkit alone.

#include "runtime/tool/measure/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "ir/support/shared_library.h"

namespace fusec::tool {
namespace {

constexpr double kSpread = 0.1, kClockChange = 0.03;
constexpr double kBusy = 0.5;  // of all cores, before anything was measured

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<double> read_cpu_mhz(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  std::optional<double> most;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("cpu MHz")) continue;
    const double mhz = std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    most = std::max(most.value_or(0), mhz);
  }
  return most;
}

// Two files say the same in two ways, by the driver of the clock.
std::optional<bool> read_boost(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu/";
  if (const std::string off = first_line(cpu + "intel_pstate/no_turbo"); !off.empty()) return off == "0";
  if (const std::string on = first_line(cpu + "cpufreq/boost"); !on.empty()) return on == "1";
  return std::nullopt;
}

using NvmlDevice = void*;
constexpr int kOk = 0, kSmClock = 1, kMemoryClock = 2, kCoreTemperature = 0;
constexpr unsigned long long kPowerCap = 0x4, kHardwareSlowdown = 0x8, kSoftwareHeat = 0x20, kHardwareHeat = 0x40,
                             kPowerBrake = 0x80;

struct Utilization {
  unsigned gpu = 0, memory = 0;
};

// A function of a library, or null.
template <class F>
F* find_function(const SharedLibrary& library, const char* name) {
  return reinterpret_cast<F*>(library.symbol(name));
}

// NVML numbers GPUs in an order of its own; the address on the bus is the same for both.
std::string bus_address(int ordinal) {
  const Result<SharedLibrary> cuda = SharedLibrary::loaded("libcuda.so.1");
  if (!cuda.ok()) return {};
  auto* const get = find_function<int(int*, int)>(*cuda, "cuDeviceGet");
  auto* const address = find_function<int(char*, int, int)>(*cuda, "cuDeviceGetPCIBusId");
  char text[64] = {};
  int device = 0;
  if (get == nullptr || address == nullptr || get(&device, ordinal) != kOk) return {};
  return address(text, sizeof(text) - 1, device) == kOk ? text : "";
}

std::string slowed_by(unsigned long long reasons) {
  if (reasons & (kSoftwareHeat | kHardwareHeat)) return "heat";
  if (reasons & (kPowerCap | kPowerBrake)) return "power";
  return reasons & kHardwareSlowdown ? "a slowdown of the hardware" : "";
}

std::optional<GpuClocks> ask_nvml(const SharedLibrary& nvml, const std::string& address) {
  auto* const by_address = find_function<int(const char*, NvmlDevice*)>(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
  auto* const clock = find_function<int(NvmlDevice, int, unsigned*)>(nvml, "nvmlDeviceGetClockInfo");
  auto* const most = find_function<int(NvmlDevice, int, unsigned*)>(nvml, "nvmlDeviceGetMaxClockInfo");
  auto* const temperature = find_function<int(NvmlDevice, int, unsigned*)>(nvml, "nvmlDeviceGetTemperature");
  auto* const utilization = find_function<int(NvmlDevice, Utilization*)>(nvml, "nvmlDeviceGetUtilizationRates");
  auto* const reasons =
      find_function<int(NvmlDevice, unsigned long long*)>(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons");
  NvmlDevice device = nullptr;
  GpuClocks clocks;
  if (by_address == nullptr || clock == nullptr || by_address(address.c_str(), &device) != kOk) return std::nullopt;
  if (clock(device, kSmClock, &clocks.sm_mhz) != kOk) return std::nullopt;
  (void)clock(device, kMemoryClock, &clocks.memory_mhz);
  if (most != nullptr) (void)most(device, kSmClock, &clocks.most_sm_mhz);
  if (temperature != nullptr) (void)temperature(device, kCoreTemperature, &clocks.temperature);
  Utilization used;
  if (utilization != nullptr && utilization(device, &used) == kOk) clocks.utilization = used.gpu;
  unsigned long long bits = 0;
  if (reasons != nullptr && reasons(device, &bits) == kOk) clocks.why = slowed_by(bits);
  return clocks;
}

std::optional<GpuClocks> read_gpu_clocks(int ordinal) {
  const std::string address = bus_address(ordinal);
  const Result<SharedLibrary> nvml = SharedLibrary::open("libnvidia-ml.so.1");
  if (address.empty() || !nvml.ok()) return std::nullopt;
  auto* const init = find_function<int()>(*nvml, "nvmlInit_v2");
  auto* const shut_down = find_function<int()>(*nvml, "nvmlShutdown");
  if (init == nullptr || shut_down == nullptr || init() != kOk) return std::nullopt;
  std::optional<GpuClocks> clocks = ask_nvml(*nvml, address);
  (void)shut_down();
  return clocks;
}

template <class T>
Json null_or(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json make_json(const MachineState& state) {
  Json json = {{"cpu_mhz", null_or(state.cpu_mhz)},
               {"governor", state.governor.empty() ? Json() : Json(state.governor)},
               {"boost", null_or(state.boost)},
               {"load", state.load},
               {"cores", state.cores}};
  if (state.gpu) {
    json["gpu"] = {{"sm_mhz", state.gpu->sm_mhz},           {"memory_mhz", state.gpu->memory_mhz},
                   {"most_sm_mhz", state.gpu->most_sm_mhz}, {"temperature", state.gpu->temperature},
                   {"utilization", state.gpu->utilization}, {"slowed_by", state.gpu->why}};
  }
  return json;
}

}  // namespace

MachineState read_machine_state(const Device& device, const std::string& root) {
  MachineState state;
  state.cpu_mhz = read_cpu_mhz(root);
  state.governor = first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  state.boost = read_boost(root);
  state.load = std::strtod(first_line(root + "/proc/loadavg").c_str(), nullptr);
  state.cores = static_cast<int>(std::thread::hardware_concurrency());
  if (device.kind == TargetKind::cuda) state.gpu = read_gpu_clocks(device.ordinal);
  return state;
}

Json make_json(const MachineState& before, const MachineState& after) {
  return {{"before", make_json(before)}, {"after", make_json(after)}};
}

std::string doubts(const Device& device, const MachineState& before, const MachineState& after, double spread) {
  std::string text;
  const auto add = [&](const std::string& doubt) { text += (text.empty() ? "" : ", ") + doubt; };
  const bool on_gpu = device.kind == TargetKind::cuda;
  if (!on_gpu && !before.governor.empty() && before.governor != "performance") add("governor " + before.governor);
  if (!on_gpu && before.boost.value_or(false)) add("the CPU's boost is on");
  if (before.gpu && after.gpu) {
    const double b = before.gpu->sm_mhz, a = after.gpu->sm_mhz;
    if (std::max(a, b) > (1 + kClockChange) * std::min(a, b))
      add(fmt::format("SM clock {} MHz before and {} after: not locked", before.gpu->sm_mhz, after.gpu->sm_mhz));
    if (!after.gpu->why.empty()) add("the GPU is slowed by " + after.gpu->why);
  }
  if (before.load > kBusy * before.cores)
    add(fmt::format("load average {:.1f} on {} cores", before.load, before.cores));
  if (spread > kSpread) add(fmt::format("p90 is {:.0f}% above the median", 100 * spread));
  return text;
}

}  // namespace fusec::tool
