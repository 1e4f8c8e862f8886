// SPDX-License-Identifier: Apache-2.0
// Hardware counters of the processor, over all threads of the process, where the system lets a program read them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::runtime {

class ProcessorCounters {
 public:
  // Counts from here on, on the threads that exist now. unsupported: says what forbids it.
  static Result<ProcessorCounters> start();
  ProcessorCounters(ProcessorCounters&&) noexcept = default;
  ProcessorCounters& operator=(ProcessorCounters&&) = delete;
  ~ProcessorCounters();

  // "instructions", "cycles", "cache-misses" (of the last level): those that this machine has, up to now.
  std::map<std::string, double> read() const;

 private:
  ProcessorCounters() = default;
  struct Counter {
    int file = -1;
    const char* name = nullptr;
  };
  std::vector<Counter> counters_;  // by thread and name
};

}  // namespace fusec::runtime
