// SPDX-License-Identifier: Apache-2.0
// The interface of libraries, which run LibrarySteps (conv, matmul, pooling, with epilogues). oneDNN and our plain
// loops are libraries.
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
  std::vector<int64_t> shape, strides;  // elements; strides may be in any order, 0 for broadcast axes
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
  int threads = 1;                        // number of threads that `run` will be given
  std::string algorithm = {};             // the Algorithm to use; empty: the library's default
  bool warm_constants = false;            // of measurements: constants are in the last-level cache when it begins
  bool repeated = false;  // of measurements: it runs again and again, with what the last run left cached
};

// One algorithm of a library for a call.
struct Algorithm {
  std::string id;             // the same text means the same algorithm for one version of the library, in every process
  std::size_t workspace = 0;  // bytes, as far as known before binding
  bool deterministic = true;  // the same bits on every run
};

struct ExecContext {
  int threads = 1;         // host: parallel_for(context.threads, ...)
  void* stream = nullptr;  // GPU: the CUstream on which the call's work is put; addresses are device addresses
};

// A bound call. It is immutable and may run in several threads at once, each with its own arguments and workspace.
class LibraryOp {
 public:
  virtual ~LibraryOp() = default;
  // args[i]: address of the first element of LibraryCall::args[i]. The output is written, the others are only read.
  // workspace: workspace_bytes() of memory, 64-byte aligned (256 on a GPU), with undefined contents. Allocates nothing.
  // On a GPU the device is current and the stream may be capturing.
  virtual Status run(void* const* args, void* workspace, const ExecContext& context) const = 0;
  // On a GPU: how many calls `run` consists of, if they may run side by side; else 1. An op of several calls has no
  // workspace.
  virtual std::size_t calls() const { return 1; }
  // Does one of several calls(); all of them together do what `run` does.
  virtual Status run_call(std::size_t /*call*/, void* const* args, const ExecContext& context) const {
    return run(args, nullptr, context);
  }
  virtual std::size_t workspace_bytes() const { return 0; }
  // Of these, the most that one call of the library asked for: what Options::workspace_limit bounds.
  virtual std::size_t limited_bytes() const { return 0; }
  // The address of args[arg] must be a multiple of this many bytes, a power of two that divides its BoundArg::offset.
  // Memory of the caller that is not sufficiently aligned is copied.
  virtual int64_t alignment(std::size_t /*arg*/) const { return 1; }
  // Whether `run` looks at args[arg] at all: not at weights that it packed.
  virtual bool reads(std::size_t /*arg*/) const { return true; }
  // Arguments with the output's shape and strides whose memory the output may reuse (args[i] == output at run), best
  // first: the operand of an epilogue add. `run` compares the addresses and works in both cases.
  virtual std::vector<int> may_alias() const { return {}; }
  // On a GPU: whether a kernel behind it in the run may be placed before it ends (programmatic dependent launch).
  virtual bool next_may_start_early() const { return false; }
  // For inspect: "onednn jit:avx512_core", "loops".
  virtual std::string implementation() const = 0;
  // Bytes of packed weights this op holds or shares.
  virtual std::size_t packed_bytes() const { return 0; }
};

// A call that is timed alone, with its own memory: the arguments are dense in one layout, the constant weights are in
// the format that the op prefers for it.
struct IsolatedCall {
  // For images of any rank "nchw", "nhwc" or "blocked"; for matrices "plain" or "transposed"; "any": chosen by the
  // library.
  std::string layout;
  std::unique_ptr<LibraryOp> op;
  std::vector<std::size_t> bytes;  // by argument of `run`, in the order of LibraryCall::args; 0: not read
  int weights = -1;                // the argument that is constant in the model; -1: none
};

// One instance belongs to one Engine and holds its caches (packed weights, primitives); all functions are thread-safe.
class Library {
 public:
  virtual ~Library() = default;
  virtual std::string name() const = 0;
  // The version of the underlying library. Times and algorithms are valid only for one version.
  virtual std::string version() const { return "1"; }
  // Why this library cannot run the step at all, whatever the shapes; nullopt: it can.
  virtual std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const = 0;
  // Makes the op for these shapes. Constant weights are packed at the first bind that needs them and then shared.
  // `unsupported` passes the call on to the next library, also if call.algorithm is not in algorithms(call).
  virtual Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) = 0;
  // The algorithms for the call (whatever call.algorithm says), first the one that `bind` uses if none is requested.
  // They may still fail to bind. Empty: the library does not run the call or offers no algorithms for it.
  virtual std::vector<Algorithm> algorithms(const LibraryCall& /*call*/) { return {}; }
  // Another instance without packed weights, for calls that are only timed: what it packs is freed with it. Its calls
  // may ask for `workspace` bytes at least. Null: this library packs nothing.
  virtual std::shared_ptr<Library> clone(int64_t /*workspace*/) const { return nullptr; }
  // The call with the epilogues that the library fuses, in each layout that it supports. These times are the baseline
  // for a plan, which has to agree on layouts between steps. in_place: the output is written where may_alias() allows
  // it.
  virtual std::vector<IsolatedCall> isolated_calls(const LibraryCall& /*call*/, bool /*in_place*/) { return {}; }
};

// The libraries of a host Engine, in order of preference; the last one (plain loops) takes every step.
std::vector<std::shared_ptr<Library>> host_libraries(const Options& options);

struct DeviceMemory;  // runtime/library/interface/device_weights.h
// The libraries of a GPU engine, in order of preference: cuBLASLt, then cuDNN. A missing library causes a warning and
// is left out; none of them takes every step. A CUDA context must be current.
std::vector<std::shared_ptr<Library>> cuda_libraries(const Options& options,
                                                     const std::shared_ptr<DeviceMemory>& memory);

}  // namespace fusec::runtime
