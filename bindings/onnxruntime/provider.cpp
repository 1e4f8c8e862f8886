// SPDX-License-Identifier: Apache-2.0
// The execution provider of a session.
#include "bindings/onnxruntime/provider.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "bindings/onnxruntime/capability.h"
#include "bindings/onnxruntime/context.h"

namespace fusec::ort {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct ComputeInfo : OrtNodeComputeInfo {
  ComputeInfo(const Api& api, std::unique_ptr<Compiled> compiled) : api(api), compiled(std::move(compiled)) {
    create_state = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept -> OrtStatus* {
      *state = static_cast<ComputeInfo*>(self)->compiled.get();
      return nullptr;
    };
    compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) noexcept -> OrtStatus* {
      auto& info = *static_cast<ComputeInfo*>(self);
      return guarded(info.api, [&]() -> OrtStatus* {
        info.compiled->run(info.api, context);
        return nullptr;
      });
    };
    release_state = [](OrtNodeComputeInfo*, void*) noexcept {};
  }
  const Api& api;
  std::unique_ptr<Compiled> compiled;
};

int64_t compiled_kernels(const Compiled& compiled) {
  char* text = nullptr;
  check(fusec_engine_stats_json(compiled.engine(), &text));
  const TextHandle owner(text);
  constexpr std::string_view kKey = "\"compiled_kernels\":";
  const std::string_view stats(text);
  const std::size_t begin = stats.find(kKey);
  return begin == std::string_view::npos ? 0 : std::strtoll(text + begin + kKey.size(), nullptr, 10);
}

// Where ONNX Runtime has each of the engine's inputs or outputs.
std::vector<Size> places_of(const std::vector<std::string>& wanted, const std::vector<std::string>& names) {
  std::vector<Size> places;
  for (const std::string& name : wanted) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) throw Failure(ErrorCode::ep_fail, "fusec: the fused node lacks '" + name + "'");
    places.push_back(static_cast<Size>(place - names.begin()));
  }
  return places;
}

std::vector<Compiled::Fixed> places_of(const std::vector<Weight>& weights, const std::vector<std::string>& names) {
  std::vector<Compiled::Fixed> fixed;
  for (const Weight& weight : weights) {
    const auto place = std::find(names.begin(), names.end(), weight.name);
    if (place == names.end()) throw Failure(ErrorCode::ep_fail, "fusec: the fused node lacks '" + weight.name + "'");
    fixed.push_back({static_cast<Size>(place - names.begin()), weight.data});
  }
  return fixed;
}

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

std::vector<int> all_nodes(const Graph& graph) {
  std::vector<int> nodes(graph.nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) nodes[n] = static_cast<int>(n);
  return nodes;
}

