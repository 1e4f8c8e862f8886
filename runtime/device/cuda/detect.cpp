// SPDX-License-Identifier: Apache-2.0
// Builds the Target of a GPU from its compute capability and the attributes that the driver reports. Attributes that
// the driver does not report keep the values of the named target.

#include <algorithm>

#include "runtime/device/cuda/tensors.h"

namespace fusec::runtime::cuda {
namespace {

// Copies reach about 90 % of the bandwidth that follows from the memory clock and bus width.
constexpr double kCopyShare = 0.9;

// -1 where the driver does not say.
int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : -1;
}

// The named target of the closest architecture that is not newer; its name is "sm_..".
Result<Target> closest_target(int sm) {
  Result<Target> best = Status(StatusCode::unsupported,
                               "the GPU is of sm_" + std::to_string(sm) + "; sm_75 is the oldest that is supported");
  for (const std::string& name : target_names()) {
    const Result<Target> target = named_target(name);
    if (!target.ok() || target->kind != TargetKind::cuda || target->sm > sm) continue;
    if (!best.ok() || target->sm > best->sm) best = target;
  }
  return best;
}

template <class T>
void take(T& figure, int value) {
  if (value > 0) figure = static_cast<T>(value);
}

// Whether the driver knows the memory's clock (kHz) and bus width (bits); memory moves two bits per wire and cycle.
bool take_bandwidth(Target& target, int kilohertz, int bits) {
  if (kilohertz <= 0 || bits <= 0) return false;
  const double gb_per_s = 2.0 * kilohertz * 1e3 * bits / 8 / 1e9;
  target.model.memory_copy = target.model.memory_read = {kCopyShare * gb_per_s, FigureSource::published};
  return true;
}

}  // namespace

Result<Detected> detect(const Driver& driver, CUdevice device) {
  const auto get = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
  const int sm =
      10 * get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (sm <= 0) return Status(StatusCode::device, "the driver does not tell the GPU's compute capability");
  FUSEC_ASSIGN(Target target, closest_target(sm));
  const bool known = target.sm == sm;
  take(target.sm_count, get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  take(target.registers_per_sm, get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
  take(target.threads_per_sm, get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
  take(target.shared_bytes_per_sm, get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  take(target.shared_bytes_per_block, get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  take(target.last_level_cache, get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  const bool bandwidth = take_bandwidth(target, get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
                                        get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  target.has_tile_products &= known;
  std::string limits_source = "from the device";
  if (!bandwidth) limits_source += ", bandwidth from the table";
  if (!known) limits_source += "; sm_" + std::to_string(sm) + " is treated as " + target.name;
  return Detected{std::move(target), std::move(limits_source)};
}

Result<Target> cuda_target(const Driver& driver, CUdevice device, const std::string& wanted) {
  FUSEC_ASSIGN(Detected own, detect(driver, device));
  if (wanted.empty()) return own.target;
  FUSEC_ASSIGN(Target target, named_target(wanted));
  if (target.kind != TargetKind::cuda) {
    return Status(StatusCode::invalid_argument,
                  "target '" + wanted + "' is no GPU's; the device is " + own.target.name);
  }
  // Code of one architecture runs on later ones of its major number.
  if (target.sm > own.target.sm || target.sm / 10 != own.target.sm / 10) {
    return Status(StatusCode::invalid_argument,
                  "this GPU (" + own.target.name + ") does not run code of " + target.name);
  }
  return target;
}

}  // namespace fusec::runtime::cuda
