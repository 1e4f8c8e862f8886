// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/compiled.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "bindings/onnxruntime/gpu_memory.h"

namespace fusec::ort {
namespace {

std::vector<Port> ports_of(const fusec_engine* engine, std::size_t count, decltype(&fusec_engine_input) get) {
  std::vector<Port> ports(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(get(engine, i, &name, &ports[i].dtype, &ports[i].rank));
    ports[i].name = name;
  }
  return ports;
}

std::vector<Size> same_places(std::size_t count) {
  std::vector<Size> places(count);
  std::iota(places.begin(), places.end(), Size{0});
  return places;
}

std::size_t total_rank(const std::vector<Port>& ports) {
  std::size_t rank = 0;
  for (const Port& port : ports) rank += static_cast<std::size_t>(port.rank);
  return rank;
}

void set_tensors(const std::vector<Port>& ports, const std::vector<void*>& data, std::vector<int64_t>& extents,
                 std::vector<fusec_tensor>& tensors) {
  tensors.resize(ports.size());
  int64_t* shape = extents.data();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    tensors[i] = {data[i], {FUSEC_DEVICE_CPU, 0}, ports[i].rank, ports[i].dtype, shape, nullptr, 0};
    shape += ports[i].rank;
  }
}

}  // namespace

Compiled::Compiled(EngineHandle engine, const Settings& settings)
    : engine_(std::move(engine)), in_place_(settings.runs_in_place()), gpu_(settings.gpu) {
  std::size_t inputs = 0, outputs = 0;
  check(fusec_engine_counts(engine_.get(), &inputs, &outputs));
  inputs_ = ports_of(engine_.get(), inputs, fusec_engine_input);
  outputs_ = ports_of(engine_.get(), outputs, fusec_engine_output);
  set_places(same_places(inputs), same_places(outputs));
}

void Compiled::set_places(std::vector<Size> inputs, std::vector<Size> outputs) {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    throw Failure(ErrorCode::ep_fail, "fusec: the package has " + std::to_string(inputs_.size()) + " inputs and " +
                                          std::to_string(outputs_.size()) + " outputs, the node " +
                                          std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
  }
  input_places_ = std::move(inputs);
  output_places_ = std::move(outputs);
}

std::unique_ptr<Compiled::RunState> Compiled::take_idle(void* stream) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& idle) { return idle->stream == stream; });
  if (found == idle_.rend()) return nullptr;
  std::unique_ptr<RunState> state = std::move(*found);
  idle_.erase(std::next(found).base());
  return state;
}

std::unique_ptr<Compiled::RunState> Compiled::make_state(void* stream) const {
  auto state = std::make_unique<RunState>();
  state->stream = stream;
  fusec_session* session = nullptr;
  check(fusec_session_new(engine_.get(), &session));
  state->session.reset(session);
  state->extents.resize(total_rank(inputs_));
  state->output_extents.resize(total_rank(outputs_));
  state->inputs.resize(inputs_.size());
  state->outputs.resize(outputs_.size());
  return state;
}

// ONNX Runtime promises that weights stay where they were shown.
void Compiled::check_fixed(const Api& api, const OrtKernelContext* context) const {
  for (const Fixed& fixed : fixed_) {
    const auto* const value = api.get<api::KernelContextGetInput, const OrtValue*>(context, fixed.place);
    if (value != nullptr && api.get<api::GetTensorData, const void*>(value) == fixed.data) continue;
    throw Failure(ErrorCode::ep_fail, "fusec: ONNX Runtime moved a weight after it was compiled");
  }
}

void Compiled::read_inputs(const Api& api, const OrtKernelContext* context, RunState& state) const {
  int64_t* extents = state.extents.data();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto* const value = api.get<api::KernelContextGetInput, const OrtValue*>(context, input_places_[i]);
    if (value == nullptr) throw Failure(ErrorCode::ep_fail, "fusec: input '" + inputs_[i].name + "' is missing");
    auto* const info = api.get<api::GetTensorTypeAndShape, OrtTensorTypeAndShapeInfo*>(value);
    const Size rank = api.get<api::GetDimensionsCount, Size>(info);
    const bool fits = rank == static_cast<Size>(inputs_[i].rank);
    if (fits && rank > 0) api.call<api::GetDimensions>(info, extents, rank);
    api.plain<api::ReleaseTensorTypeAndShapeInfo>(info);
    if (!fits) {
      throw Failure(ErrorCode::invalid_argument, "fusec: input '" + inputs_[i].name + "' has " + std::to_string(rank) +
                                                     " axes; the model was compiled for " +
                                                     std::to_string(inputs_[i].rank));
    }
    extents += rank;
    const bool is_elsewhere = gpu_ != nullptr && !place_of(api, value).on_gpu;
    state.inputs[i] = is_elsewhere ? move_to_gpu(api, value, state)
                                   : const_cast<void*>(api.get<api::GetTensorData, const void*>(value));
  }
}

