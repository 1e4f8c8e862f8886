// SPDX-License-Identifier: Apache-2.0
// What the commands share: the flags about a model, and small things.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"
#include "runtime/tool/flags.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

struct ModelFlags {
  std::string model;
  std::string device, codegen = "auto", specialize = "off";
  std::string precision = "f32", numerics = "precise", cache_dir, shared_cache_dir, cache_server, dump;
  std::vector<std::string> shapes, inputs, disabled_passes, replaceable_weights, keep_f32, targets, external_roots;
  std::vector<std::string> fixes, ranges, constants;  // of import
  std::optional<uint64_t> random_weights;
  int threads = 0;
  std::optional<double> workspace_limit;  // MiB
  std::optional<double> compile_limit;    // seconds
  std::string strategy = "cached", tune, tuning_db, cache_limit;
  std::string input_set;   // a file of several inputs
  std::string verify_key;  // of packages, as `trust` is
  bool trust = false;
  bool no_cache = false, no_library = false, no_fusion = false, tf32 = false, batch_invariant = false,
       no_cuda_graph = false, json = false, verbose = false;
};
// Groups of these flags. A command offers those that change what it does; --json is everybody's.
enum FlagGroup : unsigned {
  kWeights = 1,     // --random-weights, --external-root, --fix, --range, --constant: of import
  kShapes = 2,      // --shape, --input, --inputs
  kCompiles = 4,    // --device, --target, --threads, --numerics and what else decides on code
  kCaches = 8,      // --cache-dir, --shared-cache-dir, --cache-server, --cache-limit, --no-cache
  kLibraries = 16,  // --tf32, --workspace-limit, --tuning-db: of library calls that are made
  kRuns = 32,       // --no-cuda-graph, --strategy, --tune
  kVerbose = 64,    // -v
  kEverything = 127,
};
// Of the commands that take packages.
void declare_package(Flags& flags, ModelFlags& to);
// The model as the first argument, and the flags of these groups.
void declare_model(Flags& flags, ModelFlags& to, unsigned groups = kEverything);
// All but the model: for commands that name it otherwise.
void declare_common(Flags& flags, ModelFlags& to, unsigned groups = kEverything);
// With -v: what runs where and how its kernels came to be, on stderr.
void tell_engine(const Engine& engine, const ModelFlags& flags);

// The only --target, or nothing; those of a list separated by commas.
Result<std::string> single_target(const ModelFlags& flags);
std::vector<std::string> listed_targets(const ModelFlags& flags);

// invalid_argument for words that are not in the lists of --help. The device is --device, else what --target is for,
// else cuda:0 where one is usable, else cpu.
Result<Options> parse_options(const ModelFlags& flags);
const char* numerics_name(Numerics numerics);
// "cpu, x86-64-v4, 8 threads, precise", "cuda:0, sm_90, precise".
std::string runs_on(const Engine& engine);
// The tensors on the Engine's device.
Result<std::vector<Tensor>> on_device(const Engine& engine, const std::vector<Tensor>& tensors);
Result<std::vector<Tensor>> make_outputs(const Engine& engine, const std::vector<TensorShape>& shapes);

// Milliseconds since the process was started.
double process_ms();

using Symbols = std::map<std::string, int64_t>;
Json json_of_tensors(const std::vector<TensorInfo>& infos, const std::vector<TensorShape>& shapes);
// "N=1 seq=128 (at most 512)": with the values that symbols and sums of them may have, where there are limits.
std::string symbols_text(const Symbols& symbols, const ir::Limits& limits = {});
std::string time_text(int64_t seconds);  // since 1970: "2026-11-26T08:30:00Z"
std::vector<std::string> split(const std::string& text, char separator);
Result<std::vector<int64_t>> parse_integers(const std::string& text, char separator, const std::string& what);

}  // namespace fusec::tool
