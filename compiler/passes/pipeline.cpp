// SPDX-License-Identifier: Apache-2.0
// Lists the passes of the optimize stage in order and runs them, with verification, dumps and timing around each.

#include "compiler/passes/pipeline.h"

#include <algorithm>
#include <chrono>

#include "compiler/passes/passes.h"
#include "ir/support/stage_context.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"expand_scatter", expand_scatter, true},
      {"expand_topk", expand_topk, true},
      {"fold_empty", fold_empty},
      {"quantized_products", quantized_products},
      {"fold_constants", fold_constants},
      {"share_nodes", share_nodes},
      {"apply_rules", apply_rules},
      {"simplify_maps", simplify_maps},
      {"fold_affine", fold_affine},
      {"subpixel_convolutions", subpixel_convolutions},
      {"fold_constants", fold_constants},
      {"sink_reshapes", sink_reshapes},
      {"recognize_activations", recognize_activations},
      {"convert_precision", convert_precision},
      {"recognize_activations", recognize_activations},
      {"recognize_attention", recognize_attention},
      {"strided_operands", strided_operands},
      {"merge_products", merge_products},
      {"widen_gates", widen_gates},
      {"unmerge_axes", unmerge_axes},
      {"channels_last", channels_last},
      {"hoist_transposes", hoist_transposes},
      {"sink_transposes", sink_transposes},
      {"space_to_depth", space_to_depth},
      {"expand_pools", expand_pools, true},
      {"expand_attention", expand_attention, true},
      {"own_products", own_products},
      {"expand_convolutions", expand_convolutions, true},
      {"expand_products", expand_products, true},
      {"simplify_maps", simplify_maps},
      {"fold_constants", fold_constants},
      {"share_nodes", share_nodes},
      {"unroll_depthwise", unroll_depthwise},
      {"own_casts", own_casts},
      {"nest_concats", nest_concats},
      {"split_concats", split_concats},
      {"own_outputs", own_outputs},
  };
  return passes;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : pipeline())
    if (pass.name == name) return &pass;
  return nullptr;
}

int passes_up_to(std::string_view name) {
  for (size_t i = 0; i < pipeline().size(); ++i)
    if (pipeline()[i].name == name) return static_cast<int>(i) + 1;
  return 0;
}

Result<bool> run_pass(const Pass& pass, ir::Graph& graph, const PassContext& context) {
  Result<bool> changed = pass.run(graph, context);
  if (!changed.ok()) return changed.status().with_note("in pass " + std::string(pass.name));
  if (*changed && !rebuild_order(graph))
    return Status(StatusCode::internal, "pass " + std::string(pass.name) + " made a cycle");
  if (context.options.verify_each_pass) {
    Status status = verify(graph, ir::GraphForm::optimized);
    if (!status.ok()) return std::move(status).with_note("after pass " + std::string(pass.name));
  }
  return changed;
}

namespace {

std::string dump_name(size_t number, std::string_view pass) {
  return "optimize." + std::string(number < 10 ? "0" : "") + std::to_string(number) + "." + std::string(pass) + ".fir";
}

}  // namespace

Status optimize(ir::Graph& graph, const Target& target, const Options& options, std::vector<PassTime>* times,
                double* weights_ms, const ir::Deadline& deadline) {
  using Clock = std::chrono::steady_clock;
  const PassContext context{target, options, weights_ms};
  size_t number = 0;
  for (const Pass& pass : pipeline()) {
    const bool stopped = options.stop_after_passes >= 0 && number >= static_cast<size_t>(options.stop_after_passes);
    ++number;
    const auto& disabled = options.disabled_passes;
    const bool left_out = stopped || std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end();
    if (left_out && !pass.required) continue;
    FUSEC_TRY(deadline.check("optimize", static_cast<double>(number - 1) / static_cast<double>(pipeline().size())));
    const auto start = Clock::now();
    FUSEC_ASSIGN(const bool changed, run_pass(pass, graph, context));
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (times != nullptr) times->push_back({pass.name, ms, changed});
    if (changed) FUSEC_TRY(ir::dump(options.dump_dir, dump_name(number, pass.name), [&] { return print(graph); }));
  }
  graph = compact(graph);
  return {};
}

}  // namespace fusec::compiler
