// SPDX-License-Identifier: Apache-2.0
// The two functions that ONNX Runtime looks up in the library, and what it asks before there is a session.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/onnxruntime/gpu_list.h"
#include "bindings/onnxruntime/gpu_memory.h"
#include "bindings/onnxruntime/provider.h"

namespace fusec::ort {
namespace {

// Of the metadata of a device: "cpu" or "cuda:0".
constexpr const char* kDeviceKey = "device";

// ONNX Runtime calls some of these without a look whether they are there.
class Factory : public OrtEpFactory {
 public:
  Factory(const ApiBase& base, const OrtLogger* logger) : api_(base), logger_(logger) {
    get_name = [](const OrtEpFactory*) noexcept -> const char* { return kProviderName; };
    get_vendor = [](const OrtEpFactory*) noexcept -> const char* { return "fusec"; };
    get_vendor_id = [](const OrtEpFactory*) noexcept -> uint32_t { return 0; };  // of no maker of hardware
    OrtEpFactory::get_version = [](const OrtEpFactory*) noexcept -> const char* { return fusec_version(); };
    get_supported_devices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t count,
                               OrtEpDevice** out, std::size_t most, std::size_t* out_count) noexcept {
      return of(self).list_devices(devices, count, out, most, out_count);
    };
    create_ep = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata,
                   std::size_t count, const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** out) noexcept {
      return of(self).make({metadata, count}, session, logger, out);
    };
    release_ep = [](OrtEpFactory*, OrtEp* provider) noexcept { end_provider(provider); };
    validate_compiled_model = [](OrtEpFactory*, const OrtHardwareDevice* const*, std::size_t, const char*,
                                 int* out) noexcept -> OrtStatus* {
      *out = kCompatibilityNotApplicable;
      return nullptr;
    };
    create_allocator = [](OrtEpFactory* self, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                          OrtAllocator** out) noexcept { return of(self).allocator_for(info, out); };
    release_allocator = [](OrtEpFactory*, OrtAllocator* allocator) noexcept { end_allocator(allocator); };
    create_data_transfer = [](OrtEpFactory* self, OrtDataTransferImpl** out) noexcept {
      return of(self).transfer(out);
    };
    is_stream_aware = [](const OrtEpFactory* self) noexcept {
      return !static_cast<const Factory*>(self)->gpus().empty();
    };
    create_sync_stream = [](OrtEpFactory* self, const OrtMemoryDevice* device, const OrtKeyValuePairs*,
                            OrtSyncStreamImpl** out) noexcept { return of(self).stream_for(device, out); };
  }

  const Api& api() const { return api_; }

 private:
  static Factory& of(OrtEpFactory* self) { return *static_cast<Factory*>(self); }

  using Metadata = std::span<const OrtKeyValuePairs* const>;

  const std::vector<GpuList::Entry>& gpus() const {
    static const std::vector<GpuList::Entry> none;
    return gpus_ == nullptr ? none : gpus_->entries();
  }

  OrtStatus* list_devices(const OrtHardwareDevice* const* devices, std::size_t count, OrtEpDevice** out,
                          std::size_t most, std::size_t* out_count) noexcept {
    *out_count = 0;
    return guarded(api_, [&]() -> OrtStatus* {
      const std::vector<const OrtHardwareDevice*> hardware(devices, devices + count);
      for (const OrtHardwareDevice* found : hardware) {
        const int kind = api_.plain<api::HardwareDeviceType>(found);
        if (kind != static_cast<int>(DeviceKind::cpu) || *out_count == most) continue;
        out[(*out_count)++] = new_device(found, "cpu", "");
      }
      find_gpus(hardware);
      for (const GpuList::Entry& entry : gpus()) {
        if (entry.hardware == nullptr || *out_count == most) continue;
        OrtEpDevice* const device = new_device(entry.hardware, entry.gpu->name(), entry.name);
        out[(*out_count)++] = device;
        api_.call_ep<ep_api::EpDeviceAddAllocatorInfo>(device, static_cast<const OrtMemoryInfo*>(entry.memory));
        api_.call_ep<ep_api::EpDeviceAddAllocatorInfo>(device, static_cast<const OrtMemoryInfo*>(entry.pinned));
      }
      return nullptr;
    });
  }

  // The provider works on the CPU without GPUs: that there are none to use is a line in the log.
  void find_gpus(const std::vector<const OrtHardwareDevice*>& hardware) {
    const bool has_card = std::any_of(hardware.begin(), hardware.end(),
                                      [&](const OrtHardwareDevice* found) { return is_nvidia_gpu(api_, found); });
    std::string why;
    try {
      gpus_ = std::make_unique<GpuList>(api_, hardware);
      if (gpus().empty()) why = "fusec: it finds none that it can use; `fusec devices` says why";
    } catch (const Failure& failure) {
      why = failure.message;
    }
    if (has_card && !why.empty()) api_.log(logger_, LogLevel::warning, "no GPU is listed. " + why);
  }

