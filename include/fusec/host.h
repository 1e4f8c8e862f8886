// SPDX-License-Identifier: Apache-2.0
// What a program that embeds fusec may give it: an allocator, threads, a log, and what is told of progress. Options has
// a member for each; unset, fusec uses its own. None of these functions may throw.
#pragma once

#include <cstdint>
#include <functional>

#include "fusec/export.h"
#include "fusec/target.h"

namespace fusec {

// By rising importance. debug: what a stage took. info: what was compiled, loaded or bound. warning: a fault that does
// not fail the call. error: a mistake in a call that has no error to answer.
enum class Severity : uint8_t { debug, info, warning, error };

struct FUSEC_API MemoryRequest {
  Device device;
  int64_t bytes = 0;       // at least 1
  int64_t alignment = 64;  // a power of two: 64 on the host, 256 on a GPU
  // Of a GPU: the CUstream on which the memory is used first. Before `free` is called, that use is over, or it is on
  // this stream and what is put there next comes after it.
  void* stream = nullptr;
};

// Where outputs that the caller does not give, arenas, workspaces and staging copies of Sessions lie. Weights and code
// stay in memory of fusec. Called from any thread, by several at once.
struct FUSEC_API HostAllocator {
  // Contents undefined. Null: refused, which is out_of_memory of the call.
  std::function<void*(const MemoryRequest&)> allocate;
  // What `allocate` gave, once. `stream` is that of the request.
  std::function<void(void* memory, const Device& device, void* stream)> free;
};

// The threads on which a run on the CPU is split. Library calls of oneDNN are made for the calling thread alone,
// because they wait for all of their threads at once, which such functions do not promise.
struct FUSEC_API HostThreads {
  // How many tasks run side by side, the calling thread included; at least 1.
  std::function<int()> count;
  // Calls body(argument, begin, end) on ranges that cover 0 .. n-1, on any threads and in any order, and returns when
  // all calls have returned.
  std::function<void(int64_t n, void (*body)(void* argument, int64_t begin, int64_t end), void* argument)> parallel_for;
};

}  // namespace fusec
