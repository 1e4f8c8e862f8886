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
#include "runtime/tool/flags.h"
#include "runtime/tool/output.h"

namespace fusec::tool {

struct ModelFlags {
  std::string model;
  std::string device, codegen = "auto";
  std::string precision = "f32", numerics = "precise", cache_dir, dump;
  std::vector<std::string> shapes, inputs, disabled_passes, targets, external_roots;
  std::optional<uint64_t> random_weights;
  int threads = 0;
  std::optional<double> workspace_limit;  // MiB
  std::optional<double> compile_limit;    // seconds
  std::string strategy = "cached", tune, tuning_db, cache_limit;
  bool no_cache = false, no_library = false, no_fusion = false, tf32 = false, no_cuda_graph = false, json = false, verbose = false;
};
// All of them, the model as the first argument.
void declare_model(Flags& flags, ModelFlags& to);
// All but the model: for commands that name it otherwise.
void declare_common(Flags& flags, ModelFlags& to);

// The only --target, or nothing; those of a list separated by commas.
Result<std::string> single_target(const ModelFlags& flags);
std::vector<std::string> listed_targets(const ModelFlags& flags);

// invalid_argument for words that are not in the lists of --help. The device is --device, else what --target is for, else
// cuda:0 where one is usable, else cpu.
Result<Options> options_of(const ModelFlags& flags);
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
std::string symbols_text(const Symbols& symbols);  // "N=1 seq=128"
std::vector<std::string> split(const std::string& text, char separator);
// "500", "500K", "20M", "1G": bytes, by powers of 1024. invalid_argument names the flag.
Result<int64_t> parse_size(const std::string& text, const char* flag);
Result<std::vector<int64_t>> parse_integers(const std::string& text, char separator, const std::string& what);

}  // namespace fusec::tool
