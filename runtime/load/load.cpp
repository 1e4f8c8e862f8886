// SPDX-License-Identifier: Apache-2.0
// Loads an Engine from a package: picks the packaged target that fits the machine best, reads its Program and
// artifacts, and passes them to `assemble`. It must not use the compiler: the runtime library is built without it.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "fusec/device.h"
#include "ir/support/check.h"
#include "runtime/cache/artifact.h"
#include "runtime/load/assemble.h"
#include "runtime/package/package.h"

namespace fusec::runtime {
namespace {

// Whether the machine runs the code without compiling PTX: a cubin runs on later GPUs of the same major architecture.
bool is_native(const Target& target, const Target& machine) {
  return target.kind == TargetKind::cpu || target.sm / 10 == machine.sm / 10;
}

// How well code for `target` suits the machine; nullopt: it cannot run there.
std::optional<int> fitness(const Target& target, const Target& machine) {
  if (target.kind != machine.kind) return std::nullopt;
  if (target.kind == TargetKind::cpu) {
    const bool lacks = std::any_of(target.features.begin(), target.features.end(),
                                   [&](const std::string& f) { return !machine.has(f); });
    return lacks ? std::nullopt : std::optional(static_cast<int>(target.features.size()));
  }
  if (target.sm > machine.sm || (target.has_tile_products && target.sm != machine.sm)) return std::nullopt;
  return 2 * target.sm + (target.has_tile_products ? 1 : 0) + (is_native(target, machine) ? 1000 : 0);
}

std::string names_of_targets(const Manifest& manifest) {
  std::string names;
  for (const PackagedTarget& t : manifest.targets) names += (names.empty() ? "" : ", ") + t.target.name;
  return names;
}

// Whether `wanted`, what `--target` gives, names the target: "sm_90" names sm_90a, too.
bool is_named(std::string_view wanted, const std::string& name) {
  const std::string_view bare = wanted.substr(wanted.find(':') + 1);
  return bare == name || std::string(bare) + "a" == name;
}

Result<Engine> load_package(const Package& opened, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
  };
  const PackageState& package = *opened.state();
  const Clock::time_point start = Clock::now();
  // Members are set one by one, because GCC 12 destroys members twice if a later initializer of a braced list throws.
  Parts parts;
  parts.options = options;
  parts.inputs = package.manifest.model.inputs;
  Options& own = parts.options;
  own.target.clear();
  own.numerics = package.manifest.numerics;
  own.precision = package.manifest.precision;
  own.tf32 = package.manifest.tf32;
  own.batch_invariant = package.manifest.batch_invariant;
  own.use_library = package.manifest.use_library;
  FUSEC_ASSIGN(parts.machine, open_machine(own));
  const double device_ms = parts.machine.device.kind == TargetKind::cuda ? since(start) : 0;
  FUSEC_ASSIGN(const uint32_t target, pick_target(package.manifest, parts.machine.target, options.target));
  const Target& picked = package.manifest.targets[target].target;
  if (!is_native(picked, parts.machine.target)) {
    make_warn(options)(
        fmt::format("'{}' has no machine code for {}: the driver compiles the PTX of {}, which takes a while",
                    package.path, parts.machine.target.name, picked.name));
  }
  parts.machine.target.name = picked.name;
  FUSEC_TRY(timed_stage(parts.stats.stages, "read", [&]() -> Status {
    FUSEC_ASSIGN(parts.program, packaged_program(package, target));
    FUSEC_ASSIGN(parts.artifacts, packaged_artifacts(package, target, parts.program));
    return {};
  }));
  const std::size_t usual = usual_kernels(parts.program).size();
  parts.stats.distinct_kernels = parts.stats.cached_kernels = static_cast<int64_t>(usual);
  FUSEC_ASSIGN(std::shared_ptr<EngineState> state, assemble(std::move(parts)));
  EngineStats& stats = state->stats;
  stats.compile_ms = since(start) - stats.device_ms - stats.weights_ms - device_ms;
  stats.device_ms += device_ms;
  log(options, Severity::info, [&] {
    return fmt::format("loaded '{}' for {} ({}) in {:.0f} ms", package.path, to_string(state->device),
                       state->target.name, stats.compile_ms);
  });
  return Engine(std::shared_ptr<const EngineState>(std::move(state)));
}

Result<PackageFit> compute_fit(const Package& package, const std::string& device) {
  Options options;
  options.device = device;
  FUSEC_ASSIGN(const Machine machine, open_machine(options));
  const Manifest& manifest = package.state()->manifest;
  const Result<uint32_t> target = pick_target(manifest, machine.target, {});
  if (!target.ok()) return PackageFit::none;
  return is_named(machine.target.name, manifest.targets[*target].target.name) ? PackageFit::best : PackageFit::other;
}

}  // namespace

Result<uint32_t> pick_target(const Manifest& manifest, const Target& machine, const std::string& wanted) {
  std::optional<uint32_t> best;
  int best_fitness = 0;
  for (uint32_t i = 0; i < manifest.targets.size(); ++i) {
    const Target& target = manifest.targets[i].target;
    const std::optional<int> fits = fitness(target, machine);
    if (!fits || (!wanted.empty() && !is_named(wanted, target.name))) continue;
    if (best && *fits <= best_fitness) continue;
    best = i;
    best_fitness = *fits;
  }
  if (best) return *best;
  const char* const kind = machine.kind == TargetKind::cuda ? "GPU" : "CPU";
  const std::string what = wanted.empty() ? "" : fmt::format(" under the name '{}'", wanted);
  return Status(StatusCode::invalid_argument,
                fmt::format("it holds no code for this {} ({}){}; its targets are {}: compile with --target {}", kind,
                            machine.name, what, names_of_targets(manifest), machine.name));
}

}  // namespace fusec::runtime

namespace fusec {

Result<PackageFit> package_fit(const Package& package, const std::string& device) noexcept {
  return ir::guarded([&] { return runtime::compute_fit(package, device); });
}

Result<Engine> Engine::load(const Package& package, const Options& options) noexcept {
  return ir::guarded_with_note([&] { return runtime::load_package(package, options); },
                               [&] { return fmt::format("while loading package '{}'", package.state()->path); });
}

}  // namespace fusec
