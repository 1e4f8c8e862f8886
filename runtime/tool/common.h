// SPDX-License-Identifier: Apache-2.0
// What the commands share: the flags about a model, reading it, and the shapes and inputs to run it with.
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
  std::string precision = "f32", numerics = "precise", cache_dir, dump, target;
  std::vector<std::string> shapes, inputs, disabled_passes;
  std::optional<uint64_t> random_weights;
  int threads = 0;
  std::optional<double> workspace_limit;  // MiB
  std::string strategy = "cached", tune, tuning_db;
  bool no_cache = false, no_library = false, tf32 = false, no_cuda_graph = false, json = false, verbose = false;
};
// All of them, the model as the first argument.
void declare_model(Flags& flags, ModelFlags& to);
// All but the model: for commands that name it otherwise.
void declare_common(Flags& flags, ModelFlags& to);

// invalid_argument for words that are not in the lists of --help. The device is --device, else what --target is for, else
// cuda:0 where one is usable, else cpu.
Result<Options> options_of(const ModelFlags& flags);
// "cpu, x86-64-v4, 8 threads, precise", "cuda:0, sm_90, precise".
std::string runs_on(const Engine& engine, const ModelFlags& flags);
// The tensors on the Engine's device.
Result<std::vector<Tensor>> on_device(const Engine& engine, const std::vector<Tensor>& tensors);

struct Loaded {
  Model model;
  double load_ms = 0;     // reading and importing, without weights_ms
  double weights_ms = 0;  // reading or making weights
};
// An ONNX model, or the text of a graph where the name ends in .fir.
Result<Loaded> load_model(const ModelFlags& flags);
Result<Loaded> load_model(const std::string& path, const ModelFlags& flags);
// With a progress line.
Result<Engine> compile_model(const Model& model, const Options& options);

// Milliseconds since the process was started.
double process_ms();

using Symbols = std::map<std::string, int64_t>;
Json json_of_tensors(const std::vector<TensorInfo>& infos, const std::vector<TensorShape>& shapes);
std::string symbols_text(const Symbols& symbols);  // "N=1 seq=128"
std::vector<std::string> split(const std::string& text, char separator);
Result<std::vector<int64_t>> parse_integers(const std::string& text, char separator, const std::string& what);

}  // namespace fusec::tool
