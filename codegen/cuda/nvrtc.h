// SPDX-License-Identifier: Apache-2.0
// CUDA C++ -> cubin by NVRTC, opened at run time. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen::cuda {

// Of one function, as ptxas counts.
struct Resources {
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // stack and spills of a thread; static shared memory of a block
};

struct Cubin {
  std::vector<uint8_t> image;
  std::string ptx;
  std::map<std::string, Resources> resources;  // by function
  std::string log;
};

Result<Cubin> compile(const std::string& text, const Target& target);
// "13.0", or "none".
std::string nvrtc_version();
// What `ptxas -v` says.
std::map<std::string, Resources> parse_resources(const std::string& log);

}  // namespace fusec::codegen::cuda
