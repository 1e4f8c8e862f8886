// SPDX-License-Identifier: Apache-2.0
// The two functions that ONNX Runtime looks up in the library, and what it asks before there is a session.

#include <memory>

#include "bindings/onnxruntime/provider.h"

namespace fusec::ort {
namespace {

// ONNX Runtime calls some of these without a look whether they are there.
class Factory : public OrtEpFactory {
 public:
  explicit Factory(const ApiBase& base) : api_(base) {
    get_name = [](const OrtEpFactory*) noexcept -> const char* { return kProviderName; };
    get_vendor = [](const OrtEpFactory*) noexcept -> const char* { return "fusec"; };
    get_vendor_id = [](const OrtEpFactory*) noexcept -> uint32_t { return 0; };  // of no maker of hardware
    OrtEpFactory::get_version = [](const OrtEpFactory*) noexcept -> const char* { return fusec_version(); };
    get_supported_devices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t count,
                               OrtEpDevice** out, std::size_t most, std::size_t* out_count) noexcept {
      return of(self).list_devices(devices, count, out, most, out_count);
    };
    create_ep = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, std::size_t,
                   const OrtSessionOptions* session, const OrtLogger* logger,
                   OrtEp** out) noexcept { return of(self).make(session, logger, out); };
    release_ep = [](OrtEpFactory*, OrtEp* provider) noexcept { end_provider(provider); };
    validate_compiled_model = [](OrtEpFactory*, const OrtHardwareDevice* const*, std::size_t, const char*,
                                 int* out) noexcept -> OrtStatus* {
      *out = kCompatibilityNotApplicable;
      return nullptr;
    };
    // Tensors lie in memory of the host: ONNX Runtime's own allocator makes them, and nothing is to be moved.
    create_allocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                          OrtAllocator** out) noexcept -> OrtStatus* {
      *out = nullptr;
      return nullptr;
    };
    release_allocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    create_data_transfer = [](OrtEpFactory*, OrtDataTransferImpl** out) noexcept -> OrtStatus* {
      *out = nullptr;
      return nullptr;
    };
    is_stream_aware = [](const OrtEpFactory*) noexcept { return false; };
    create_sync_stream = [](OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                            OrtSyncStreamImpl** out) noexcept -> OrtStatus* {
      *out = nullptr;
      return nullptr;
    };
  }

  const Api& api() const { return api_; }

 private:
  static Factory& of(OrtEpFactory* self) { return *static_cast<Factory*>(self); }

  OrtStatus* list_devices(const OrtHardwareDevice* const* devices, std::size_t count, OrtEpDevice** out,
                          std::size_t most, std::size_t* out_count) noexcept {
    *out_count = 0;
    return guarded(api_, [&]() -> OrtStatus* {
      for (std::size_t i = 0; i < count && *out_count < most; ++i) {
        const int kind = api_.plain<api::HardwareDeviceType>(devices[i]);
        if (kind != static_cast<int>(DeviceKind::cpu)) continue;
        OrtEpDevice* device = nullptr;
        api_.call_ep<ep_api::CreateEpDevice>(static_cast<OrtEpFactory*>(this), devices[i],
                                             static_cast<const OrtKeyValuePairs*>(nullptr),
                                             static_cast<const OrtKeyValuePairs*>(nullptr), &device);
        out[(*out_count)++] = device;
      }
      return nullptr;
    });
  }

  OrtStatus* make(const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** out) noexcept {
    *out = nullptr;
    return guarded(api_, [&]() -> OrtStatus* {
      *out = make_provider(api_, logger, read_settings(api_, session));
      return nullptr;
    });
  }

  Api api_;
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
    const char*, const fusec::ort::ApiBase* base, const OrtLogger*, OrtEpFactory** factories, std::size_t most,
    std::size_t* count) noexcept {
  *count = 0;
  try {
    auto factory = std::make_unique<Factory>(*base);
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
