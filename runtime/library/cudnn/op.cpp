// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/cudnn/op.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ir/support/check.h"

namespace fusec::runtime::cudnn {
namespace {

constexpr std::size_t kMaxPointers = 16;
constexpr std::size_t kDeviceAlignment = 256;

std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

class CudnnOp : public LibraryOp {
 public:
  explicit CudnnOp(Recipe recipe) : recipe_(std::move(recipe)) {}

  Status run(void* const* args, void* workspace, const ExecContext& context) const override {
    // The arena promises 64 bytes.
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    char* const base = reinterpret_cast<char*>(aligned_bytes(address));
    for (const Stage& stage : recipe_.stages) {
      std::array<void*, kMaxPointers> pointers{};
      for (std::size_t i = 0; i < stage.pointers.size(); ++i) {
        const Pointer& p = stage.pointers[i];
        pointers[i] = p.place == Place::arg ? args[p.arg] : p.place == Place::fixed ? p.fixed : base + p.offset;
      }
      FUSEC_TRY(stage.plan->run(pointers.data(), base + recipe_.temporaries, context.stream));
    }
    return {};
  }
  std::size_t workspace_bytes() const override {
    const std::size_t bytes = recipe_.temporaries + recipe_.scratch;
    return bytes == 0 ? 0 : bytes + kDeviceAlignment;
  }
  int64_t alignment(std::size_t arg) const override {
    const auto it = recipe_.alignments.find(static_cast<int>(arg));
    return it == recipe_.alignments.end() ? 1 : it->second;
  }
  std::string implementation() const override { return "cudnn " + recipe_.implementation; }
  std::size_t packed_bytes() const override { return recipe_.packed; }

 private:
  Recipe recipe_;
};

}  // namespace

Pointer Recipe::reserve(const TensorSpec& tensor) {
  const std::size_t bytes = static_cast<std::size_t>(product(tensor.dims)) * size_of(tensor.dtype);
  return {Place::temporary, -1, std::exchange(temporaries, temporaries + aligned_bytes(bytes)), nullptr};
}

void Recipe::add(std::shared_ptr<const Work> plan, std::vector<Pointer> pointers) {
  FUSEC_CHECK(pointers.size() <= kMaxPointers) << "a plan of " << pointers.size() << " pointers";
  scratch = std::max(scratch, plan->workspace_bytes());
  implementation += (implementation.empty() ? "" : " + ") + plan->name();
  stages.push_back({std::move(plan), std::move(pointers)});
}

void Recipe::need(const Pointer& pointer, const TensorSpec& tensor) {
  if (pointer.place != Place::arg) return;
  int64_t& alignment = alignments[pointer.arg];
  alignment = std::max(alignment, tensor.alignment);
}

std::unique_ptr<LibraryOp> make_op(Recipe recipe) { return std::make_unique<CudnnOp>(std::move(recipe)); }

}  // namespace fusec::runtime::cudnn
