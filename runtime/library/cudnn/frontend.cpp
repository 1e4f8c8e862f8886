// SPDX-License-Identifier: Apache-2.0
// Builds, caches, lists and runs plans of cuDNN's graph API (convolutions, attention) through cudnn-frontend. The
// filters here enforce the numerics that the spec demands; exceptions of cudnn-frontend must not leave this file.

#include "runtime/library/cudnn/handles.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <unordered_map>
#include <utility>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by cudnn-frontend, which looks up symbols in it
}

namespace fusec::runtime::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kInput = 1, kFilter = 2, kOperands = 3;  // unique ids; pointers are passed in the order of ids

fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return fe::DataType_t::DOUBLE;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    default:
      return fe::DataType_t::FLOAT;
  }
}

Tensor add_tensor(fe::graph::Graph& graph, const TensorSpec& spec, int64_t id) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_dim(spec.dims)
                          .set_stride(spec.strides)
                          .set_data_type(type_of(spec.dtype))
                          .set_alignment(spec.alignment)
                          .set_uid(id));
}

Tensor add_post(fe::graph::Graph& graph, const EpilogueSpec& epilogue, const Tensor& value, int64_t& id) {
  using enum fe::PointwiseMode_t;
  const auto attributes = fe::graph::Pointwise_attributes().set_mode(epilogue.operand ? ADD : RELU_FWD);
  if (!epilogue.operand) return graph.pointwise(value, attributes);
  return graph.pointwise(value, add_tensor(graph, *epilogue.operand, id++), attributes);
}

fe::graph::Conv_fprop_attributes make_conv_attributes(const Window& window) {
  return fe::graph::Conv_fprop_attributes()
      .set_pre_padding(window.before)
      .set_post_padding(window.after)
      .set_stride(window.strides)
      .set_dilation(window.dilations)
      .set_convolution_mode(fe::ConvolutionMode_t::CROSS_CORRELATION);
}

void set_output(const Tensor& value, const TensorSpec& spec, int64_t id) {
  value->set_output(true)
      .set_dim(spec.dims)
      .set_stride(spec.strides)
      .set_data_type(type_of(spec.dtype))
      .set_alignment(spec.alignment)
      .set_uid(id);
}

void describe(fe::graph::Graph& graph, const ConvSpec& spec) {
  const fe::DataType_t compute = type_of(spec.compute);
  graph.set_io_data_type(type_of(spec.in.dtype)).set_intermediate_data_type(compute).set_compute_data_type(compute);
  const Tensor in = add_tensor(graph, spec.in, kInput), filter = add_tensor(graph, spec.filter, kFilter);
  Tensor value = graph.conv_fprop(in, filter, make_conv_attributes(spec.window));
  int64_t id = kOperands;
  for (const EpilogueSpec& epilogue : spec.epilogues) {
    value->set_dim(spec.out.dims).set_stride(spec.out.strides);
    value = add_post(graph, epilogue, value, id);
  }
  set_output(value, spec.out, id);
}

void describe(fe::graph::Graph& graph, const AttentionSpec& spec) {
  const fe::DataType_t f32 = fe::DataType_t::FLOAT;
  graph.set_io_data_type(type_of(spec.query.dtype)).set_intermediate_data_type(f32).set_compute_data_type(f32);
  int64_t id = kInput;
  const Tensor query = add_tensor(graph, spec.query, id++), key = add_tensor(graph, spec.key, id++);
  const Tensor value = add_tensor(graph, spec.value, id++);
  auto attributes = fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(spec.scale);
  if (spec.mask) attributes.set_bias(add_tensor(graph, *spec.mask, id++));
  if (spec.causal) {
    // The same where there are as many queries as keys, but cuDNN up to 9.5 has only multiples of 64 from below.
    const bool square = spec.query.dims[2] == spec.key.dims[2];
    attributes
        .set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  }
  const Tensor out = graph.sdpa(query, key, value, std::move(attributes))[0];
  set_output(out, spec.out, id);
}

