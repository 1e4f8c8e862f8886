// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/library.h"

namespace fusec::runtime {

std::vector<std::shared_ptr<Library>> cuda_libraries(const Options&, const std::shared_ptr<DeviceMemory>&) { return {}; }

}  // namespace fusec::runtime
