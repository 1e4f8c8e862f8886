// SPDX-License-Identifier: Apache-2.0
// Holds what the host runner and the GPU runner share during a run: creating and checking outputs, detecting outputs
// that would clobber an input, and recording why a tensor is staged.

#include "runtime/run/runner.h"

#include <algorithm>
#include <utility>

#include "fusec/device.h"
#include "runtime/device/device.h"
#include "runtime/device/host/memory.h"
#include "runtime/plan/state.h"

namespace fusec::runtime {

Result<std::unique_ptr<Runner>> make_runner(const EngineState& state) {
  const LoadedProgram& loaded = *state.loaded;
  if (loaded.device != nullptr) return loaded.device->make_runner(loaded.program, state.options, state.target.model);
  return make_host_runner(loaded.program, state.options.allocator);
}
namespace {

constexpr int64_t kDeviceAlignment = 256;  // of memory of a GPU, as libraries like it

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

Status mismatch(const char* kind, const BoundIo& io, const Tensor& given) {
  return Status(StatusCode::invalid_argument, std::string(kind) + " '" + io.name + "' must be " + to_string(io.dtype) +
                                                  shape_text(io.shape) + ", given is " + to_string(given.dtype()) +
                                                  shape_text(given.shape()));
}

bool is_unset(const Tensor& t) { return t.data() == nullptr && t.rank() == 0; }

// The bytes that a tensor's elements span, as [first, second).
std::pair<uintptr_t, uintptr_t> compute_span(const Tensor& t) {
  const auto base = reinterpret_cast<uintptr_t>(t.data());
  const auto element = static_cast<int64_t>(size_of(t.dtype()));
  if (t.num_elements() == 0) return {base, base};
  int64_t low = 0, high = element;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    int64_t& end = t.strides()[i] < 0 ? low : high;
    end += (t.shape()[i] - 1) * t.strides()[i] * element;
  }
  return {base + static_cast<uintptr_t>(low), base + static_cast<uintptr_t>(high)};
}

// The run writes every element.
Result<Tensor> make_by_host(const BoundIo& io, const OutputMemory& from) {
  const Tensor shape = Tensor::borrow(io.dtype, io.shape, nullptr);
  const MemoryRequest request{.device = from.device,
                              .bytes = std::max<int64_t>(static_cast<int64_t>(shape.bytes()), 1),
                              .alignment = from.device.kind == TargetKind::cpu ? kAlignment : kDeviceAlignment,
                              .stream = from.device.kind == TargetKind::cpu ? nullptr : from.stream};
  FUSEC_ASSIGN(void* const data, allocate_by(*from.allocator, request));
  std::shared_ptr<const void> owner(
      data, [allocator = from.allocator, device = from.device, stream = request.stream](const void* memory) {
        allocator->free(const_cast<void*>(memory), device, stream);
      });
  return Tensor::share(io.dtype, io.shape, data, std::move(owner), from.device);
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto [a_low, a_high] = compute_span(a);
  const auto [b_low, b_high] = compute_span(b);
  return a_low < b_high && b_low < a_high && a_low < a_high && b_low < b_high;
}

}  // namespace

std::string launch_name(const Plan& plan, const Launch& launch) {
  if (launch.op != nullptr) return launch.op->implementation();
  return plan.loaded->program.kernels[std::get<ir::KernelStep>(launch.step->v).kernel].name;
}

void Runner::StagingLog::add(std::size_t slot, const char* kind, const BoundIo& io, const char* why) {
  ++copies;
  if (noted[slot]) return;
  noted[slot] = true;
  notes.push_back(std::string(kind) + " '" + io.name + "' is copied at each run: " + why);
}

Status take_output(const BoundIo& io, Tensor& output, const OutputMemory& from) {
  if (is_unset(output)) {
    FUSEC_ASSIGN(output,
                 from.allocator == nullptr ? make_tensor(from.device, io.dtype, io.shape) : make_by_host(io, from));
  }
  if (output.dtype() != io.dtype || output.shape() != io.shape) return mismatch("output", io, output);
  if (output.data() != nullptr || output.num_elements() == 0) return {};
  return Status(StatusCode::invalid_argument, "output '" + io.name + "' has no memory");
}

bool is_aligned(const void* data, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0;
}

bool clobbers_input(const Plan& plan, std::span<const Tensor> inputs, const Tensor& output, uint32_t o) {
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (plan.inputs[i].last < plan.outputs[o].first || !overlap(inputs[i], output)) continue;
    const bool in_place = std::any_of(plan.in_place.begin(), plan.in_place.end(),
                                      [&](const InPlaceIo& p) { return p.input == i && p.output == o; });
    if (!in_place || inputs[i].data() != output.data()) return true;
  }
  return false;
}

std::span<const int64_t> RowMajor::strides(std::span<const int64_t> shape) {
  strides_.resize(shape.size());
  int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= shape[i];
  }
  return strides_;
}

}  // namespace fusec::runtime
