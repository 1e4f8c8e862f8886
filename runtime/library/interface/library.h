// SPDX-License-Identifier: Apache-2.0
// Libraries: who runs a LibraryStep (conv, matmul, pooling with epilogues). oneDNN and our plain loops are such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "ir/program/program.h"
#include "runtime/threads/parallel.h"

namespace fusec::runtime {

// One view of a LibraryStep with its dimensions evaluated.
struct BoundArg {
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;  // elements; strides may be any order, 0 for broadcast axes
  // The view's first element, in host memory, when the argument is a constant of the model, else null. It lives as long
  // as the Engine and its bytes never change, so packed copies may be cached by this address (with shape, strides and
  // layout).
  const void* constant = nullptr;
  int64_t offset = 0;  // bytes from the beginning of its allocation
  bool operator==(const BoundArg&) const = default;
};

// A LibraryStep at one set of shapes. The output is never empty; a reduced extent (k of a matmul) may be 0.
struct LibraryCall {
  const ir::LibraryStep* step = nullptr;  // of the Engine's Program: outlives every op bound to it
  std::vector<BoundArg> args;             // in the order of step->args, the output last
  int threads = 1;                        // that `run` will be given
  std::string choice = {};                // the Choice to take; empty: the library's own
};

// One way in which a library can do a call.
struct Choice {
  std::string id;             // the same text means the same way for one version of the library, in every process
  std::size_t workspace = 0;  // bytes, as far as known before it is bound
  bool deterministic = true;  // the same bits on every run
};

struct ExecContext {
  int threads = 1;         // host: parallel_for(context.threads, ...)
  void* stream = nullptr;  // GPU: the CUstream that the call's work is put on; addresses are the device's
};

// A bound call: immutable, may run in several threads at once, each with its own arguments and workspace.
class LibraryOp {
 public:
  virtual ~LibraryOp() = default;
  // args[i]: address of the first element of LibraryCall::args[i]; the output is written, the others only read.
  // workspace: workspace_bytes() of memory, 64-byte aligned (256 on a GPU), contents undefined. Allocates nothing. On a
  // GPU the device is current and the stream may be under capture.
  virtual Status run(void* const* args, void* workspace, const ExecContext& context) const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  // Bytes that the address of args[arg] must be a multiple of, a power of two that divides its BoundArg::offset; memory
  // of the caller that is not gets a copy.
  virtual int64_t alignment(std::size_t /*arg*/) const { return 1; }
  // Arguments of the output's shape and strides whose memory the output may take over (args[i] == output at run), best
  // first: the operand of an epilogue sum. `run` looks at the addresses; it works either way.
  virtual std::vector<int> may_alias() const { return {}; }
  // For inspect: "onednn jit:avx512_core", "loops".
  virtual std::string implementation() const = 0;
  // Bytes of packed weights this op holds or shares.
  virtual std::size_t packed_bytes() const { return 0; }
};

// A call on memory of its own, to be timed alone: arguments dense in one layout, constant weights in the format that
// the op likes best there.
struct IsolatedCall {
  // "nchw", "nhwc", "blocked" of images, whatever their rank; "plain", "transposed" of matrices; "any": the library's
  // choice
  std::string layout;
  std::unique_ptr<LibraryOp> op;
  std::vector<std::size_t> bytes;  // of each argument of `run`, in the order of LibraryCall::args; 0: not read
  int weights = -1;                // the argument that is constant in the model; -1: none
};

// One instance belongs to one Engine and holds its caches (packed weights, primitives); all functions are thread-safe.
class Library {
 public:
  virtual ~Library() = default;
  virtual std::string name() const = 0;
  // Of what it calls: times and choices of one version say nothing of another.
  virtual std::string version() const { return "1"; }
  // Why this library cannot run the step at all, whatever the shapes; nullopt: it can.
  virtual std::optional<std::string> refuses(const ir::LibraryStep& step) const = 0;
  // Makes the op for these shapes; constant weights are packed at the first bind that needs them and then shared.
  // `unsupported` passes the call on to the next library; also where call.choice is none of choices(call).
  virtual Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) = 0;
  // Ways to do the call (whatever call.choice says), first the one that `bind` takes without a choice; they may still
  // fail to bind. Empty: it does not do the call, or has no choices for such.
  virtual std::vector<Choice> choices(const LibraryCall& /*call*/) { return {}; }
  // Another instance with nothing packed, for calls that are only timed: what they pack goes with it. Null: this one
  // packs nothing.
  virtual std::shared_ptr<Library> fresh() const { return nullptr; }
  // The call with the epilogues that the library does itself, in each layout that it has: the yardstick of a plan,
  // which must agree on layouts between steps. in_place: it runs with the output where may_alias() says.
  virtual std::vector<IsolatedCall> alone(const LibraryCall& /*call*/, bool /*in_place*/) { return {}; }
};

// The libraries of a host Engine, in order of preference; the last one (plain loops) takes every step.
std::vector<std::shared_ptr<Library>> host_libraries(const Options& options);

struct DeviceMemory;  // runtime/library/interface/cuda_memory.h
// Those of an Engine for a GPU, in order of preference: cuBLASLt, then cuDNN. One that is missing is warned of and left
// out; no other takes every step. A CUDA context is current.
std::vector<std::shared_ptr<Library>> cuda_libraries(const Options& options,
                                                     const std::shared_ptr<DeviceMemory>& memory);

}  // namespace fusec::runtime
