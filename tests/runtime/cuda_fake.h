// SPDX-License-Identifier: Apache-2.0
// A CUDA driver in the memory of the process: device memory is host memory, streams run at once, captures are lists,
// and kernels are C++ functions. It checks what a driver checks and can fail any call.
#pragma once

#if FUSEC_WITH_CUDA
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/driver.h"
#include "tests/runtime/programs.h"

namespace fusec::runtime_test {

struct FakeLaunch {
  std::string kernel;
  unsigned grid = 0, block = 0, shared = 0;
  std::vector<uint64_t> params;
  const void* stream = nullptr;
  bool early = false;  // may start before the launch in front of it ends
};

// One at a time; `driver()` answers its table while it lives.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();  // every handle must have been given back

  // Kernels that a cubin of their name holds.
  struct Kernel {
    int buffers = 0, extents = 0;
    codegen::HostFunction function = nullptr;
  };
  std::map<std::string, Kernel> kernels;

  // What the GPU is.
  int sm = 90, memory_clock_khz = 2619000, bus_bits = 5120, gpus = 2;
  bool refuse_cubins = false;
  // Between two events: of each graph that was launched after the one and before the other, or once without any.
  std::function<float()> elapsed_ms = [] { return 0.5f; };

  // Of the calls that can fail, the fail_at-th from now on (1: the next) answers fail_with; 0: none does.
  void fail(int at, CUresult with);
  int calls() const { return calls_; }
  const std::string& failed_call() const { return failed_call_; }

  std::vector<std::string> log;  // names of calls
  int count(const std::string& call) const;
  std::vector<FakeLaunch> launches;  // also those of a graph, when it runs

  std::vector<const void*> graph_streams;  // that graphs were launched on
  std::vector<const void*> waits;          // streams that were made to wait for an event

  // Of this thread.
  static CUcontext current();
  static void set_current(CUcontext context);
  CUcontext primary(int ordinal) { return reinterpret_cast<CUcontext>(&primaries_[ordinal]); }

  struct Impl;
  std::unique_ptr<Impl> impl;

 private:
  friend struct Impl;
  std::map<int, int> primaries_;  // by ordinal: how often retained
  int calls_ = 0, fail_at_ = 0;
  CUresult fail_with_ = CUDA_SUCCESS;
  std::string failed_call_;
  runtime::cuda::Driver table_;
  std::unique_ptr<runtime::cuda::DriverForTest> installed_;
};

// The program on cuda:0 of the fake; its kernels run one block per iteration.
Result<Engine> gpu_engine(const ProgramBuilder& builder, FakeDriver& fake, const Options& options = {},
                          std::vector<std::shared_ptr<runtime::Library>> libraries = {});

}  // namespace fusec::runtime_test
#endif
