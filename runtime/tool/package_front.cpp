// SPDX-License-Identifier: Apache-2.0
// Loads packages for `run`, `bench` and `inspect`. It refuses flags that only take effect at compile time, and flags
// that contradict the options in the package. Before any command reads a model, its file is checked: a regular file
// whose name ends in .fsc exactly when its contents are a package, because packages are programs.

#include <fmt/format.h>

#include <utility>

#include "fusec/package.h"
#include "runtime/package/file.h"
#include "runtime/tool/commands.h"

namespace fusec::tool {
namespace {

Status fixed(const char* flag, const std::string& path) {
  return Status(
      StatusCode::invalid_argument,
      fmt::format("{} is not what '{}' was compiled with; compile it again, or leave the flag out", flag, path));
}

// Refuses flags that decide on code and weights, because the package was compiled with its own.
Status check_flags(const ModelFlags& flags) {
  const std::pair<const char*, bool> ineffective[] = {
      {"--random-weights", flags.random_weights.has_value()},
      {"--external-root", !flags.external_roots.empty()},
      {"--fix", !flags.fixes.empty()},
      {"--range", !flags.ranges.empty()},
      {"--constant", !flags.constants.empty()},
      {"--no-library", flags.no_library},
      {"--no-fusion", flags.no_fusion},
      {"--disable-pass", !flags.disabled_passes.empty()},
      {"--keep-f32", !flags.keep_f32.empty()},
      {"--replaceable-weights", !flags.replaceable_weights.empty()},
      {"--dump", !flags.dump.empty()},
      {"--compile-limit", flags.compile_limit.has_value()},
  };
  for (const auto& [flag, given] : ineffective) {
    if (!given) continue;
    return Status(
        StatusCode::invalid_argument,
        fmt::format("{} changes nothing of '{}', which is compiled already; leave the flag out, or give it to "
                    "fusec compile",
                    flag, flags.model));
  }
  return {};
}

Result<Loaded> load_package(const ModelFlags& flags) {
  FUSEC_TRY(check_flags(flags));
  const Progress progress("reading " + flags.model);
  PackageOptions how;
  how.trust = flags.trust;
  if (!flags.verify_key.empty()) {
    FUSEC_ASSIGN(how.verify_key, read_public_key(flags.verify_key));
  }
  FUSEC_ASSIGN(Package package, Package::open(flags.model, how));
  const PackageInfo& info = package.info();
  FUSEC_ASSIGN(const Options asked, parse_options(flags));
  if (asked.precision && asked.precision != info.precision) return fixed("--precision", flags.model);
  if (asked.numerics != Numerics::precise && asked.numerics != info.numerics) return fixed("--numerics", flags.model);
  if (asked.tf32 && !info.tf32) return fixed("--tf32", flags.model);
  if (asked.batch_invariant && !info.batch_invariant) return fixed("--batch-invariant", flags.model);
  Loaded loaded;
  loaded.model = package.model();
  loaded.weights_ms = info.verify_ms;  // nearly all bytes are weights
  loaded.package = std::move(package);
  return loaded;
}

}  // namespace

Front package_front() { return {load_package, nullptr, nullptr, nullptr, nullptr}; }

Result<Engine> make_engine(const Front& front, const Loaded& loaded, const Options& options, const Symbols& symbols) {
  if (loaded.package) return Engine::load(*loaded.package, options);
  FUSEC_TRY(front.tune(loaded.model, options, symbols));
  return front.compile(loaded.model, options);
}

Status check_model_file(const std::string& path) {
  const Result<runtime::OpenFile> file = runtime::OpenFile::open(path);
  if (!file.ok())
    return Status(file.status().code(), fmt::format("cannot read '{}': {}", path, file.status().message()));
  const bool called = path.ends_with(".fsc"), begins = is_package(path);
  if (begins && !called) {
    return Status(StatusCode::invalid_argument, fmt::format("'{}' begins as a package, which is a program, but its "
                                                            "name does not end in .fsc: rename it if you trust it",
                                                            path));
  }
  if (called && !begins) {
    return Status(
        StatusCode::invalid_argument,
        fmt::format(
            "'{}' is called .fsc, as packages are, but does not begin with FUSECPKG: rename it if it is a model",
            path));
  }
  return {};
}

}  // namespace fusec::tool
