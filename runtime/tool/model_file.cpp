// SPDX-License-Identifier: Apache-2.0
// Loads ONNX models and graphs in .fir text for the commands of fusec-compiler, and compiles them with a progress line
// or runs the stages up to a given one. Packages are refused here. A named GPU target needs no GPU.

#include "runtime/tool/model_file.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "ir/graph/model_internal.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"
#include "runtime/device/device.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/import_flags.h"
#include "runtime/tool/value_files.h"

#if FUSEC_WITH_ONNX
#include "fusec/onnx.h"
#endif

namespace fusec::tool {
namespace {

// A text test is a graph between its command line and "====".
std::string graph_of_test(const std::string& text) {
  if (!text.starts_with("test ")) return text;
  const std::size_t begin = text.find('\n'), end = text.find("\n====");
  return begin == std::string::npos ? "" : text.substr(begin + 1, end == std::string::npos ? end : end - begin);
}

Result<Model> load_fir(const std::string& path, const ModelFlags& flags) {
  std::ifstream in(path);
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be opened", path));
  std::ostringstream text;
  text << in.rdbuf();
  Result<ir::Graph> graph = ir::parse_graph(graph_of_test(text.str()));
  if (!graph.ok()) return graph.status().with_note(fmt::format("while reading '{}'", path));
  FUSEC_TRY(ir::verify(*graph, ir::GraphForm::imported));
  FUSEC_TRY(apply_import_flags(flags, *graph));
  return ir::make_model(std::move(*graph));
}

#if FUSEC_WITH_ONNX
Result<Model> load_any_onnx(const std::string& path, const ModelFlags& flags, double& weights_ms) {
  ImportOptions options;
  options.weights_ms = &weights_ms;
  options.random_weights = flags.random_weights;
  options.external_roots = flags.external_roots;
  FUSEC_TRY(apply_import_flags(path, flags, options));
  Result<Model> model = load_onnx(path, options);
  return model.ok() ? model : name_flag(flags, model.status());
}
#else
Result<Model> load_any_onnx(const std::string& path, const ModelFlags&, double&) {
  return Status(StatusCode::unsupported, fmt::format("'{}': this build reads no ONNX, only .fir", path));
}
#endif

}  // namespace

Result<Loaded> load_model(const std::string& path, const ModelFlags& flags) {
  const Progress progress("reading " + path);
  FUSEC_TRY(check_model_file(path));
  if (path.ends_with(".fsc")) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("'{}' is a package, compiled already: run, bench and inspect take those, and "
                              "verify takes one beside its model, by --model",
                              path));
  }
  if (flags.trust || !flags.verify_key.empty()) {
    return Status(
        StatusCode::invalid_argument,
        fmt::format("--trust and --verify-key are for packages (.fsc): '{}' is a model, which is data", path));
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Loaded loaded;
  FUSEC_ASSIGN(loaded.model,
               path.ends_with(".fir") ? load_fir(path, flags) : load_any_onnx(path, flags, loaded.weights_ms));
  loaded.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count() - loaded.weights_ms;
  return loaded;
}

Result<Loaded> load_model(const ModelFlags& flags) { return load_model(flags.model, flags); }

Options with_progress(Options options, const std::shared_ptr<Progress>& progress) {
  // Engines keep their options for longer than the line is shown.
  options.on_progress = [line = std::weak_ptr<Progress>(progress)](const char* stage, double done) {
    if (const auto shown = line.lock()) shown->step(static_cast<std::size_t>(100 * done), 100, stage);
    return false;
  };
  return options;
}

Result<Engine> compile_model(const Model& model, const Options& options) {
  const auto progress = std::make_shared<Progress>("compiling");
  return Engine::compile(model, with_progress(options, progress));
}

namespace {

Status tune_shapes(const Model& model, const Options& options, const Symbols& symbols) {
  if (options.strategy != Strategy::profile || symbols.empty()) return {};
  const Progress progress("timing candidates");
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  return runtime::profile_shapes(model, options, machine, runtime::Bindings(symbols));
}

}  // namespace

Front compiler_front() {
  return {[](const ModelFlags& flags) { return load_model(flags); },
          compile_model,
          tune_shapes,
          bench_patterns,
          bench_gate,
          run_values};
}

namespace {

// A GPU's target by name needs no GPU.
Status choose_target(FrontEnd& f) {
  if (Result<Target> named = named_target(f.options.target); named.ok() && named->kind == TargetKind::cuda) {
    f.target = *std::move(named);
    return {};
  }
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(f.options));
  f.target = machine.target;
  f.tuning = runtime::read_kernel_times(f.options, machine);
  return {};
}

}  // namespace

Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last, runtime::Listing listing) {
  FrontEnd f;
  FUSEC_ASSIGN(f.options, parse_options(flags));
  FUSEC_TRY(choose_target(f));
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  f.model = std::move(loaded.model);
  FUSEC_ASSIGN(static_cast<runtime::Stages&>(f),
               runtime::run_stages(*f.model.graph, f.target, f.options, last, ir::Deadline(f.options.compile_seconds),
                                   f.tuning, listing));
  return f;
}

}  // namespace fusec::tool
