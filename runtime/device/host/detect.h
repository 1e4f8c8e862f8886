// SPDX-License-Identifier: Apache-2.0
// What the compiler is told of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::runtime {

// This machine, or Options::target where the machine can run it (else invalid_argument). unsupported below SSE4.2.
Result<Target> host_target(const Options& options);

// Options::threads, else OMP_NUM_THREADS, both limited by nothing; else the cores that affinity and the control group
// leave to this process. At least 1.
int host_threads(const Options& options);

// Bytes of memory that the machine has or, if that is less, a container's control group grants.
int64_t host_memory();

// The processor as its maker calls it, "unknown" where the system does not say.
std::string cpu_name();

// Parts of the above, on text, for tests. Cores that "max 100000" or "150000 100000" (cpu.max) grants, rounded up.
std::optional<int> cores_of_cpu_max(const std::string& text);
// The number in memory.max; nullopt for "max".
std::optional<int64_t> bytes_of_memory_max(const std::string& text);
// Bytes of "32K", "2048K", "8M".
std::optional<int64_t> parse_cache_size(const std::string& text);

}  // namespace fusec::runtime
