// SPDX-License-Identifier: Apache-2.0
// The table of option keys: for each its help, what it accepts, its default, and how its text becomes a member of
// Options.

#include "runtime/options/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>

#include "fusec/device.h"
#include "ir/support/check.h"
#include "runtime/cache/server_address.h"

namespace fusec {
namespace {

constexpr double kQuickTuningSeconds = 15;

// A value as it was given, with the name of the option and what the option accepts, for errors.
struct GivenOption {
  std::string name;
  const std::string& value;
  const char* accepts;

  Status reject() const {
    return Status(StatusCode::invalid_argument, fmt::format("{} {} is not one of {}", name, value, accepts));
  }
  Status reject_number(const char* rule) const {
    return Status(StatusCode::invalid_argument, fmt::format("{} is {}", name, rule));
  }
};

struct OptionRow {
  OptionKey key;
  Status (*set)(Options& options, const GivenOption& given);
};

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional<T>(value) : std::nullopt;
}

// The names of an enum's values, in the order of the enum.
template <class Enum, std::size_t N>
Status set_enum(Enum& to, const GivenOption& given, const char* const (&names)[N]) {
  const auto found = std::find(std::begin(names), std::end(names), given.value);
  if (found == std::end(names)) return given.reject();
  to = static_cast<Enum>(found - std::begin(names));
  return {};
}

Status set_bool(bool& to, const GivenOption& given, bool negated = false) {
  const bool yes = given.value == "true" || given.value == "1";
  if (!yes && given.value != "false" && given.value != "0") return given.reject();
  to = yes != negated;
  return {};
}

Status set_device(Options& options, const GivenOption& given) {
  if (!parse_device(given.value).ok()) return given.reject();
  options.device = given.value;
  return {};
}

Status set_threads(Options& options, const GivenOption& given) {
  const std::optional<int> threads = parse_number<int>(given.value);
  if (!threads) return given.reject_number("an integer, at least 0");
  if (*threads < 0) return given.reject_number("negative; 0 means as many as there are");
  options.threads = *threads;
  return {};
}

Status set_precision(Options& options, const GivenOption& given) {
  if (given.value != "f32" && given.value != "f16" && given.value != "bf16") return given.reject();
  options.precision = given.value == "f32" ? std::nullopt : parse_dtype(given.value);
  return {};
}

Status set_compile_limit(Options& options, const GivenOption& given) {
  const std::optional<double> seconds = parse_number<double>(given.value);
  if (!seconds || !(*seconds >= 0)) return given.reject_number("a number of seconds, at least 0");
  options.compile_seconds = *seconds;
  return {};
}

Status set_workspace_limit(Options& options, const GivenOption& given) {
  const std::optional<double> mib = parse_number<double>(given.value);
  if (!mib || !(*mib >= 0 && *mib < 1e9)) return given.reject_number("a number of MiB, at least 0");
  options.workspace_limit = static_cast<int64_t>(*mib * (1 << 20));
  return {};
}

Status set_dump(Options& options, const GivenOption& given) {
  if (!given.value.empty()) {
    std::error_code error;
    std::filesystem::create_directories(given.value, error);
    if (error) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("{} {} cannot be made: {}", given.name, given.value, error.message()));
    }
  }
  options.dump_dir = given.value;
  return {};
}

// The value is left out of errors, because it may hold a password.
Status set_cache_server(Options& options, const GivenOption& given) {
  if (!given.value.empty()) {
    const Result<runtime::ServerAddress> address = runtime::parse_server_address(given.value);
    if (!address.ok())
      return Status(StatusCode::invalid_argument, fmt::format("{}: {}", given.name, address.status().message()));
  }
  options.cache_server = given.value;
  return {};
}

Status set_cache_limit(Options& options, const GivenOption& given) {
  FUSEC_ASSIGN(options.cache_limit, runtime::parse_size(given.value, given.name));
  return {};
}

