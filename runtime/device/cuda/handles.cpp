// SPDX-License-Identifier: Apache-2.0
// Creates and releases driver objects: streams, events, graphs, loaded code, device memory and pinned memory. Releasing
// ignores errors, because a lost GPU has already freed everything. Looks up captured graphs by the caller's addresses,
// evicts the least recently used one and detects callers whose addresses rotate. Times work by a pair of events; work
// enqueued before the first event hides the host's launch overhead.

#include "runtime/device/cuda/handles.h"

#include <algorithm>
#include <string>
#include <utility>

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

Result<GraphExec> capture(const ContextPtr& context, CUstream stream, const std::function<Status()>& work) {
  const Driver& driver = context->driver();
  FUSEC_TRY(
      context->check(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture"));
  const Status done = work();
  CUgraph recorded = nullptr;
  const Status ended = context->check(driver.cuStreamEndCapture(stream, &recorded), "cuStreamEndCapture");
  const Graph graph(recorded, Release{context});
  FUSEC_TRY(done);
  FUSEC_TRY(ended);
  CUgraphExec made = nullptr;
  FUSEC_TRY(context->check(driver.cuGraphInstantiate(&made, recorded, 0), "cuGraphInstantiate"));
  return GraphExec(made, Release{context});
}

Result<Event> make_event(const ContextPtr& context, bool timed) {
  CUevent event = nullptr;
  const unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  FUSEC_TRY(context->check(context->driver().cuEventCreate(&event, flags), "cuEventCreate"));
  return Event(event, Release{context});
}

template <>
void DeviceBuffer::Free::operator()(std::byte* data) const {
  if (source.allocator != nullptr)
    return source.allocator->free(data, {TargetKind::cuda, context->ordinal()}, source.stream);
  quietly(context, [&](const Driver& d) { return d.cuMemFree(address_of(data)); });
}

template <>
void PinnedBuffer::Free::operator()(std::byte* data) const {
  quietly(context, [&](const Driver& d) { return d.cuMemFreeHost(data); });
}

template <>
Result<DeviceBuffer> DeviceBuffer::make(const ContextPtr& context, int64_t bytes, const MemorySource& source) {
  DeviceBuffer buffer;
  if (bytes <= 0) return buffer;
  bytes = round_up(bytes, kDeviceAlignment);
  if (source.allocator != nullptr) {
    const MemoryRequest request{{TargetKind::cuda, context->ordinal()}, bytes, kDeviceAlignment, source.stream};
    FUSEC_ASSIGN(void* const data, allocate_by(*source.allocator, request));
    buffer.data_ = {static_cast<std::byte*>(data), Free{context, source}};
    buffer.bytes_ = bytes;
    return buffer;
  }
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
Result<PinnedBuffer> PinnedBuffer::make(const ContextPtr& context, int64_t bytes, const MemorySource&) {
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

namespace {

bool has_addresses(const GraphCache::Entry& entry, std::span<void* const> inputs, std::span<void* const> outputs) {
  const auto middle = entry.addresses.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  return std::equal(inputs.begin(), inputs.end(), entry.addresses.begin()) &&
         std::equal(outputs.begin(), outputs.end(), middle);
}

}  // namespace

GraphCache::Entry* GraphCache::find(std::span<void* const> inputs, std::span<void* const> outputs) {
  for (Entry& entry : entries_) {
    if (!has_addresses(entry, inputs, outputs)) continue;
    entry.used = ++clock_;
    fresh_in_a_row_ = 0;
    return &entry;
  }
  return nullptr;
}

GraphCache::Entry& GraphCache::add(std::span<void* const> inputs, std::span<void* const> outputs) {
  ++fresh_in_a_row_;
  auto at = entries_.end();
  if (entries_.size() >= kCapacity) {
    at = std::min_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.used < b.used; });
    *at = Entry();
  } else {
    at = entries_.emplace(entries_.end());
  }
  at->addresses.assign(inputs.begin(), inputs.end());
  at->addresses.insert(at->addresses.end(), outputs.begin(), outputs.end());
  at->used = ++clock_;
  return *at;
}

Result<Stopwatch> Stopwatch::make(int ordinal) {
  FUSEC_ASSIGN(const ContextPtr context, Context::open(ordinal));
  const Current current(*context);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(Stream stream, make_stream(context));
  FUSEC_ASSIGN(Event start, make_event(context, true));
  FUSEC_ASSIGN(Event end, make_event(context, true));
  return Stopwatch(context, std::move(stream), std::move(start), std::move(end));
}

Status Stopwatch::run(const Work& work) const {
  const Current current(*context_);
  FUSEC_TRY(current.status());
  FUSEC_TRY(work(stream_.get()));
  return context_->check(context_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

Result<double> Stopwatch::time_us(const Work& before, const Work& work) const {
  const Driver& driver = context_->driver();
  FUSEC_TRY(run([&](void* stream) -> Status {
    FUSEC_TRY(before(stream));
    FUSEC_TRY(context_->check(driver.cuEventRecord(start_.get(), stream_.get()), "cuEventRecord"));
    FUSEC_TRY(work(stream));
    return context_->check(driver.cuEventRecord(end_.get(), stream_.get()), "cuEventRecord");
  }));
  const Current current(*context_);
  FUSEC_TRY(current.status());
  float ms = 0;
  FUSEC_TRY(context_->check(driver.cuEventElapsedTime(&ms, start_.get(), end_.get()), "cuEventElapsedTime"));
  return 1e3 * static_cast<double>(ms);
}

Result<double> Stopwatch::time_captured_us(const Work& before, const Work& work) const {
  const Current current(*context_);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(const GraphExec graph, capture(context_, stream_.get(), [&] { return work(stream_.get()); }));
  FUSEC_TRY(context_->check(context_->driver().cuGraphUpload(graph.get(), stream_.get()), "cuGraphUpload"));
  return time_us(before, [&](void* stream) {
    return context_->check(context_->driver().cuGraphLaunch(graph.get(), static_cast<CUstream>(stream)),
                           "cuGraphLaunch");
  });
}

Status Stopwatch::copy(const Tensor& from, Tensor& to, int64_t bytes, void* stream) const {
  const CUresult result = context_->driver().cuMemcpyDtoDAsync(
      address_of(to.data()), address_of(from.data()), static_cast<std::size_t>(bytes), static_cast<CUstream>(stream));
  return context_->check(result, "cuMemcpyDtoDAsync");
}

}  // namespace fusec::runtime::cuda