// ONNX Runtime leaves what comes from a node of the CPU on the host, although it plans a copy (MemcpyFromHost).
void* Compiled::move_to_gpu(const Api& api, const OrtValue* value, RunState& state) const {
  const Size bytes = api.get<api::GetTensorSizeInBytes, Size>(value);
  if (bytes == 0) return nullptr;
  auto* const stream = static_cast<CudaStream>(state.stream);
  void* const memory = gpu_->allocate(bytes, stream);
  state.moved.push_back(memory);
  gpu_->copy(memory, api.get<api::GetTensorData, const void*>(value), bytes, stream);
  if (place_of(api, value).is_pinned) gpu_->wait_for(stream);  // other memory has been read when the copy returns
  return memory;
}

// The memory is used again behind the run, which is on the stream by now.
void Compiled::free_moved(RunState& state) const {
  for (void* memory : state.moved) gpu_->free(memory);
  state.moved.clear();
}

// A kernel that wrote elsewhere would end the work of the whole process on the GPU.
void Compiled::check_output(const Api& api, OrtValue* value, std::size_t index, bool is_empty) const {
  if (is_empty) return;
  const bool is_there = api.get<api::GetTensorMutableData, void*>(value) != nullptr;
  const Place place = place_of(api, static_cast<const OrtValue*>(value));
  if (is_there && (place.on_gpu || place.is_pinned)) return;
  const std::string what = gpu_->name() + " for output '" + outputs_[index].name + "'";
  throw Failure(ErrorCode::ep_fail, is_there ? "fusec: ONNX Runtime gave memory of the host and not of " + what
                                             : "fusec: there is no memory left on " + what);
}

void Compiled::make_outputs(const Api& api, OrtKernelContext* context, RunState& state) const {
  if (state.seen_extents != state.extents || state.seen_extents.empty()) {
    state.seen_extents.clear();
    check(fusec_session_output_shapes(state.session.get(), state.extents.data(), state.output_extents.data()));
    state.seen_extents = state.extents;
  }
  const int64_t* extents = state.output_extents.data();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Size rank = static_cast<Size>(outputs_[i].rank);
    auto* const value = api.get<api::KernelContextGetOutput, OrtValue*>(context, output_places_[i], extents, rank);
    state.outputs[i] = api.get<api::GetTensorMutableData, void*>(value);
    if (gpu_ != nullptr) check_output(api, value, i, std::find(extents, extents + rank, 0) != extents + rank);
    extents += rank;
  }
}

void Compiled::run_by_tensors(RunState& state) const {
  set_tensors(inputs_, state.inputs, state.extents, state.input_tensors);
  set_tensors(outputs_, state.outputs, state.output_extents, state.output_tensors);
  check(fusec_session_run(state.session.get(), state.input_tensors.data(), state.input_tensors.size(),
                          state.output_tensors.data(), state.output_tensors.size()));
}

void Compiled::put_run(RunState& state) const {
  if (!in_place_) return run_by_tensors(state);
  check(fusec_session_run_raw(state.session.get(), state.extents.data(), state.inputs.data(), state.outputs.data(),
                              state.stream));
}

void Compiled::run(const Api& api, OrtKernelContext* context) {
  void* const stream =
      gpu_ != nullptr
          ? api.get<api::KernelContextGetGpuComputeStream, void*>(static_cast<const OrtKernelContext*>(context))
          : nullptr;
  std::unique_ptr<RunState> state = take_idle(stream);
  if (state == nullptr) {
    check_fixed(api, context);
    state = make_state(stream);
  }
  try {
    read_inputs(api, context, *state);
    make_outputs(api, context, *state);
    put_run(*state);
  } catch (...) {
    free_moved(*state);
    throw;
  }
  free_moved(*state);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(state));  // after an error it is not kept
}

}  // namespace fusec::ort