Status set_tune(Options& options, const GivenOption& given) {
  if (given.value != "quick" && given.value != "full") return given.reject();
  options.strategy = Strategy::profile;
  options.quick_tuning = given.value == "quick";
  options.tuning_seconds = options.quick_tuning ? kQuickTuningSeconds : 0;
  return {};
}

constexpr const char* kNumerics[] = {"precise", "exact", "fast"};
constexpr const char* kCodegens[] = {"auto", "nvrtc", "llvm"};
constexpr const char* kStrategies[] = {"heuristic", "cached", "profile", "reproducible"};
constexpr const char* kSpecializes[] = {"off", "now", "background"};
constexpr const char* kBools = "true, false, 1, 0";

// {key, accepts, default ("": unset), help}
const OptionRow kRows[] = {
    {{"device", "cpu, cuda, cuda:0, cuda:1, ...", "cpu", "cpu, cuda or cuda:1"}, set_device},
    {{"target", "a name of a target", "",
      "compile for x86-64-v2, v3, v4 or sm_75 ... sm_121, which the device must have"},
     [](Options& o, const GivenOption& g) { return o.target = g.value, Status(); }},
    {{"threads", "an integer, at least 0", "0", "of a run; default: what the machine and OMP_NUM_THREADS give"},
     set_threads},
    {{"numerics", "precise, exact, fast", "precise",
      "precise (default); exact: rounds after every op, and no library call loses NaN or infinities; fast: as precise "
      "today"},
     [](Options& o, const GivenOption& g) { return set_enum(o.numerics, g, kNumerics); }},
    {{"precision", "f32, f16, bf16", "f32",
      "f16 or bf16: run an f32 model in it, inputs and outputs stay; f32: as the model says (default)"},
     set_precision},
    {{"keep-f32", "a glob over origins of nodes, added to a list", "",
      "PATTERN: with --precision, nodes whose origin fits, such as '*/norm/*', stay in f32; may be given several "
      "times"},
     [](Options& o, const GivenOption& g) { return o.keep_f32.push_back(g.value), Status(); }},
    {{"no-library", kBools, "false",
      "plain loops in place of oneDNN; on a GPU, generated code in place of cuBLASLt and cuDNN, which is slower"},
     [](Options& o, const GivenOption& g) { return set_bool(o.use_library, g, true); }},
    {{"batch-invariant", kBools, "false",
      "library calls use one algorithm for all batches and no measured times, so that a sample's results have the same "
      "bits in every batch; verify checks it"},
     [](Options& o, const GivenOption& g) { return set_bool(o.batch_invariant, g); }},
    {{"no-fusion", kBools, "false", "one kernel per op"},
     [](Options& o, const GivenOption& g) { return set_bool(o.fuse, g, true); }},
    {{"codegen", "auto, nvrtc, llvm", "auto", "auto (default), nvrtc or llvm: who makes a GPU's machine code"},
     [](Options& o, const GivenOption& g) { return set_enum(o.codegen, g, kCodegens); }},
    {{"compile-limit", "a number of seconds, at least 0", "",
      "SECONDS that the compile may take; asked for between passes and kernels (default: no limit)"},
     set_compile_limit},
    {{"disable-pass", "the name of a pass, added to a list", "", "NAME: leave a pass of the optimizer out"},
     [](Options& o, const GivenOption& g) { return o.disabled_passes.push_back(g.value), Status(); }},
    {{"replaceable-weights", "the name of a constant, added to a list", "",
      "NAME: a weight that Engine::set_weight may replace; *: all of them"},
     [](Options& o, const GivenOption& g) { return o.replaceable_weights.push_back(g.value), Status(); }},
    {{"dump", "a folder, which is made", "", "DIR: every stage writes its text there"}, set_dump},
    {{"cache-dir", "a folder", "",
      "of compiled kernels; default: $FUSEC_CACHE_DIR, $XDG_CACHE_HOME/fusec, ~/.cache/fusec"},
     [](Options& o, const GivenOption& g) { return o.cache_dir = g.value, Status(); }},
    {{"shared-cache-dir", "a folder", "",
      "of kernels and measured times that is read after the cache and never written; default: $FUSEC_SHARED_CACHE_DIR"},
     [](Options& o, const GivenOption& g) { return o.shared_cache_dir = g.value, Status(); }},
    {{"cache-server", "redis://HOST:PORT/DB or unix:///PATH, with ?expire=30d&largest=16M&retry=30s", "",
      "a Redis server that kernels and measured times are shared through, after both folders; default: "
      "$FUSEC_CACHE_SERVER"},
     set_cache_server},
    {{"cache-limit", "a size such as 500M or 1G", "2G",
      "bytes that the kernel cache keeps, such as 500M; those used longest ago go first (default 2G; 0: no bound)"},
     set_cache_limit},
    {{"no-cache", kBools, "false", "compile everything, store nothing"},
     [](Options& o, const GivenOption& g) { return set_bool(o.use_cache, g, true); }},
    {{"tf32", kBools, "false", "f32 convolutions and products of a GPU may round to TF32"},
     [](Options& o, const GivenOption& g) { return set_bool(o.tf32, g); }},
    {{"workspace-limit", "a number of MiB, at least 0", "1024",
      "MiB that one library call of a GPU may ask for (default 1024)"},
     set_workspace_limit},
    {{"tuning-db", "a file", "", "FILE of measured times; default: tuning.v1.sqlite in the cache folder"},
     [](Options& o, const GivenOption& g) { return o.tuning_db = g.value, Status(); }},
    {{"no-cuda-graph", kBools, "false", "launch a GPU's steps one by one"},
     [](Options& o, const GivenOption& g) { return set_bool(o.cuda_graph, g, true); }},
    {{"strategy", "heuristic, cached, profile, reproducible", "cached",
      "cached (default), heuristic, profile or reproducible: who chooses how libraries do convolutions and products"},
     [](Options& o, const GivenOption& g) { return set_enum(o.strategy, g, kStrategies); }},
    {{"specialize", "off, now, background", "off",
      "off (default), now or background: kernels of a model with symbols are made for the shapes at hand, too, before "
      "the first run or by a thread beside the runs"},
     [](Options& o, const GivenOption& g) { return set_enum(o.specialize, g, kSpecializes); }},
    {{"tune", "quick, full", "",
      "quick or full: as --strategy profile; measures what is missing first (quick: 15 s at most)"},
     set_tune},
};

