// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/gpu_memory.h"

#include <memory>
#include <utility>

namespace fusec::ort {
namespace {

// An allocator cannot answer an error: a null pointer says that there is no memory.
template <class Body>
void* allocated(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception&) {
    return nullptr;
  }
}

struct Allocator : OrtAllocator {
  Allocator(const Api& api, Gpu& gpu, const OrtMemoryInfo* info, bool is_host)
      : api(api), gpu(gpu), memory_info(info), is_host(is_host) {
    alloc = [](OrtAllocator* self, std::size_t bytes) noexcept { return of(self).allocate(bytes); };
    reserve = alloc;
    OrtAllocator::free = [](OrtAllocator* self, void* memory) noexcept { of(self).release(memory); };
    OrtAllocator::info = [](const OrtAllocator* self) noexcept {
      return static_cast<const Allocator*>(self)->memory_info;
    };
    if (is_host) return;
    alloc_on_stream = [](OrtAllocator* self, std::size_t bytes, OrtSyncStream* stream) noexcept {
      return of(self).allocate_on(bytes, stream);
    };
  }
  static Allocator& of(OrtAllocator* self) { return *static_cast<Allocator*>(self); }

  void* allocate(std::size_t bytes) noexcept {
    if (bytes == 0) return nullptr;
    return allocated([&] { return is_host ? gpu.allocate_host(bytes) : gpu.allocate(bytes, nullptr); });
  }

  void* allocate_on(std::size_t bytes, OrtSyncStream* stream) noexcept {
    if (bytes == 0 || stream == nullptr) return allocate(bytes);
    auto* const handle = static_cast<CudaStream>(api.plain<api::SyncStreamGetHandle>(stream));
    return allocated([&] { return gpu.allocate(bytes, handle); });
  }

  void release(void* memory) noexcept {
    if (memory == nullptr) return;
    try {
      is_host ? gpu.free_host(memory) : gpu.free(memory);
    } catch (const std::exception&) {  // of a driver that has ended, with all memory
    }
  }

  const Api& api;
  Gpu& gpu;
  const OrtMemoryInfo* memory_info;
  bool is_host;
};

struct Transfer : OrtDataTransferImpl {
  Transfer(const Api& api, std::function<Gpu*(int ordinal)> find) : api(api), find(std::move(find)) {
    release = [](OrtDataTransferImpl* self) noexcept { delete static_cast<Transfer*>(self); };
    can_copy = [](const OrtDataTransferImpl* self, const OrtMemoryDevice* from, const OrtMemoryDevice* to) noexcept {
      const auto& transfer = *static_cast<const Transfer*>(self);
      return transfer.gpu_for(place_of(transfer.api, from), place_of(transfer.api, to)) != nullptr;
    };
    copy_tensors = [](OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                      std::size_t count) noexcept {
      auto& transfer = *static_cast<Transfer*>(self);
      return guarded(transfer.api, [&]() -> OrtStatus* {
        for (std::size_t i = 0; i < count; ++i) {
          transfer.copy(from[i], to[i], streams == nullptr ? nullptr : streams[i]);
        }
        return nullptr;
      });
    };
  }

  // The GPU that copies between two places, or null where none does.
  Gpu* gpu_for(const Place& from, const Place& to) const {
    if (!from.known || !to.known) return nullptr;
    if (from.on_gpu && to.on_gpu) return from.ordinal == to.ordinal ? find(to.ordinal) : nullptr;
    if (from.on_gpu || to.on_gpu) return find(from.on_gpu ? from.ordinal : to.ordinal);
    return from.is_pinned || to.is_pinned ? find(from.is_pinned ? from.ordinal : to.ordinal) : nullptr;
  }

  void copy(const OrtValue* from, OrtValue* to, OrtSyncStream* stream) const {
    Gpu* const gpu = gpu_for(place_of(api, from), place_of(api, static_cast<const OrtValue*>(to)));
    if (gpu == nullptr) {
      throw Failure(ErrorCode::not_implemented, "fusec: copies go between the host and a GPU, or inside of one GPU");
    }
    const Size bytes = api.get<api::GetTensorSizeInBytes, Size>(from);
    if (bytes == 0) return;
    const auto* const source = api.get<api::GetTensorData, const void*>(from);
    auto* const target = api.get<api::GetTensorMutableData, void*>(to);
    if (target == nullptr) throw Failure(ErrorCode::ep_fail, "fusec: there is no memory left on " + gpu->name());
    auto* const handle =
        stream == nullptr ? nullptr : static_cast<CudaStream>(api.plain<api::SyncStreamGetHandle>(stream));
    gpu->copy(target, source, bytes, handle);
  }