  OrtEpDevice* new_device(const OrtHardwareDevice* hardware, const std::string& name, const std::string& gpu) {
    OrtKeyValuePairs* metadata = nullptr;
    api_.plain<api::CreateKeyValuePairs>(&metadata);
    api_.plain<api::AddKeyValuePair>(metadata, kDeviceKey, name.c_str());
    if (!gpu.empty()) api_.plain<api::AddKeyValuePair>(metadata, "gpu", gpu.c_str());
    OrtEpDevice* device = nullptr;
    try {
      api_.call_ep<ep_api::CreateEpDevice>(static_cast<OrtEpFactory*>(this), hardware,
                                           static_cast<const OrtKeyValuePairs*>(metadata),
                                           static_cast<const OrtKeyValuePairs*>(nullptr), &device);
    } catch (const Failure&) {
      api_.plain<api::ReleaseKeyValuePairs>(metadata);
      throw;
    }
    api_.plain<api::ReleaseKeyValuePairs>(metadata);
    return device;
  }

  // The GPU of the device that a session was given, or null for the CPU.
  Gpu* chosen_gpu(Metadata metadata) const {
    std::vector<std::string> names;
    for (const OrtKeyValuePairs* pairs : metadata) {
      const char* const name = pairs == nullptr ? nullptr : api_.plain<api::GetKeyValue>(pairs, kDeviceKey);
      names.emplace_back(name == nullptr ? "cpu" : name);
    }
    const bool differ = std::any_of(names.begin(), names.end(), [&](const auto& name) { return name != names[0]; });
    if (differ) {
      std::string all;
      for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
      throw Failure(ErrorCode::invalid_argument, "fusec: a session runs on one device, and was given those of " + all +
                                                     "; choose one by its metadata '" + kDeviceKey + "'");
    }
    for (const GpuList::Entry& entry : gpus()) {
      if (!names.empty() && names[0] == entry.gpu->name()) return entry.gpu.get();
    }
    return nullptr;
  }

  OrtStatus* make(Metadata metadata, const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** out) noexcept {
    *out = nullptr;
    return guarded(api_, [&]() -> OrtStatus* {
      *out = make_provider(api_, logger, read_settings(api_, session, chosen_gpu(metadata)));
      return nullptr;
    });
  }

  const GpuList::Entry& gpu_at(int ordinal) const {
    const GpuList::Entry* const entry = gpus_ == nullptr ? nullptr : gpus_->find(ordinal);
    if (entry != nullptr) return *entry;
    throw Failure(ErrorCode::invalid_argument, "fusec: there is no GPU cuda:" + std::to_string(ordinal));
  }

  // Null for memory of the CPU: ONNX Runtime's own allocator makes it.
  OrtStatus* allocator_for(const OrtMemoryInfo* info, OrtAllocator** out) const noexcept {
    *out = nullptr;
    return guarded(api_, [&]() -> OrtStatus* {
      if (info == nullptr || gpus().empty()) return nullptr;
      const GpuList::Entry& entry = gpu_at(api_.get<api::MemoryInfoGetId, int>(info));
      const bool is_host =
          api_.plain<api::MemoryInfoGetMemoryType>(info) == static_cast<int>(MemoryType::host_accessible);
      *out = make_allocator(api_, *entry.gpu, is_host ? entry.pinned : entry.memory, is_host);
      return nullptr;
    });
  }

  OrtStatus* transfer(OrtDataTransferImpl** out) const noexcept {
    *out = nullptr;
    return guarded(api_, [&]() -> OrtStatus* {
      if (gpus().empty()) return nullptr;
      *out = make_data_transfer(api_, [list = gpus_.get()](int ordinal) {
        const GpuList::Entry* const entry = list->find(ordinal);
        return entry == nullptr ? nullptr : entry->gpu.get();
      });
      return nullptr;
    });
  }

  OrtStatus* stream_for(const OrtMemoryDevice* device, OrtSyncStreamImpl** out) const noexcept {
    *out = nullptr;
    return guarded(api_, [&]() -> OrtStatus* {
      const auto ordinal = static_cast<int>(api_.plain_ep<ep_api::MemoryDeviceGetDeviceId>(device));
      *out = make_stream(api_, *gpu_at(ordinal).gpu);
      return nullptr;
    });
  }

  Api api_;
  const OrtLogger* logger_;
  std::unique_ptr<GpuList> gpus_;  // null until devices are listed
};

// The status of an error that comes before there is an Api: every release has this function at the same place.
OrtStatus* plain_status(const ApiBase& base, const char* message) noexcept {
  const void* const* const table = base.get_api(1);
  if (table == nullptr) return nullptr;
  const auto create = reinterpret_cast<api::CreateStatus::Pointer>(const_cast<void*>(table[api::CreateStatus::place]));
  return create(static_cast<int>(ErrorCode::fail), message);
}

}  // namespace
}  // namespace fusec::ort

using fusec::ort::Factory;

extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(
    const char*, const fusec::ort::ApiBase* base, const OrtLogger* logger, OrtEpFactory** factories, std::size_t most,
    std::size_t* count) noexcept {
  *count = 0;
  try {
    auto factory = std::make_unique<Factory>(*base, logger);
    if (most == 0) return fusec::ort::plain_status(*base, "fusec: ONNX Runtime has no place for an execution provider");
    factories[0] = factory.release();
    *count = 1;
    return nullptr;
  } catch (const std::exception& failure) {
    return fusec::ort::plain_status(*base, failure.what());
  }
}

extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
