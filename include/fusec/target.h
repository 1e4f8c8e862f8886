// SPDX-License-Identifier: Apache-2.0
// Target: all that the compiler knows of the machine it compiles for. Plain data: nothing here asks a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/export.h"
#include "fusec/status.h"

namespace fusec {

enum class TargetKind : uint8_t { cpu, cuda };

// Where memory lies and work runs: the CPU, or one of the GPUs that the driver lists.
struct FUSEC_API Device {
  TargetKind kind = TargetKind::cpu;
  int ordinal = 0;
  bool operator==(const Device&) const = default;
};

// Where a figure of a machine is from.
enum class FigureSource : uint8_t {
  estimated,  // derived from figures of similar machines
  published,  // data sheets and papers
  reference,  // measured on another machine of the same kind
  measured,   // on this one
};

struct FUSEC_API Figure {
  double value = 0;
  FigureSource source = FigureSource::estimated;
  operator double() const { return value; }
  bool operator==(const Figure&) const = default;
};

// What a machine costs, for ir/cost. A worker is an SM of a GPU, or a thread of a CPU. GB/s count reads and writes;
// ops are counted in the units of the column `cost` of the scalar op table: 1 is an addition.
struct FUSEC_API MachineModel {
  Figure memory_copy;       // GB/s, all workers together, of data that no cache holds
  Figure memory_read;       // GB/s, of reading alone
  Figure cache_copy;        // GB/s, all workers together, of data in the last-level cache
  Figure near_copy;         // GB/s, one worker, of data in the cache before that (a CPU's second level; a GPU's first)
  Figure worker_memory;     // GB/s, one worker alone, of data that no cache holds
  Figure worker_cache;      // GB/s, one worker alone, of data in the last-level cache
  Figure memory_latency;    // us from a load to its value
  Figure cache_latency;     // us, from the last-level cache
  Figure launch;            // us of a launch alone, between two events of a GPU's stream; a step on one thread
  Figure dependent_launch;  // us of a launch that follows another in a CUDA graph; of a step on all threads of a CPU
  Figure block_start;       // us until a thread block begins to work; of a task on a CPU
  Figure barrier;           // us of a barrier of a thread block, or of a team of threads
  Figure simple_ops;        // per ns and worker: additions, comparisons, choices
  Figure transcendental_ops;  // exp, tanh and their like
  Figure division_ops;        // divisions and square roots
  Figure conversion_ops;      // between dtypes

  bool operator==(const MachineModel&) const = default;
};

// A row for each member of MachineModel.
struct FUSEC_API FigureInfo {
  const char* name;
  const char* unit;
  Figure MachineModel::*member;
};
FUSEC_API std::vector<FigureInfo> machine_figures();
// "measured", "measured on such a machine", "published, unmeasured", "estimated, unmeasured"
FUSEC_API const char* to_string(FigureSource source);
// 16 hexadecimal digits: equal exactly if all values are.
FUSEC_API std::string machine_digest(const MachineModel& model);

struct FUSEC_API Target {
  TargetKind kind = TargetKind::cpu;
  std::string name;  // "x86-64-v4" or "sm_90"

  // CPU
  std::string triple_cpu;             // LLVM's name of the CPU model used for code generation, e.g. "x86-64-v3"
  std::vector<std::string> features;  // sorted LLVM feature names, e.g. "avx512f"
  int vector_bytes = 16;              // widest profitable vector: 16, 32 or 64
  int threads = 1;
  bool has_f16c = false, has_avx512_fp16 = false;

  // CUDA
  int sm = 0;  // 90 for sm_90
  int sm_count = 0;
  int registers_per_sm = 0;  // 32-bit
  int threads_per_sm = 0;
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_block = 0;  // that a launch may ask for

  // The libraries of such a machine by name, in order of preference: "onednn", "plain", "cublaslt", "cudnn". What each
  // computes is a table inside fusec, so that a model can be compiled where they are missing.
  std::vector<std::string> libraries;
  bool keeps_rows = true;  // kernels may keep a row of values in memory of the thread; else in registers alone

  // Whether kernels may multiply tiles by the warpgroup instructions of sm_90.
  bool has_tile_products = false;

  MachineModel model;
  int64_t last_level_cache = 8 << 20;  // bytes
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;

  bool has(const std::string& feature) const;
  bool operator==(const Target&) const = default;
};

// Targets by name: "x86-64-v2" (SSE4.2), "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512); "sm_75" ... "sm_121" with the
// figures of that architecture's largest data-centre or desktop GPU. "cpu:" and "cuda:" may stand in front. Unknown:
// invalid_argument.
FUSEC_API Result<Target> named_target(const std::string& name) noexcept;
// One line of "key=value" pairs that is equal exactly when code generation would be.
FUSEC_API std::string codegen_key(const Target& target);
// The names that named_target takes, without prefix.
FUSEC_API std::vector<std::string> target_names();

}  // namespace fusec
