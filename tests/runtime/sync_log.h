// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fusec::runtime {

// "file" or "folder" for each fsync of this program, in order; sync_log.cpp takes the place of the system's.
std::vector<std::string>& sync_log();

}  // namespace fusec::runtime
