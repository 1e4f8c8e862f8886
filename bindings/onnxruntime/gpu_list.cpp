// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/gpu_list.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bindings/onnxruntime/fusec_api.h"
#include "bindings/onnxruntime/gpu_memory.h"
#include "bindings/onnxruntime/json.h"

namespace fusec::ort {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";

// Where a GPU is on the PCI bus, such as "0000:65:00.0", or "".
std::string bus_address(const Api& api, const OrtHardwareDevice* hardware) {
  const OrtKeyValuePairs* const metadata = api.plain<api::HardwareDeviceMetadata>(hardware);
  if (metadata == nullptr) return "";
  if (const char* address = api.plain<api::GetKeyValue>(metadata, "pci_bus_id")) return address;
  const char* const card = api.plain<api::GetKeyValue>(metadata, "card_idx");
  if (card == nullptr) return "";
  char target[512];
  const std::string link = std::string("/sys/class/drm/card") + card + "/device";
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  if (length <= 0) return "";
  const std::string path(target, static_cast<std::size_t>(length));
  return path.substr(path.rfind('/') + 1);
}

OrtMemoryInfo* new_memory_info(const Api& api, const char* name, int ordinal, MemoryType type) {
  constexpr int kDeviceAllocator = 0;
  OrtMemoryInfo* info = nullptr;
  api.call<api::CreateMemoryInfo>(name, static_cast<int>(MemoryKind::gpu), kNvidia, static_cast<int32_t>(ordinal),
                                  static_cast<int>(type), Size{0}, kDeviceAllocator, &info);
  return info;
}

}  // namespace

bool is_nvidia_gpu(const Api& api, const OrtHardwareDevice* hardware) {
  return api.plain<api::HardwareDeviceType>(hardware) == static_cast<int>(DeviceKind::gpu) &&
         api.plain<api::HardwareDeviceVendorId>(hardware) == kNvidia;
}

GpuList::GpuList(const Api& api, const std::vector<const OrtHardwareDevice*>& hardware) : api_(api) {
  char* text = nullptr;
  check(fusec_devices_json(&text));
  const TextHandle owner(text);
  for (JsonObject& device : read_json_list(text)) {
    const std::string& name = device["device"];
    if (name.rfind(kCudaPrefix, 0) != 0) continue;
    if (entries_.empty()) cuda_ = open_cuda();
    add(std::atoi(name.c_str() + kCudaPrefix.size()), std::move(device["name"]));
  }
  if (entries_.empty()) return;
  for (const OrtHardwareDevice* found : hardware) {
    if (is_nvidia_gpu(api_, found)) pair_by_address(found);
  }
  pair_rest(hardware);
}

GpuList::~GpuList() {
  for (Entry& entry : entries_) {
    if (entry.memory != nullptr) api_.plain<api::ReleaseMemoryInfo>(entry.memory);
    if (entry.pinned != nullptr) api_.plain<api::ReleaseMemoryInfo>(entry.pinned);
    if (entry.made != nullptr) api_.plain_ep<ep_api::ReleaseHardwareDevice>(entry.made);
  }
}

void GpuList::add(int ordinal, std::string name) {
  Entry& entry = entries_.emplace_back();
  entry.gpu = std::make_unique<Gpu>(cuda_, ordinal);
  entry.name = std::move(name);
  entry.memory = new_memory_info(api_, "fusec_cuda", ordinal, MemoryType::device);
  entry.pinned = new_memory_info(api_, "fusec_cuda_pinned", ordinal, MemoryType::host_accessible);
}

// The driver numbers GPUs in its own order, and CUDA_VISIBLE_DEVICES changes it: the place on the bus tells which is
// which. Hardware that the driver does not show is left out.
void GpuList::pair_by_address(const OrtHardwareDevice* hardware) {
  const std::string address = bus_address(api_, hardware);
  if (address.empty()) {
    unplaced_.push_back(hardware);
    return;
  }
  int found = 0;
  if (cuda_.get_device_at(&found, address.c_str()) != 0) return;
  for (Entry& entry : entries_) {
    int device = 0;
    if (cuda_.get_device(&device, entry.gpu->ordinal()) == 0 && device == found) entry.hardware = hardware;
  }
}

void GpuList::pair_rest(const std::vector<const OrtHardwareDevice*>& hardware) {
  std::size_t next = 0;
  for (Entry& entry : entries_) {
    if (entry.hardware != nullptr) continue;
    if (next < unplaced_.size()) {
      entry.hardware = unplaced_[next++];
    } else if (api_.takes_new_hardware()) {
      api_.call_ep<ep_api::CreateHardwareDevice>(static_cast<int>(DeviceKind::gpu), kNvidia,
                                                 static_cast<uint32_t>(entry.gpu->ordinal()), "NVIDIA",
                                                 static_cast<const OrtKeyValuePairs*>(nullptr), &entry.made);
      entry.hardware = entry.made;
    } else {
      const auto cpu = std::find_if(hardware.begin(), hardware.end(), [&](const OrtHardwareDevice* found) {
        return api_.plain<api::HardwareDeviceType>(found) == static_cast<int>(DeviceKind::cpu);
      });
      if (cpu != hardware.end()) entry.hardware = *cpu;
    }
  }
}

const GpuList::Entry* GpuList::find(int ordinal) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.gpu->ordinal() == ordinal; });
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace fusec::ort
