// SPDX-License-Identifier: Apache-2.0
// The line of stages from an imported graph to an Engine. engine.cpp has it once, from top to bottom; the commands that
// show stages and the writer of packages run parts of it. The machine code of kernels comes from another Engine of this
// process, from the kernel cache, or by emit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "fusec/engine.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/signing.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/support/stage_context.h"
#include "runtime/cache/artifact.h"
#include "runtime/link/link.h"
#include "runtime/load/assemble.h"
#include "runtime/plan/tuner.h"

namespace fusec::runtime {

enum class Stage : uint8_t { import, optimize, partition, lower, select };

// What the stages made, as far as they ran.
struct Stages {
  ir::Graph graph;  // as optimized, from Stage::optimize on
  std::vector<compiler::PassTime> passes;
  compiler::Partition partition;
  ir::Program program;
  std::vector<StageTime> times;  // without weights_ms
  double weights_ms = 0;         // converting weights to options.precision
};

// Which candidates of generated kernels lower lists.
enum class Listing : uint8_t {
  needed,  // those that select may take
  all,     // those that can be measured
};
// `tuning`, by whose times select will pick, outlives the answer.
compiler::CandidateLimits limits_of(const compiler::TuningData& tuning, Listing listing);

// Runs the stages up to and with `last` on an imported graph; options.dump_dir gets the text of each. An error says in
// which stage it was.
Result<Stages> run_stages(const ir::Graph& imported, const Target& target, const Options& options, Stage last,
                          const ir::Deadline& deadline = {}, const compiler::TuningData& tuning = {},
                          Listing listing = Listing::needed);

enum class KernelSet : uint8_t {
  usual,   // usual_kernels; Parts::obtain makes the others when they are needed
  picked,  // all of picked_kernels, as a package has them
};

// Which kernels this process compiles, of several that share the work by the keys of the kernel cache.
struct KernelShard {
  Shard shard;
  int64_t elsewhere = 0;  // kernels that were left to the other processes, added up here
};

// The model as a selected Program with machine code for `target`: all stages up to emit. The machine is left empty.
// machine: on which generated kernels may be timed, by options.strategy; null: there is none. shard, if not null: only
// its kernels get code, so that the answer has stats and a Program, and cannot be run.
Result<Parts> compile_parts(const Model& model, const Options& options, const Target& target, KernelSet kernels,
                            const Machine* machine = nullptr, KernelShard* shard = nullptr);

// The kernels `ids` of the Program where another Engine of this process holds them, or `cache` has them: all or none.
std::optional<Artifacts> find_kernels(const ir::Program& program, const std::vector<ir::KernelId>& ids,
                                      const Target& target, Codegen codegen, KernelCache* cache);

struct KernelCounts {
  int64_t distinct = 0, compiled = 0, cached = 0, damaged = 0, shared = 0, server = 0;
  std::vector<KernelTime> times;  // of those compiled, the longest first
};

// The kernels `ids` of the Program. They are made by up to `threads` threads side by side; in one process a key is
// compiled by one of them while others wait. `cache` may be null; `reuse`: kernels that another Engine holds are taken
// as they are. The first error in kernel order is the answer; `warn` is told, by any of the threads, of kernels that
// another emitter had to make. `deadline` is asked before each kernel.
Result<Artifacts> obtain_kernels(const ir::Program& program, const std::vector<ir::KernelId>& ids, const Target& target,
                                 Codegen codegen, KernelCache* cache, bool reuse, int threads, const Warn& warn,
                                 KernelCounts& counts, const ir::Deadline& deadline = {});

// fusec::write_package; returns the stats of each target, without those of link and bind.
Result<std::vector<EngineStats>> write_package(const Model& model, std::span<const std::string> targets,
                                               const std::string& path, const Options& options,
                                               const std::optional<SigningKey>& sign) noexcept;

// Compiles the kernels of a shard into the kernel cache: those that write_package takes for these targets, or where
// none is named, those that Engine::compile takes on this machine. The stats of each compile.
Result<std::vector<EngineStats>> compile_shard(const Model& model, std::span<const std::string> targets,
                                               const Options& options, KernelShard& shard) noexcept;

}  // namespace fusec::runtime