class Provider : public OrtEp {
 public:
  Provider(const Api& api, const OrtLogger* logger, Settings settings)
      : api_(api), logger_(logger), settings_(std::move(settings)) {
    get_name = [](const OrtEp*) noexcept -> const char* { return kProviderName; };
    get_capability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* info) noexcept {
      return of(self).guard([&] { of(self).tell_capability(graph, info); });
    };
    compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
                 OrtNodeComputeInfo** infos, OrtNode** contexts) noexcept {
      return of(self).guard([&] {
        of(self).has_compiled_ = true;
        for (std::size_t i = 0; i < count; ++i) infos[i] = of(self).compile_one(graphs[i], fused[i], &contexts[i]);
        of(self).ready_.clear();
        of(self).settings_.weights->clear();
        of(self).finish_report();
      });
    };
    release_node_compute_infos = [](OrtEp*, OrtNodeComputeInfo** infos, std::size_t count) noexcept {
      for (std::size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
    };
    is_concurrent_run_supported = [](OrtEp*, bool* out) noexcept -> OrtStatus* {
      *out = true;
      return nullptr;
    };
  }

 private:
  static Provider& of(OrtEp* self) { return *static_cast<Provider*>(self); }

  template <class Body>
  OrtStatus* guard(const Body& body) const noexcept {
    return guarded(api_, [&]() -> OrtStatus* {
      body();
      return nullptr;
    });
  }

  void tell_capability(const OrtGraph* handle, OrtEpGraphSupportInfo* info) {
    const Graph graph = read_graph(api_, handle);
    Capability capability = find_capability(api_, graph, settings_, refusal_of(graph));
    if (std::exchange(is_reported_, false)) report_.begin_again();
    report_.add(graph, capability);
    const bool claims = !capability.contexts.empty() || !capability.pieces.empty();
    for (const int node : capability.contexts) claim(graph, {node}, info);
    for (Piece& piece : capability.pieces) {
      claim(graph, piece.nodes, info);
      ready_[fingerprint(graph, piece.nodes)] = std::move(piece);
    }
    const bool claims_for_error = !claims && settings_.strict && claim_for_error(graph, info);
    // ONNX Runtime asks for the graphs inside nodes first, and compiles what was claimed before it asks for the next
    // graph.
    is_report_due_ = !graph.is_nested;
    settings_.weights->clear();
    if (!claims && !claims_for_error) finish_report();
  }

  // Why nothing of a graph may be taken, or "".
  std::string refusal_of(const Graph& graph) const {
    const bool mixed_up = !api_.names_nodes_inside() && (graph.is_nested || has_compiled_);
    return mixed_up ? "ONNX Runtime before 1.25 mixes up the names of what is taken in several graphs of a model" : "";
  }

  void claim(const Graph& graph, const std::vector<int>& nodes, OrtEpGraphSupportInfo* info) const {
    std::vector<const OrtNode*> handles;
    for (const int node : nodes) handles.push_back(graph.nodes[at(node)].handle);
    // On the CPU weights stay where they are. On a GPU fusec has them, and ONNX Runtime need not upload them, too.
    const OrtNodeFusionOptions fusion = {kApiVersion, settings_.gpu != nullptr};
    api_.call_ep<ep_api::AddNodesToFuse>(info, handles.data(), handles.size(), &fusion);
  }

  // An error of GetCapability fails no session; one of Compile does. So a node is claimed for which Compile answers it.
  // Answers whether there is one.
  bool claim_for_error(const Graph& graph, OrtEpGraphSupportInfo* info) const {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].taken) continue;
      claim(graph, {static_cast<int>(n)}, info);
      return true;
    }
    return false;
  }

  OrtNodeComputeInfo* compile_one(const OrtGraph* handle, const OrtNode* fused, OrtNode** context) {
    if (settings_.strict && !report_.is_complete()) {
      throw Failure(ErrorCode::ep_fail, "fusec: strict is set, and node " + report_.first_left());
    }
    const Graph graph = read_graph(api_, handle);
    if (graph.nodes.size() == 1 && is_context_node(graph.nodes[0])) {
      std::unique_ptr<Compiled> loaded = load_context(api_, graph, graph.nodes[0], settings_);
      // The node has its inputs and outputs in the order of the package, under names of this model.
      loaded->set_places(places_of(input_names(api_, graph.nodes[0].handle), input_names(api_, fused)),
                         places_of(output_names(api_, graph.nodes[0].handle), output_names(api_, fused)));
      return finish(std::move(loaded));
    }
    Piece piece = take_ready(graph);
    piece.compiled->set_places(places_of(names_of(piece.compiled->inputs()), input_names(api_, fused)),
                               places_of(names_of(piece.compiled->outputs()), output_names(api_, fused)));
    piece.compiled->set_fixed(places_of(piece.weights, input_names(api_, fused)));
    if (settings_.writes_context) {
      *context = write_context(api_, graph, piece, api_.get<api::NodeGetName, const char*>(fused), settings_);
    }
    return finish(std::move(piece.compiled));
  }

  Piece take_ready(const Graph& graph) {
    const std::vector<int> nodes = all_nodes(graph);
    const auto ready = ready_.find(fingerprint(graph, nodes));
    if (ready == ready_.end()) return compile_piece(graph, nodes, settings_);
    Piece piece = std::move(ready->second);
    ready_.erase(ready);
    return piece;
  }

  OrtNodeComputeInfo* finish(std::unique_ptr<Compiled> compiled) {
    report_.add_compiled_kernels(compiled_kernels(*compiled));
    return new ComputeInfo(api_, std::move(compiled));
  }

  // One line per session, and another where ONNX Runtime puts bodies of functions in their place and asks again.
  void finish_report() {
    if (!is_report_due_) return;
    is_report_due_ = false;
    const std::string text = "fusec: " + report_.text();
    api_.log(logger_, report_.is_complete() ? LogLevel::info : LogLevel::warning, text);
    is_reported_ = true;
  }

  const Api& api_;
  const OrtLogger* logger_;
  Settings settings_;
  std::map<std::string, Piece> ready_;  // compiled, and claimed by the last answers
  Report report_;
  bool is_report_due_ = false;
  bool has_compiled_ = false;
  bool is_reported_ = false;
};

}  // namespace

OrtEp* make_provider(const Api& api, const OrtLogger* logger, Settings settings) {
  return new Provider(api, logger, std::move(settings));
}

void end_provider(OrtEp* provider) { delete static_cast<Provider*>(provider); }

}  // namespace fusec::ort