// The plan properties that our numerics forbid. The largest Winograd tiles lose several digits in f32.
std::vector<fe::NumericalNote_t> forbidden(const ConvSpec& spec) {
  using enum fe::NumericalNote_t;
  std::vector<fe::NumericalNote_t> notes{NONDETERMINISTIC, DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION,
                                         WINOGRAD_TILE_6x6, WINOGRAD_TILE_13x13};
  if (spec.in.dtype == DType::f32 && !spec.tf32) notes.push_back(TENSOR_CORE);
  return notes;
}

std::vector<fe::NumericalNote_t> forbidden(const AttentionSpec&) { return {fe::NumericalNote_t::NONDETERMINISTIC}; }

fe::error_t lower(fe::graph::Graph& graph, cudnnHandle_t handle) {
  const fe::error_t error = graph.validate();
  return error.is_good() ? graph.build_operation_graph(handle) : error;
}

// Removes forbidden plans; an error if none remains.
template <class Spec>
fe::error_t filter(fe::graph::Graph& graph, const Spec& spec) {
  graph.deselect_numeric_notes(forbidden(spec));
  graph.deselect_engines(barred_engines(spec));
  graph.deselect_workspace_greater_than(static_cast<int64_t>(spec.workspace_limit));
  return graph.check_support();
}

// "eng28_k2=4_k24=17", the form in which cudnn-frontend names a plan.
bool parse_name(const std::string& name, int64_t& engine, std::unordered_map<fe::KnobType_t, int64_t>& knobs) {
  int at = 0;
  if (std::sscanf(name.c_str(), "eng%" SCNd64 "%n", &engine, &at) != 1) return false;
  for (const char* rest = name.c_str() + at; *rest != '\0'; rest += at) {
    int knob = 0;
    int64_t value = 0;
    if (std::sscanf(rest, "_k%d=%" SCNd64 "%n", &knob, &value, &at) != 2) return false;
    knobs[fe::convert_from_backend_knob_type(static_cast<cudnnBackendKnobType_t>(knob))] = value;
  }
  return true;
}

// Adds only the plan with this name. Whether it works is not known until it is built.
template <class Spec>
fe::error_t add_named(fe::graph::Graph& graph, const Spec& spec, const std::string& name) {
  int64_t engine = 0;
  std::unordered_map<fe::KnobType_t, int64_t> knobs;
  if (!parse_name(name, engine, knobs)) return {fe::error_code_t::INVALID_VALUE, "'" + name + "' names no plan"};
  const fe::error_t error = graph.create_execution_plan(engine, knobs);
  return error.is_good() ? filter(graph, spec) : error;
}

template <class Spec>
fe::error_t build(fe::graph::Graph& graph, const Spec& spec, cudnnHandle_t handle) {
  using enum fe::HeurMode_t;
  fe::error_t error = lower(graph, handle);
  if (error.is_bad()) return error;
  if (!spec.plan.empty()) {
    error = add_named(graph, spec, spec.plan);
    return error.is_good() ? graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE) : error;
  }
  // The modes after A take time, and their plans rank behind those of A.
  for (const std::vector<fe::HeurMode_t>& modes : {std::vector{A}, std::vector{B, FALLBACK}}) {
    error = graph.create_execution_plans(modes);
    if (error.is_good()) error = filter(graph, spec);
    if (error.is_good()) error = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
    if (error.is_good()) break;
  }
  return error;
}