const OptionRow* find_row(std::string_view key) {
  const auto found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const OptionRow& r) { return r.key.key == key; });
  return found == std::end(kRows) ? nullptr : &*found;
}

}  // namespace

std::vector<OptionKey> option_keys() {
  std::vector<OptionKey> keys;
  for (const OptionRow& row : kRows) keys.push_back(row.key);
  return keys;
}

Status set_option(Options& options, std::string_view key, const std::string& value) noexcept {
  return ir::guarded([&] { return runtime::set_option(options, key, value, ""); });
}

namespace runtime {

Status set_option(Options& options, std::string_view key, const std::string& value, std::string_view prefix) {
  if (const OptionRow* row = find_row(key)) {
    return row->set(options, {fmt::format("{}{}", prefix, key), value, row->key.accepts});
  }
  std::string known;
  for (const OptionRow& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.key.key);
  return Status(StatusCode::invalid_argument,
                fmt::format("there is no option '{}{}'; there are {}", prefix, key, known));
}

const char* option_help(std::string_view key) {
  const OptionRow* const row = find_row(key);
  FUSEC_CHECK(row != nullptr) << "option " << key;
  return row->key.help;
}

Result<int64_t> parse_size(const std::string& text, const std::string& option) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value < 0 || value > (INT64_MAX >> shift)) {
    return Status(StatusCode::invalid_argument, fmt::format("{} '{}' is no size such as 500M or 1G", option, text));
  }
  return value << shift;
}

}  // namespace runtime
}  // namespace fusec
