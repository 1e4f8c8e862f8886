// SPDX-License-Identifier: Apache-2.0
// Wall-clock measurements: of a call alone, and of a call between two copies of as many bytes. The baseline of memory-
// bound work on a CPU is the fastest copy of this machine. Task cycles are what the arithmetic of a pattern costs,
// apart from the memory that it runs on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "runtime/device/host/memory.h"

namespace fusec::tool {

enum class CopyKind : uint8_t {
  memcpy_,  // one memcpy per thread
  avx2,     // 32-byte streaming stores, loads prefetched 2 KiB ahead
  avx512,   // the same with 64 bytes
};
const char* to_string(CopyKind kind);

// Small copies are quicker on one thread.
struct CopyMethod {
  CopyKind kind = CopyKind::memcpy_;
  int threads = 1;
};
std::string to_string(const CopyMethod& method);  // "avx512 streaming, 2 threads"

class CopySpeed {
 public:
  // Copies of up to `bytes` of traffic: half of them read, half written.
  static Result<CopySpeed> make(int64_t bytes, int threads);
  // More traffic, if asked for.
  Status reserve(int64_t bytes);

  void run(const CopyMethod& method, int64_t bytes) const;
  int threads() const { return threads_; }
  std::vector<CopyKind> kinds() const;  // that this machine has
  // By the best of a few interleaved tries of every kind, on all threads and, up to 4 MiB, on one. No further round of
  // tries begins after `seconds`.
  CopyMethod fastest(int64_t bytes, double seconds = 10) const;
  double best_us(const CopyMethod& method, int64_t bytes, int tries) const;

 private:
  runtime::AlignedBuffer from_, to_;
  int threads_ = 1;
};

struct CopyRow {
  int64_t bytes = 0;
  CopyKind kind = CopyKind::memcpy_;
  double gb_per_s = 0;  // read + write
};
// Every kind, on all threads, at a few sizes up to `max_bytes`.
std::vector<CopyRow> copy_table(CopySpeed& copy, int64_t max_bytes);

struct Budget {
  // Measured, after warm-up. Where the machine's speed changes, or fewer than 5 runs fit, measuring ends after twice as
  // long, but not before 3 runs.
  double seconds = 1;
  int64_t runs = 0;    // > 0: exactly so many, whatever they take
  int64_t warmup = 3;  // runs before
};

using Call = std::function<void()>;

double time_us(const Call& call);
// Microseconds of each run; at least 3.
std::vector<double> time_runs(const Call& call, const Budget& budget);

double percentile(std::vector<double> values, double p);  // p in 0..1, nearest rank; 0 of nothing
inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

struct Paired {
  std::vector<double> us;        // of the call, per kept round
  double copy_us = 0;            // median over kept rounds
  double score = 0;              // median of copy time / call time over kept rounds
  double copy_spread = 0;        // of kept rounds: slowest copy / fastest copy
  CopyMethod method;             // the fastest at this size
  int64_t rounds = 0, kept = 0;  // kept: rounds whose two copies differ by at most 8 %
};

// Rounds of copy, call, copy; the copy that ends a round begins the next one. So call and copy alternate, and each
// finds in the last-level cache what the other has left of its data: two copies in a row would find more. Short calls
// are repeated inside a round, and so are its copies. When no round is steady, all of them count and kept is 0.
Paired time_paired(const Call& call, CopySpeed& copy, int64_t bytes, const Budget& budget);

struct TaskCycles {
  double per_16 = 0;       // core cycles per 16 elements of the largest input or output, all kernels together
  int64_t task_bytes = 0;  // that one task touches, the largest: within a first-level cache or not
};

// The model compiled for caches that hold everything, so without hints and streaming stores; then one task of each
// phase run again and again by one thread. Library steps do not count.
Result<TaskCycles> task_cycles(const Model& model, const Options& options, Target target,
                               std::span<const Tensor> inputs, std::span<Tensor> outputs);

// Of this thread's core, in GHz, while it computes: from a chain of dependent multiplications of 3 cycles each, which
// is their latency on the x86-64 cores since 2008.
double core_ghz();

}  // namespace fusec::tool