  const Api& api;
  std::function<Gpu*(int ordinal)> find;
};

// A point in the work of a stream.
struct Notification : OrtSyncNotificationImpl {
  Notification(const Api& api, Gpu& gpu, CudaStream stream) : api(api), gpu(gpu), stream(stream) {
    const Gpu::Current current(gpu);
    gpu.cuda().check(gpu.cuda().create_event(&event, kCudaEventWithoutTime), "cuEventCreate");
    release = [](OrtSyncNotificationImpl* self) noexcept { delete static_cast<Notification*>(self); };
    activate = [](OrtSyncNotificationImpl* self) noexcept {
      const Notification& point = of(self);
      return point.call("cuEventRecord", [&] { return point.gpu.cuda().record_event(point.event, point.stream); });
    };
    wait_on_device = [](OrtSyncNotificationImpl* self, OrtSyncStream* waiting) noexcept -> OrtStatus* {
      const Notification& point = of(self);
      if (waiting == nullptr) return nullptr;
      auto* const handle = static_cast<CudaStream>(point.api.plain<api::SyncStreamGetHandle>(waiting));
      return point.call("cuStreamWaitEvent", [&] { return point.gpu.cuda().make_stream_wait(handle, point.event, 0); });
    };
    wait_on_host = [](OrtSyncNotificationImpl* self) noexcept {
      const Notification& point = of(self);
      return point.call("cuEventSynchronize", [&] { return point.gpu.cuda().wait_for_event(point.event); });
    };
  }
  ~Notification() {
    try {
      const Gpu::Current current(gpu);
      gpu.cuda().destroy_event(event);
    } catch (const std::exception&) {  // the driver has ended, and the event with it
    }
  }
  static const Notification& of(OrtSyncNotificationImpl* self) { return *static_cast<Notification*>(self); }

  template <class Body>
  OrtStatus* call(const char* name, const Body& body) const noexcept {
    return guarded(api, [&]() -> OrtStatus* {
      const Gpu::Current current(gpu);
      gpu.cuda().check(body(), name);
      return nullptr;
    });
  }

  const Api& api;
  Gpu& gpu;
  CudaStream stream;
  CudaEvent event = nullptr;
};

struct Stream : OrtSyncStreamImpl {
  Stream(const Api& api, Gpu& gpu) : api(api), gpu(gpu), handle(gpu.create_stream()) {
    release = [](OrtSyncStreamImpl* self) noexcept { delete static_cast<Stream*>(self); };
    get_handle = [](OrtSyncStreamImpl* self) noexcept -> void* { return of(self).handle; };
    create_notification = [](OrtSyncStreamImpl* self, OrtSyncNotificationImpl** out) noexcept {
      *out = nullptr;
      return guarded(of(self).api, [&]() -> OrtStatus* {
        *out = new Notification(of(self).api, of(self).gpu, of(self).handle);
        return nullptr;
      });
    };
    // ONNX Runtime flushes the streams of a run when it must be over.
    flush = [](OrtSyncStreamImpl* self) noexcept {
      return guarded(of(self).api, [&]() -> OrtStatus* {
        of(self).gpu.wait_for(of(self).handle);
        return nullptr;
      });
    };
    on_session_run_end = [](OrtSyncStreamImpl*) noexcept -> OrtStatus* { return nullptr; };
  }
  ~Stream() {
    try {
      gpu.destroy_stream(handle);
    } catch (const std::exception&) {  // the driver has ended, and the stream with it
    }
  }
  static Stream& of(OrtSyncStreamImpl* self) { return *static_cast<Stream*>(self); }

  const Api& api;
  Gpu& gpu;
  CudaStream handle;
};

}  // namespace

Place place_of(const Api& api, const OrtMemoryDevice* device) {
  Place place;
  const int kind = api.plain_ep<ep_api::MemoryDeviceGetDeviceType>(device);
  const bool is_gpu =
      kind == static_cast<int>(MemoryKind::gpu) && api.plain_ep<ep_api::MemoryDeviceGetVendorId>(device) == kNvidia;
  place.known = is_gpu || kind == static_cast<int>(MemoryKind::cpu);
  if (!is_gpu) return place;
  const int type = api.plain_ep<ep_api::MemoryDeviceGetMemoryType>(device);
  place.on_gpu = type == static_cast<int>(MemoryType::device);
  place.is_pinned = !place.on_gpu;
  place.ordinal = static_cast<int>(api.plain_ep<ep_api::MemoryDeviceGetDeviceId>(device));
  return place;
}

Place place_of(const Api& api, const OrtValue* value) {
  return place_of(api, api.plain_ep<ep_api::ValueGetMemoryDevice>(value));
}

OrtAllocator* make_allocator(const Api& api, Gpu& gpu, const OrtMemoryInfo* info, bool is_host) {
  return new Allocator(api, gpu, info, is_host);
}

void end_allocator(OrtAllocator* allocator) { delete static_cast<Allocator*>(allocator); }

OrtDataTransferImpl* make_data_transfer(const Api& api, std::function<Gpu*(int ordinal)> find) {
  return new Transfer(api, std::move(find));
}

OrtSyncStreamImpl* make_stream(const Api& api, Gpu& gpu) { return new Stream(api, gpu); }

}  // namespace fusec::ort
