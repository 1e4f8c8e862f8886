// SPDX-License-Identifier: Apache-2.0
// Runs requests: groups those that can share a run, joins their inputs along the batch, and hands the parts of the
// outputs back.

#include "bindings/triton/instance.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

namespace fusec::triton {
namespace {

constexpr std::size_t kAlignment = 64;

uint64_t now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// The extents of all inputs but the first ones, and how many belong to each: equal for requests that can be joined.
std::vector<int64_t> key_of(const Job& job) {
  std::vector<int64_t> key;
  for (const Operand& input : job.inputs) {
    key.push_back(static_cast<int64_t>(input.extents.size()));
    key.insert(key.end(), input.extents.begin() + 1, input.extents.end());
  }
  return key;
}

bool has_one_batch(const Job& job) {
  return std::all_of(job.inputs.begin(), job.inputs.end(), [&](const Operand& input) {
    return !input.extents.empty() && input.extents[0] == job.inputs[0].extents[0];
  });
}

// Copies all parts one after another.
std::byte* gather(const Operand& operand, std::byte* to) {
  for (const Part& part : operand.parts) {
    if (part.bytes > 0) std::memcpy(to, part.data, part.bytes);
    to += part.bytes;
  }
  return to;
}

Error device_of(TRITONBACKEND_ModelInstance* instance, std::string& out) {
  TRITONSERVER_InstanceGroupKind kind;
  int32_t id = 0;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &id));
  if (kind == TRITONSERVER_INSTANCEGROUPKIND_MODEL)
    return make_error(TRITONSERVER_ERROR_UNSUPPORTED, "instance_group: KIND_MODEL; give KIND_CPU or KIND_GPU");
  out = kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? "cuda:" + std::to_string(id) : "cpu";
  return nullptr;
}

}  // namespace

std::byte* Staging::take(std::size_t bytes) {
  if (!memory_ || size_ < bytes) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
    size_ = bytes;
  }
  void* at = memory_.get();
  std::size_t space = size_ + kAlignment;
  return static_cast<std::byte*>(std::align(kAlignment, size_, at, space));
}

Error Instance::open(TRITONBACKEND_ModelInstance* instance, Model& model, std::unique_ptr<Instance>& out) {
  auto made = std::make_unique<Instance>();
  std::string device;
  FUSEC_TRITON_TRY(device_of(instance, device));
  FUSEC_TRITON_TRY(model.engine(device, made->engine_));
  fusec_session* session = nullptr;
  FUSEC_TRITON_TRY(fusec_session_new(made->engine_.get(), &session));
  made->session_.reset(session);
  made->instance_ = instance;
  made->model_ = &model;
  made->inputs_.resize(model.interface().inputs.size());
  made->outputs_.resize(model.interface().outputs.size());
  out = std::move(made);
  return nullptr;
}

// The extents and bytes of all outputs of the job alone.
Error Instance::find_outputs(Job& job) {
  const std::vector<TensorInfo>& infos = model_->interface().outputs;
  std::vector<int64_t> given;
  for (const Operand& input : job.inputs) given.insert(given.end(), input.extents.begin(), input.extents.end());
  std::size_t count = 0;
  for (const TensorInfo& info : infos) count += info.extents.size();
  std::vector<int64_t> found(count);
  FUSEC_TRITON_TRY(fusec_session_output_shapes(session_.get(), given.data(), found.data()));
  job.outputs.resize(infos.size());
  auto at = found.begin();
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(infos[i].extents.size());
    job.outputs[i].extents.assign(at, end);
    job.outputs[i].bytes = count_bytes(infos[i], job.outputs[i].extents);
    at = end;
  }
  return nullptr;
}

Error Instance::run(const std::vector<fusec_tensor>& inputs, const std::vector<fusec_tensor>& outputs) {
  times_.compute = now();
  Error error = take(fusec_session_run(session_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  times_.computed = now();
  return error;
}

// From where the inputs lie to where the outputs go.
Error Instance::run_alone(Job& job) {
  const Interface& interface = model_->interface();
  std::vector<fusec_tensor> inputs, outputs;
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    Operand& input = job.inputs[i];
    Part part = input.parts.size() == 1 ? input.parts[0] : Part();
    if (input.parts.size() > 1) {
      if (std::any_of(input.parts.begin(), input.parts.end(), [](const Part& p) { return p.on_gpu(); }))
        return make_error(TRITONSERVER_ERROR_UNSUPPORTED,
                          "input '" + interface.inputs[i].name + "' is in several pieces of a GPU's memory");
      part.data = inputs_[i].take(input.bytes);
      (void)gather(input, static_cast<std::byte*>(part.data));
    }
    inputs.push_back(to_tensor(interface.inputs[i], input.extents, part));
  }
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    Operand& output = job.outputs[i];
    Part part;
    if (output.parts.empty()) {
      part.data = outputs_[i].take(output.bytes);
    } else {
      part = output.parts[0];
    }
    outputs.push_back(to_tensor(interface.outputs[i], output.extents, part));
  }
  return run(inputs, outputs);
}

