// SPDX-License-Identifier: Apache-2.0
// Lists the candidates of a model's kernels, compiles them, and starts what times them.

#include "runtime/tool/kernel_tuning.h"

#include "runtime/engine/child_timer.h"
#include "runtime/engine/engine.h"

namespace fusec::tool {
namespace {

constexpr double kCandidateSeconds = 60;  // of compiling a candidate and of running it, each

// `fusec tune` as the process that times candidates.
std::vector<std::string> serving_command(const ModelFlags& flags, const Options& options) {
  std::vector<std::string> argv = {"/proc/self/exe", "tune",      "--serve-candidates",           "--device",
                                   options.device,   "--threads", std::to_string(options.threads)};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {flag, value});
  };
  add("--codegen", flags.codegen);
  add("--target", options.target);
  add("--cache-dir", flags.cache_dir);
  if (flags.no_cache) argv.emplace_back("--no-cache");
  return argv;
}

std::unique_ptr<runtime::CandidateTimer> make_timer(const ModelFlags& flags, const KernelTuning& kernels,
                                                    bool isolated) {
  if (isolated || kernels.machine.device.kind == TargetKind::cuda)
    return runtime::make_child_timer(serving_command(flags, kernels.options), kCandidateSeconds);
  return runtime::make_candidate_timer(kernels.options, kernels.machine, kernels.tuning->flush_bytes());
}

}  // namespace

Result<std::unique_ptr<KernelTuning>> prepare_kernels(const Model& model, const ModelFlags& flags, bool isolated) {
  auto out = std::make_unique<KernelTuning>();
  FUSEC_ASSIGN(out->options, parse_options(flags));
  FUSEC_ASSIGN(out->machine, runtime::open_machine(out->options));
  FUSEC_ASSIGN(runtime::Stages stages, runtime::run_stages(*model.graph, out->machine.target, out->options,
                                                           runtime::Stage::select, {}, {}, runtime::Listing::all));
  out->program = std::move(stages.program);
  runtime::compile_candidates(out->program, out->options, out->machine.target);
  out->tuning = std::make_unique<runtime::Tuning>(out->options, out->machine.target, [kernels = out.get()] {
    return runtime::kernel_scope(kernels->options, kernels->machine);
  });
  out->timer = make_timer(flags, *out, isolated);
  return out;
}

}  // namespace fusec::tool
