// SPDX-License-Identifier: Apache-2.0
// Hooks of the host: fusec_host becomes functions of Options, and custom calls take tensors of the C interface.

#include "bindings/c/host.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "bindings/c/error.h"
#include "bindings/c/tensor.h"
#include "fusec/custom_call.h"

namespace fusec::c {
namespace {

Status reject_host(const std::string& why) { return Status(StatusCode::invalid_argument, "parameter 'host' " + why); }

// The struct with NULL in place of members that the caller does not know.
Result<fusec_host> read_host(const fusec_host& given) {
  std::size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  if (size < offsetof(fusec_host, alloc))
    return reject_host("has a struct_size of " + std::to_string(size) + "; set it to sizeof(fusec_host)");
  fusec_host host{};
  std::memcpy(&host, &given, std::min(size, sizeof host));
  const auto* const bytes = reinterpret_cast<const char*>(&given);
  for (std::size_t i = sizeof host; i < size; ++i) {
    if (bytes[i] != 0) return reject_host("is of a later version, and has a member that this library does not know");
  }
  return host;
}

Status check_pairs(const fusec_host& host) {
  if ((host.alloc == nullptr) != (host.free == nullptr)) return reject_host("has only one of alloc and free");
  if ((host.num_threads == nullptr) != (host.parallel_for == nullptr))
    return reject_host("has only one of num_threads and parallel_for");
  return {};
}

int32_t type_of(const Device& device) { return device.kind == TargetKind::cuda ? FUSEC_DEVICE_CUDA : FUSEC_DEVICE_CPU; }

std::shared_ptr<const HostAllocator> make_allocator(const fusec_host& host) {
  if (host.alloc == nullptr) return nullptr;
  HostAllocator made;
  made.allocate = [host](const MemoryRequest& r) {
    return host.alloc(host.user, type_of(r.device), r.device.ordinal, static_cast<std::size_t>(r.bytes),
                      static_cast<std::size_t>(r.alignment), r.stream);
  };
  made.free = [host](void* memory, const Device& device, void* stream) {
    host.free(host.user, memory, type_of(device), device.ordinal, stream);
  };
  return std::make_shared<const HostAllocator>(std::move(made));
}

std::shared_ptr<const HostThreads> make_threads(const fusec_host& host) {
  if (host.parallel_for == nullptr) return nullptr;
  HostThreads made;
  made.count = [host] { return host.num_threads(host.user); };
  made.parallel_for = [host](int64_t n, void (*body)(void*, int64_t, int64_t), void* argument) {
    host.parallel_for(host.user, n, body, argument);
  };
  return std::make_shared<const HostThreads>(std::move(made));
}

// Extents of a tensor are not const in the C interface, as in DLPack; the function must not write to them.
fusec_tensor to_c(const CallTensor& tensor, fusec_device device) {
  return {tensor.data,
          device,
          static_cast<int32_t>(tensor.shape.size()),
          dtype_to_c(tensor.dtype),
          const_cast<int64_t*>(tensor.shape.data()),
          nullptr,
          0};
}

CustomCall wrap_call(fusec_call call, void* user, bool on_gpu) {
  return [=](std::span<const CallTensor> inputs, const CallTensor& output, const std::string& attributes,
             void* stream) -> Status {
    const fusec_device device{on_gpu ? FUSEC_DEVICE_CUDA : FUSEC_DEVICE_CPU, 0};
    std::array<fusec_tensor, kMaxCallInputs> in;
    for (std::size_t i = 0; i < inputs.size(); ++i) in[i] = to_c(inputs[i], device);
    const fusec_tensor out = to_c(output, device);
    const int code = call(user, in.data(), inputs.size(), &out, attributes.c_str(), stream);
    if (code == FUSEC_OK) return {};
    const bool known = code > FUSEC_OK && code <= FUSEC_CANCELLED;
    return Status(known ? static_cast<StatusCode>(code) : StatusCode::internal,
                  "the function of the host answered " + std::to_string(code));
  };
}

}  // namespace

Status set_host(Options& options, const fusec_host* host) {
  fusec_host known{};
  if (host != nullptr) {
    FUSEC_ASSIGN(known, read_host(*host));
  }
  FUSEC_TRY(check_pairs(known));
  auto allocator = make_allocator(known);
  auto threads = make_threads(known);
  options.on_progress = nullptr;
  if (known.progress != nullptr) {
    options.on_progress = [known](const char* stage, double done) {
      return known.progress(known.user, stage, done) != 0;
    };
  }
  options.allocator = std::move(allocator);
  options.host_threads = std::move(threads);
  return {};
}

}  // namespace fusec::c

using namespace fusec::c;

fusec_error* fusec_options_set_host(fusec_options* options, const fusec_host* host) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(options, "options"));
    return set_host(options->compile, host);
  });
}

fusec_error* fusec_register_call(const char* name, const char* platform, fusec_call call, void* user) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(name, "name"));
    FUSEC_TRY(check_pointer(platform, "platform"));
    return fusec::register_call(
        name, platform, call == nullptr ? fusec::CustomCall() : wrap_call(call, user, std::string(platform) == "cuda"));
  });
}