Error Instance::run_together(const std::vector<Job*>& group) {
  const Interface& interface = model_->interface();
  int64_t rows = 0;
  for (const Job* job : group) rows += job->inputs[0].extents[0];
  std::vector<fusec_tensor> inputs, outputs;
  std::vector<std::vector<int64_t>> extents;  // of all tensors
  extents.reserve(interface.inputs.size() + interface.outputs.size());
  const auto joined = [&](const TensorInfo& info, const Operand& first, Staging& staging) {
    extents.push_back(first.extents);
    extents.back()[0] = rows;
    Part part;
    part.data = staging.take(count_bytes(info, extents.back()));
    return to_tensor(info, extents.back(), part);
  };
  for (std::size_t i = 0; i < interface.inputs.size(); ++i) {
    inputs.push_back(joined(interface.inputs[i], group[0]->inputs[i], inputs_[i]));
    auto* to = static_cast<std::byte*>(inputs.back().data);
    for (const Job* job : group) to = gather(job->inputs[i], to);
  }
  for (std::size_t i = 0; i < interface.outputs.size(); ++i)
    outputs.push_back(joined(interface.outputs[i], group[0]->outputs[i], outputs_[i]));
  FUSEC_TRITON_TRY(run(inputs, outputs));
  for (std::size_t i = 0; i < interface.outputs.size(); ++i) {
    const auto* from = static_cast<const std::byte*>(outputs[i].data);
    for (const Job* job : group) {
      const Operand& output = job->outputs[i];
      if (!output.parts.empty() && output.bytes > 0) std::memcpy(output.parts[0].data, from, output.bytes);
      from += output.bytes;
    }
  }
  return nullptr;
}

Error Instance::run_group(const std::vector<Job*>& group) {
  return group.size() == 1 ? run_alone(*group[0]) : run_together(group);
}

void Instance::report(const std::vector<Job*>& group) {
  const Times& times = times_;
  const uint64_t end = now();
  int64_t rows = 0;
  for (Job* job : group) {
    log_error(take(TRITONBACKEND_ModelInstanceReportStatistics(instance_, job->request, !job->error, times.begin,
                                                               times.compute, times.computed, end)));
    if (!job->error) rows += model_->batches() ? job->inputs[0].extents[0] : 1;
  }
  if (rows == 0) return;
  log_error(take(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, static_cast<uint64_t>(rows), times.begin,
                                                                  times.compute, times.computed, end)));
}

Error Instance::prepare(Job& job) {
  FUSEC_TRITON_TRY(read_inputs(model_->interface(), job));
  FUSEC_TRITON_TRY(find_outputs(job));
  return open_outputs(model_->interface(), job);
}

Error Instance::run_all(std::vector<Job>& jobs) {
  std::map<std::vector<int64_t>, std::vector<Job*>> joined;
  std::vector<std::vector<Job*>> groups;
  for (Job& job : jobs) {
    if (!job.error && model_->batches() && has_one_batch(job) && !on_gpu(job)) {
      joined[key_of(job)].push_back(&job);
    } else {
      groups.push_back({&job});
    }
  }
  for (auto& [key, group] : joined) groups.push_back(std::move(group));
  for (const std::vector<Job*>& group : groups) {
    if (!group[0]->error) {
      if (const Error error = attempt([&] { return run_group(group); })) {
        for (Job* job : group)
          job->error = make_error(TRITONSERVER_ErrorCode(error.get()), TRITONSERVER_ErrorMessage(error.get()));
      }
    }
    report(group);
  }
  return nullptr;
}

void Instance::execute(TRITONBACKEND_Request** requests, uint32_t count) {
  std::vector<Job> jobs(count);
  times_.begin = times_.compute = times_.computed = now();
  for (uint32_t i = 0; i < count; ++i) {
    jobs[i].request = requests[i];
    jobs[i].error = attempt([&] { return prepare(jobs[i]); });
  }
  if (const Error error = attempt([&] { return run_all(jobs); })) {
    for (Job& job : jobs)
      job.error = make_error(TRITONSERVER_ErrorCode(error.get()), TRITONSERVER_ErrorMessage(error.get()));
  }
  for (Job& job : jobs) finish(job);
}

}  // namespace fusec::triton
