// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/compiled.h"

#include <numeric>

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

Compiled::Compiled(EngineHandle engine, bool on_host) : engine_(std::move(engine)), on_host_(on_host) {
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

std::unique_ptr<Compiled::RunState> Compiled::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::unique_ptr<RunState> state = std::move(idle_.back());
  idle_.pop_back();
  return state;
}

std::unique_ptr<Compiled::RunState> Compiled::make_state() const {
  auto state = std::make_unique<RunState>();
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
    state.inputs[i] = const_cast<void*>(api.get<api::GetTensorData, const void*>(value));
  }
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
    extents += rank;
  }
}

void Compiled::run_by_tensors(RunState& state) const {
  set_tensors(inputs_, state.inputs, state.extents, state.input_tensors);
  set_tensors(outputs_, state.outputs, state.output_extents, state.output_tensors);
  check(fusec_session_run(state.session.get(), state.input_tensors.data(), state.input_tensors.size(),
                          state.output_tensors.data(), state.output_tensors.size()));
}

void Compiled::run(const Api& api, OrtKernelContext* context) {
  std::unique_ptr<RunState> state = take_idle();
  if (state == nullptr) {
    check_fixed(api, context);
    state = make_state();
  }
  read_inputs(api, context, *state);
  make_outputs(api, context, *state);
  if (on_host_) {
    check(fusec_session_run_raw(state->session.get(), state->extents.data(), state->inputs.data(),
                                state->outputs.data(), nullptr));
  } else {
    run_by_tensors(*state);
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(state));  // after an error it is not kept
}

}  // namespace fusec::ort
