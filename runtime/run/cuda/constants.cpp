// SPDX-License-Identifier: Apache-2.0
// Moves constants to a GPU. Small ones are gathered in host memory and go up together, as one; each large one has
// memory of its own. The Programs of a process share each of these.

#include "runtime/run/cuda/constants.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/device/host/memory.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::cuda {
namespace {

// Bytes from which a constant is uploaded and shared alone. Programs of one model for other batches or options have
// most constants in common and not all, and uploading one takes as long as copying some hundred KiB.
constexpr std::size_t kLarge = std::size_t{16} << 10;

// What must be equal for two constants to be the same, as far as that is found out fast.
struct Likeness {
  const Context* context;
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t sample;  // of its bytes
  auto operator<=>(const Likeness&) const = default;
};

Likeness likeness_of(const Context& context, const Tensor& constant) {
  constexpr std::size_t kWords = 64;
  const auto* bytes = static_cast<const std::byte*>(constant.data());
  const std::size_t last = constant.bytes() - sizeof(uint64_t);
  uint64_t sample = 0;
  for (std::size_t i = 0; i < kWords; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + last / (kWords - 1) * i, sizeof(word));
    sample = (sample ^ word) * 0x9e3779b97f4a7c15;
  }
  return {&context, constant.dtype(), constant.shape(), sample};
}

struct Registry {
  std::mutex mutex;
  std::multimap<Likeness, std::weak_ptr<const DeviceConstant>> constants;
};
Registry& registry() {
  static auto* const all = new Registry;  // outlives Engines in static variables
  return *all;
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// With the registry locked.
std::shared_ptr<const DeviceConstant> shared_constant(const ContextPtr& context, const Tensor& constant) {
  auto& known = registry().constants;
  const Likeness likeness = likeness_of(*context, constant);
  const auto [begin, end] = known.equal_range(likeness);
  for (auto it = begin; it != end; ++it) {
    auto other = it->second.lock();
    if (other && is_same(other->host(), constant)) return other;
  }
  auto made = std::make_shared<const DeviceConstant>(constant);
  known.emplace(likeness, made);
  return made;
}

// Places small constants behind each other, as one constant, and fills in their addresses. With the registry locked.
Status upload_small(const ContextPtr& context, const std::vector<Tensor>& constants, DeviceConstants& out) {
  std::vector<int64_t> offsets(constants.size(), -1);
  int64_t total = 0;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i].bytes() >= kLarge) continue;
    offsets[i] = total;
    total += round_up(static_cast<int64_t>(constants[i].bytes()), kDeviceAlignment);
  }
  if (total == 0) return {};
  FUSEC_ASSIGN(Tensor gathered, Tensor::make(DType::u8, {total}));
  auto* const bytes = static_cast<std::byte*>(gathered.data());
  std::memset(bytes, 0, gathered.bytes());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (offsets[i] >= 0 && constants[i].bytes() > 0)
      std::memcpy(bytes + offsets[i], constants[i].data(), constants[i].bytes());
  }
  std::shared_ptr<const DeviceConstant> all = shared_constant(context, gathered);
  FUSEC_ASSIGN(void* const memory, all->address(context));
  for (std::size_t i = 0; i < constants.size(); ++i)
    if (offsets[i] >= 0) out.addresses[i] = static_cast<std::byte*>(memory) + offsets[i];
  out.shared.push_back(std::move(all));
  return {};
}

}  // namespace

Result<void*> DeviceConstant::address(const ContextPtr& context) const {
  const std::lock_guard lock(mutex_);
  if (memory_.address() != 0) return static_cast<void*>(memory_.data());
  FUSEC_ASSIGN(DeviceBuffer memory, DeviceBuffer::make(context, static_cast<int64_t>(host_.bytes())));
  const CUresult result = context->driver().cuMemcpyHtoD(memory.address(), host_.data(), host_.bytes());
  FUSEC_TRY(context->check(result, "cuMemcpyHtoD"));
  memory_ = std::move(memory);
  return static_cast<void*>(memory_.data());
}

Result<DeviceConstants> upload_constants(const ContextPtr& context, std::vector<Tensor>& constants,
                                         const std::vector<bool>& is_later) {
  DeviceConstants out;
  out.addresses.resize(constants.size());
  out.shared.resize(constants.size());
  {
    const std::lock_guard lock(registry().mutex);
    std::erase_if(registry().constants, [](const auto& known) { return known.second.expired(); });
    FUSEC_TRY(upload_small(context, constants, out));
    for (std::size_t i = 0; i < constants.size(); ++i) {
      if (constants[i].bytes() < kLarge) continue;
      out.shared[i] = shared_constant(context, constants[i]);
      constants[i] = out.shared[i]->host();
      if (is_later[i]) continue;
      FUSEC_ASSIGN(out.addresses[i], out.shared[i]->address(context));
    }
  }
  if (constants.empty()) return out;
  // A copy from pageable memory may return before the device has finished it.
  FUSEC_TRY(context->check(context->driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize"));
  return out;
}

}  // namespace fusec::runtime::cuda
