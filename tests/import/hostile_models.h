// SPDX-License-Identifier: Apache-2.0
// Models made to break a reader: each breaks one rule, or asks for more than a machine has.
#pragma once

#include <string>
#include <vector>

namespace fusec::importer {

struct HostileModel {
  std::string name;
  std::string bytes;    // of the file
  std::string message;  // part of the Status it must end in
  std::string where;    // the node or tensor that the Status must name; empty where there is none
};

// External data of these models lies in `folder`, which must be empty and writable. `message` is not empty.
std::vector<HostileModel> hostile_models(const std::string& folder);

}  // namespace fusec::importer
