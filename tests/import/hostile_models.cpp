// SPDX-License-Identifier: Apache-2.0
#include "tests/import/hostile_models.h"

#include "tests/import/hostile_make.h"

namespace fusec::importer {

std::vector<HostileModel> hostile_models(const std::string& folder) {
  HostileList list;
  add_hostile_bytes(list);
  add_hostile_models(list);
  add_hostile_ops(list);
  add_hostile_bombs(list);
  add_hostile_functions(list);
  add_hostile_tensors(list);
  add_hostile_files(list, folder);
  return list;
}

}  // namespace fusec::importer
