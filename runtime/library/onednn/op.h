// SPDX-License-Identifier: Apache-2.0
// A bound call: primitives in order, the source of each of their arguments, and what runs after them. A move copies a
// dense image from the workspace to a slice of channels, for concat. Each thread copies the rows that the convolution
// gave it, so that it finds them in its own cache; oneDNN's reorders split the work differently and take about 1.5
// times as long.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

struct Move {
  std::size_t offset = 0;  // of the source in the workspace
  int arg = -1;            // the target
  int64_t images = 1, height = 1, width = 1;
  int64_t run_bytes = 0;                 // bytes of one position: all its channels, contiguous
  int64_t image = 0, row = 0, step = 0;  // distances in bytes in the target
};

// A move from a dense channels-last image at `offset` to `out`. nullopt: there are more than two spatial axes, or the
// channels of `out` are not contiguous.
std::optional<Move> move_to(const CallOperand& out, std::size_t offset);

void run(const Move& move, void* const* args, void* workspace, int threads);

enum class ArgSource { arg, temporary, scratchpad, fixed };

struct PrimitiveArg {
  int id = 0;  // DNNL_ARG_*
  dnnl::memory::desc desc;
  ArgSource source = ArgSource::arg;
  int arg = -1;                               // for ArgSource::arg
  std::size_t offset = 0;                     // for ArgSource::temporary, in the workspace
  std::shared_ptr<const dnnl::memory> fixed;  // for ArgSource::fixed
};

struct PlanStep {
  dnnl::primitive primitive;
  std::vector<PrimitiveArg> primitive_args;
};

struct ExecutionPlan {
  std::vector<PlanStep> steps;
  std::size_t temporaries = 0, scratchpad = 0;  // bytes
  std::string implementation;

  // Reserves a part of the workspace, 64-byte aligned.
  std::size_t reserve(std::size_t bytes);
  // Adds a primitive and its scratchpad.
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           std::vector<PrimitiveArg> primitive_args);
  void add_reorder(const dnnl::engine& engine, const PrimitiveArg& from, const PrimitiveArg& to);
};

// Loops that run after the primitives: to = posts(from).
struct Trailing {
  CallOperand from, to;
  bool from_temporary = false;
  std::size_t offset = 0;  // of `from`, in the workspace
  std::vector<BoundEpilogue> posts;
};

struct Built {
  ExecutionPlan execution_plan;
  std::optional<Move> move;                  // runs after the execution plan
  std::shared_ptr<const Trailing> trailing;  // runs after the move; null: nothing
  // The execution plan for the case that args[alias] is the output's own memory; -1: there is none.
  int alias = -1;
  ExecutionPlan in_place;
};

// The Engine's weights in the formats that primitives requested, each made once. They are placed in a few large blocks
// on huge pages: a step that streams cold weights from 4 KiB pages takes 10 to 25% longer.
class PackedWeights {
 public:
  // `data`, described by `from`, converted to `to`.
  std::shared_ptr<const dnnl::memory> get(const dnnl::engine& engine, const void* data, const dnnl::memory::desc& from,
                                          const dnnl::memory::desc& to);

 private:
  struct Entry {
    dnnl::memory::desc from;
    std::shared_ptr<const dnnl::memory> packed;
  };
  // Allocates memory for a format, in the current block or in a new one.
  std::shared_ptr<const dnnl::memory> make(const dnnl::engine& engine, const dnnl::memory::desc& desc);

  std::mutex mutex_;
  std::map<const void*, std::vector<Entry>> entries_;
  std::shared_ptr<AlignedBuffer> piece_;
  std::size_t used_ = 0;  // bytes of piece_
};

// Null if the call has too many arguments.
std::unique_ptr<LibraryOp> make_op(const dnnl::engine& engine, Built built, const LibraryCall& call);

}  // namespace fusec::runtime::onednn
