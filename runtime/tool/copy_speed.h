// SPDX-License-Identifier: Apache-2.0
// The baseline of memory-bound work on a CPU: the fastest copy of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"
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
  // By the best of a few interleaved tries of every kind, on all threads and on one.
  CopyMethod fastest(int64_t bytes) const;
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

}  // namespace fusec::tool