// The names of all plans that the heuristics list, without duplicates.
template <class Spec>
fe::error_t list_names(const Spec& spec, cudnnHandle_t handle, std::vector<std::string>& names) {
  using enum fe::HeurMode_t;
  fe::graph::Graph graph;
  describe(graph, spec);
  fe::error_t error = lower(graph, handle);
  if (error.is_bad()) return error;
  for (const fe::HeurMode_t mode : {A, B, FALLBACK}) (void)graph.create_execution_plans({mode});
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    std::string name;
    error = graph.get_plan_name_at_index(i, name);
    if (error.is_good() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return {fe::error_code_t::OK, ""};
}

// Names that the heuristics may leave out.
std::vector<std::string> more_names(const ConvSpec& /*spec*/) { return {}; }
std::vector<std::string> more_names(const AttentionSpec& /*spec*/) {
  std::vector<std::string> names;
  for (const char* engine : {"eng1", "eng2", "eng4", "eng5"})
    for (const char* knob : {"_k24=3", "_k24=5", "_k24=7"}) names.push_back(std::string(engine) + knob);
  return names;
}

// Whether cuDNN accepts the name and the plan meets our numerics.
template <class Spec>
bool is_usable(const Spec& spec, cudnnHandle_t handle, const std::string& name) {
  fe::graph::Graph graph;
  describe(graph, spec);
  return lower(graph, handle).is_good() && add_named(graph, spec, name).is_good();
}

// A graph whose plan can be serialized and deserialized.
class PlanGraph : public fe::graph::Graph {
 public:
  // Throws if cuDNN cannot serialize the plan.
  StoredPlan written() const {
    StoredPlan out;
    if (get_plan_name(out.name).is_bad()) return {};
    out.text = plans.execution_plans[static_cast<std::size_t>(plans.candidate)]->getJsonRepresentation();
    return out;
  }
  fe::error_t read(const std::string& text, cudnnHandle_t handle) {
    const fe::error_t error = lower(*this, handle);
    return error.is_good() ? plans.build_plans(handle, text) : error;
  }
};

// The stored plan; null if it does not work.
template <class Spec>
std::unique_ptr<PlanGraph> read_plan(const Spec& spec, cudnnHandle_t handle, const StoredPlan& stored) try {
  auto graph = std::make_unique<PlanGraph>();
  describe(*graph, spec);
  if (graph->read(stored.text, handle).is_bad()) return nullptr;
  const int64_t workspace = graph->get_workspace_size();
  if (workspace < 0 || workspace > static_cast<int64_t>(spec.workspace_limit)) return nullptr;
  return graph;
} catch (const std::exception&) {
  return nullptr;
}

void write_plan(const PlanGraph& graph, const std::string& key, const CudnnPlanCache* cache) try {
  if (cache == nullptr) return;
  const StoredPlan plan = graph.written();
  if (!plan.text.empty()) cache->store(key, plan);
} catch (const std::exception&) {
  // Some plans cannot be serialized; they are not cached.
}

// Whether the call can be made of others if cuDNN has no plan. A bare convolution is the last fallback.
bool has_fallback(const ConvSpec& spec) { return !spec.epilogues.empty() && spec.plan.empty(); }
bool has_fallback(const AttentionSpec& spec) { return !spec.plan.empty(); }

// Caches that cuDNN has no plan. Failures caused by a full or lost device are not cached.
template <class Spec>
void write_refusal(fe::error_t error, const Spec& spec, const CudnnPlanCache* cache) {
  using enum fe::error_code_t;
  const fe::error_code_t code = error.get_code();
  const bool lasting =
      code == GRAPH_NOT_SUPPORTED || code == GRAPH_EXECUTION_PLAN_CREATION_FAILED || code == HEURISTIC_QUERY_FAILED;
  if (cache != nullptr && lasting && has_fallback(spec)) cache->store(to_text(spec), {error.get_message(), ""});
}

class GraphPlan : public CudnnPlan {
 public:
  GraphPlan(std::shared_ptr<Handles> handles, std::unique_ptr<fe::graph::Graph> graph, std::size_t pointers,
            std::string name)
      : handles_(std::move(handles)), graph_(std::move(graph)), pointers_(pointers), name_(std::move(name)) {
    workspace_ = static_cast<std::size_t>(graph_->get_workspace_size());
  }

  Status run(void* const* pointers, void* workspace, void* stream) const override try {
    return handles_->run(stream, [&](cudnnHandle_t handle) -> Status {
      if (handle == nullptr) return Status(StatusCode::device, "cuDNN does not take the stream");
      // execute() does not write through it; the frontend's signature lacks const.
      fe::error_t error = graph_->execute(handle, const_cast<void**>(pointers), static_cast<int>(pointers_), workspace);
      if (error.is_good()) return {};
      return Status(StatusCode::device, "cuDNN failed to run " + name_ + ": " + error.get_message());
    });
  } catch (const std::exception& error) {
    return Status(StatusCode::device, std::string("cuDNN: ") + error.what());
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::string name() const override { return name_; }

 private:
  std::shared_ptr<Handles> handles_;
  std::unique_ptr<fe::graph::Graph> graph_;
  std::size_t pointers_, workspace_ = 0;
  std::string name_;
};

std::size_t count_pointers(const ConvSpec& spec) {
  std::size_t count = 3;
  for (const EpilogueSpec& epilogue : spec.epilogues) count += epilogue.operand ? 1 : 0;
  return count;
}

std::size_t count_pointers(const AttentionSpec& spec) { return spec.mask ? 5 : 4; }

template <class Spec>
Result<std::unique_ptr<CudnnPlan>> make_plan(std::shared_ptr<Handles> handles, const Spec& spec,
                                             const CudnnPlanCache* cache) try {
  const std::string key = to_text(spec);
  std::string name;
  std::unique_ptr<PlanGraph> graph;
  if (const std::optional<StoredPlan> stored = cache != nullptr ? cache->load(key) : std::nullopt) {
    if (stored->text.empty()) return Status(StatusCode::unsupported, "cuDNN: " + stored->name);
    graph = handles->build([&](cudnnHandle_t handle) { return read_plan(spec, handle, *stored); });
    name = stored->name;
  }
  if (!graph) {
    graph = std::make_unique<PlanGraph>();
    describe(*graph, spec);
    fe::error_t error = handles->build([&](cudnnHandle_t handle) { return build(*graph, spec, handle); });
    if (error.is_bad()) {
      write_refusal(error, spec, cache);
      return Status(StatusCode::unsupported, "cuDNN: " + error.get_message());
    }
    if (graph->get_plan_name(name).is_bad()) name = "unnamed plan";
    write_plan(*graph, key, cache);
  }
  return std::unique_ptr<CudnnPlan>(
      std::make_unique<GraphPlan>(std::move(handles), std::move(graph), count_pointers(spec), std::move(name)));
} catch (const std::exception& error) {
  return Status(StatusCode::unsupported, std::string("cuDNN: ") + error.what());
}

template <class Spec>
Result<std::vector<CudnnPlanInfo>> usable_names(const std::shared_ptr<Handles>& handles, const Spec& spec) try {
  std::vector<CudnnPlanInfo> plans;
  fe::error_t error = handles->build([&](cudnnHandle_t handle) {
    std::vector<std::string> names;
    fe::error_t listed = list_names(spec, handle, names);
    for (std::string& name : more_names(spec))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    for (std::string& name : names) {
      if (is_usable(spec, handle, name)) plans.push_back({std::move(name)});
    }
    return listed;
  });
  if (error.is_bad()) return Status(StatusCode::unsupported, "cuDNN: " + error.get_message());
  return plans;
} catch (const std::exception& error) {
  return Status(StatusCode::unsupported, std::string("cuDNN: ") + error.what());
}

}  // namespace

void use_library(void* library) { fe::cudnn_dlhandle = library; }

Result<std::unique_ptr<CudnnPlan>> conv_plan(std::shared_ptr<Handles> handles, const ConvSpec& spec,
                                             const CudnnPlanCache* cache) {
  return make_plan(std::move(handles), spec, cache);
}

Result<std::unique_ptr<CudnnPlan>> attention_plan(std::shared_ptr<Handles> handles, const AttentionSpec& spec,
                                                  const CudnnPlanCache* cache) {
  return make_plan(std::move(handles), spec, cache);
}

Result<std::vector<CudnnPlanInfo>> plan_names(const std::shared_ptr<Handles>& handles, const ConvSpec& spec) {
  return usable_names(handles, spec);
}

Result<std::vector<CudnnPlanInfo>> plan_names(const std::shared_ptr<Handles>& handles, const AttentionSpec& spec) {
  return usable_names(handles, spec);
}

}  // namespace fusec::runtime::cudnn
