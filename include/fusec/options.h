// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/host.h"
#include "fusec/status.h"

namespace fusec {

// precise: no fast-math, IEEE division, no reassociation or contraction across ops. exact: also rounds after every ONNX
// op, folds nothing that changes bits and keeps NaN and infinities through library calls, whose relu may else make 0 of
// NaN. fast: opt-in liberties; today what precise does. Generated kernels keep NaN in all of them.
enum class Numerics : uint8_t { precise, exact, fast };

// Who makes machine code for a GPU: NVRTC from CUDA C++, or LLVM from LLVM IR, whose PTX NVIDIA's assembler takes.
// automatic: LLVM, which takes half of the time; NVRTC makes what LLVM refuses, and comes first where there is no LLVM
// or no assembler.
enum class Codegen : uint8_t { automatic, nvrtc, llvm };

// Who decides how a library does a convolution or a matrix product. heuristic: the library. cached: the fastest that
// the tuning database knows of, else the library. profile: the same, and what the database lacks is measured when
// shapes are bound, and stored. reproducible: the database is not looked at; the library's first way that gives the
// same bits on every run, so the same on all machines of one kind with one version of the library.
enum class Strategy : uint8_t { heuristic, cached, profile, reproducible };

// Kernels of a model with symbols (a batch "N", a length) serve all of their values. Specialised ones are made for the
// shapes of one plan: their extents, and the alignment that follows from them, are numbers in the code. off: none. now:
// with the plan, which waits for them. background: the plan runs at once, and one thread of low priority makes them;
// the first run that begins when they are there takes them. Results have the same bits either way. Where they cannot be
// made, one warning says why, and the general ones go on.
enum class Specialize : uint8_t { off, now, background };

struct FUSEC_API Options {
  Numerics numerics = Numerics::precise;
  int threads = 0;                       // 0: what the machine and OMP_NUM_THREADS give
  std::optional<std::string> cache_dir;  // default: $FUSEC_CACHE_DIR, else $XDG_CACHE_HOME/fusec, else ~/.cache/fusec
  bool use_cache = true;
  // A folder laid out as cache_dir, of kernels and measured times that many machines read: looked at after cache_dir,
  // and never written. Default: $FUSEC_SHARED_CACHE_DIR; empty: none.
  std::optional<std::string> shared_cache_dir;
  // A Redis server that machines share kernels and measured times through, looked at after both folders:
  // "redis://host:6379/0?expire=30d" or "unix:///path/of.sock". What it has is copied into cache_dir, and what is made
  // here is sent to it. It needs $FUSEC_CACHE_SECRET, which all of them have in common. Default: $FUSEC_CACHE_SERVER;
  // empty: none. Where it cannot be used, one warning says why, and the folders go on.
  std::optional<std::string> cache_server;
  int64_t cache_limit =
      int64_t{2} << 30;  // bytes that the kernel cache keeps, those used longest ago go first; 0: no bound
  std::vector<std::string> disabled_passes;
  int stop_after_passes = -1;  // run only so many passes of the optimizer (bisection); -1: all
  std::string dump_dir;        // when set, every stage writes its text there
  bool verify_each_pass = false;
  bool fuse = true;            // false: one kernel per op, to see what fusion changes
  bool use_library = true;     // false: plain loops in place of oneDNN; on a GPU generated code, which is slow
  std::string target;          // "x86-64-v3": compile for this level, which the machine must have; empty: this machine
  std::string device = "cpu";  // "cpu", "cuda" or "cuda:1"
  Codegen codegen = Codegen::automatic;
  Specialize specialize = Specialize::off;
  // f16 or bf16: weights and activations of an f32 model become that; its inputs and outputs stay. Unset: as the model
  // says.
  std::optional<DType> precision;
  // With precision: nodes that stay in f32, by globs over their origins ("*/norm/*"); a pattern that fits none is no
  // error.
  std::vector<std::string> keep_f32;
  bool tf32 = false;  // f32 convolutions and matrix products of a GPU may round their operands to TF32
  // Libraries use one algorithm for all batches, and the strategy is heuristic, so that a sample's results have the
  // same bits whatever else is in its batch and however large that is. A library's algorithm may depend on the batch
  // all the same: `fusec verify --batch-invariant` compares batches.
  bool batch_invariant = false;
  bool cuda_graph = true;                      // replay a run as one CUDA graph
  int64_t workspace_limit = int64_t{1} << 30;  // bytes that one library call of a GPU may ask for
  Strategy strategy = Strategy::cached;
  std::optional<std::string> tuning_db;  // a file; default: tuning.v1.sqlite in the cache folder
  // Of Strategy::profile: seconds after which one bind measures no more (0: no limit), and fewer runs of each
  // algorithm.
  double tuning_seconds = 0;
  bool quick_tuning = false;
  // Seconds that one compile may take: for an Engine, a variant of jit, or one target of a package. Asked for between
  // passes, regions and kernels, so that the work at hand is ended first; invalid_argument when it is over. Unset: no
  // limit.
  std::optional<double> compile_seconds;
  // Called with faults that do not fail the call (a cache that cannot be used); unset: on_log, or one line on stderr
  // each.
  std::function<void(const std::string&)> on_warning;
  // Called with messages of all severities, from any thread; warnings go to on_warning instead where that is set.
  std::function<void(Severity, const std::string&)> on_log;
  // Called while a compile, a bind or a tuning goes on, by one thread at a time, with the stage ("optimize", "lower",
  // "tune", "emit", ...) and how much of it is done, 0 to 1. True: the call ends with `cancelled` as soon as the work
  // at hand is done. What was made so far stays in the caches.
  std::function<bool(const char* stage, double done)> on_progress;
  std::shared_ptr<const HostAllocator> allocator;   // null: fusec's own
  std::shared_ptr<const HostThreads> host_threads;  // null: fusec's own
  // Names of constants that Engine::set_weight may replace, or "*" for all: an initializer of an ONNX model, or a
  // weight of a GraphBuilder, of floats or 8-bit integers and rank 1 at least. What is computed of them alone is
  // computed when an Engine first runs, not when it is compiled. invalid_argument: the model has no such constant.
  std::vector<std::string> replaceable_weights;
};

// Options as text. Keys are the names of the command's flags without the dashes.
struct FUSEC_API OptionKey {
  const char* key;      // "numerics"
  const char* accepts;  // "precise, exact, fast"
  const char* initial;  // the value of a new Options; "": unset
  const char* help;
};
FUSEC_API std::vector<OptionKey> option_keys();
// Sets the member that the key is for; disable-pass adds to its list. invalid_argument, and the Options stay: the key
// is unknown, or does not accept the value.
FUSEC_API Status set_option(Options& options, std::string_view key, const std::string& value) noexcept;

}  // namespace fusec
