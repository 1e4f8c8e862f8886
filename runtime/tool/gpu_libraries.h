// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries as `doctor` shows them. None is linked; each is opened where it is needed.
#pragma once

#include <string>
#include <vector>

namespace fusec::tool {

struct GpuLibrary {
  std::string name;
  std::string path, version;  // empty: not found
  std::string cost;           // what is lost without it
};

std::vector<GpuLibrary> gpu_libraries();

}  // namespace fusec::tool
