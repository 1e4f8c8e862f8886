// SPDX-License-Identifier: Apache-2.0
// Creates and releases driver objects: streams, events, graphs, loaded code, device memory and pinned memory. Releasing
// ignores errors, because a lost GPU has already freed everything.

#include "runtime/device/cuda/handles.h"

#include <string>

#include "runtime/device/host/memory.h"

namespace fusec::runtime::cuda {
namespace {

// Releases a driver object and ignores errors, because a lost GPU has already freed everything.
template <class Call>
void quietly(const ContextPtr& context, const Call& call) {
  if (!context) return;
  const Current current(*context);
  if (current.status().ok()) (void)call(context->driver());
}

std::string free_text(const Context& context) {
  std::size_t free = 0, total = 0;
  if (context.driver().cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return "";
  return "; " + std::to_string(free) + " of " + std::to_string(total) + " bytes are free";
}

Status no_memory(const Context& context, const Status& status, int64_t bytes, const char* what) {
  if (status.code() != StatusCode::out_of_memory) return status;
  return Status(StatusCode::out_of_memory, std::to_string(bytes) + " bytes of " + what + " of " + context.name() +
                                               " are not to be had" + free_text(context));
}

}  // namespace

void Release::operator()(CUstream_st* stream) const {
  quietly(context, [&](const Driver& d) { return d.cuStreamDestroy(stream); });
}
void Release::operator()(CUevent_st* event) const {
  quietly(context, [&](const Driver& d) { return d.cuEventDestroy(event); });
}
void Release::operator()(CUgraph_st* graph) const {
  quietly(context, [&](const Driver& d) { return d.cuGraphDestroy(graph); });
}
void Release::operator()(CUgraphExec_st* graph) const {
  quietly(context, [&](const Driver& d) { return d.cuGraphExecDestroy(graph); });
}
void Release::operator()(CUlib_st* library) const {
  quietly(context, [&](const Driver& d) { return d.cuLibraryUnload(library); });
}

Result<Stream> make_stream(const ContextPtr& context) {
  CUstream stream = nullptr;
  FUSEC_TRY(context->check(context->driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(stream, Release{context});
}

Result<Event> make_event(const ContextPtr& context, bool timed) {
  CUevent event = nullptr;
  const unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  FUSEC_TRY(context->check(context->driver().cuEventCreate(&event, flags), "cuEventCreate"));
  return Event(event, Release{context});
}

template <>
void DeviceBuffer::Free::operator()(std::byte* data) const {
  quietly(context, [&](const Driver& d) { return d.cuMemFree(address_of(data)); });
}

template <>
void PinnedBuffer::Free::operator()(std::byte* data) const {
  quietly(context, [&](const Driver& d) { return d.cuMemFreeHost(data); });
}

template <>
Result<DeviceBuffer> DeviceBuffer::make(const ContextPtr& context, int64_t bytes) {
  DeviceBuffer buffer;
  if (bytes <= 0) return buffer;
  bytes = round_up(bytes, kDeviceAlignment);
  CUdeviceptr address = 0;
  const CUresult result = context->driver().cuMemAlloc(&address, static_cast<std::size_t>(bytes));
  if (Status status = context->check(result, "cuMemAlloc"); !status.ok()) {
    return no_memory(*context, status, bytes, "the memory");
  }
  buffer.data_ = {reinterpret_cast<std::byte*>(address), Free{context}};
  buffer.bytes_ = bytes;
  return buffer;
}

template <>
Result<PinnedBuffer> PinnedBuffer::make(const ContextPtr& context, int64_t bytes) {
  PinnedBuffer buffer;
  if (bytes <= 0) return buffer;
  void* data = nullptr;
  const CUresult result =
      context->driver().cuMemHostAlloc(&data, static_cast<std::size_t>(bytes), CU_MEMHOSTALLOC_PORTABLE);
  if (Status status = context->check(result, "cuMemHostAlloc"); !status.ok()) {
    return no_memory(*context, status, bytes, "pinned host memory");
  }
  buffer.data_ = {static_cast<std::byte*>(data), Free{context}};
  buffer.bytes_ = bytes;
  return buffer;
}

}  // namespace fusec::runtime::cuda
