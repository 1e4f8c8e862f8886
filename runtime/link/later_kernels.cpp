// SPDX-License-Identifier: Apache-2.0
// Compiles and loads the kernels that link leaves out, when a bind takes a variant that needs them. What one bind needs
// is asked for at once, so that it is compiled side by side.

#include <utility>

#include "ir/support/check.h"
#include "runtime/link/link.h"

namespace fusec::runtime {

LaterKernels::LaterKernels(std::set<ir::KernelId> ids, const Artifacts& artifacts, ObtainKernels obtain)
    : ids_(std::move(ids)), obtain_(std::move(obtain)) {
  for (const ir::KernelId id : ids_) {
    const auto packaged = artifacts.find(id);
    if (packaged != artifacts.end()) artifacts_.insert(*packaged);
    FUSEC_CHECK(packaged != artifacts.end() || obtain_) << "no artifact for kernel k" << id.index;
  }
}

Result<int64_t> LaterKernels::load(const ir::Program& program, const std::set<ir::KernelId>& ids) {
  const std::lock_guard lock(mutex_);
  std::vector<ir::KernelId> to_load, to_obtain;
  for (const ir::KernelId id : ids) {
    if (!ids_.contains(id) || loaded_.contains(id)) continue;
    to_load.push_back(id);
    if (!artifacts_.contains(id)) to_obtain.push_back(id);
  }
  int64_t compiled = 0;
  if (!to_obtain.empty()) {
    FUSEC_ASSIGN(ObtainedKernels made, obtain_(program, to_obtain));
    artifacts_.merge(made.artifacts);
    compiled = made.compiled;
  }
  for (const ir::KernelId id : to_load) FUSEC_TRY(load_one(program, id));
  return compiled;
}

Status LaterKernels::load_one(const ir::Program& program, ir::KernelId id) {
  Result<LoadedKernel> kernel = load_(*artifacts_.at(id));
  if (!kernel.ok()) return kernel.status().with_note("while loading kernel '" + program.kernels[id].name + "'");
  loaded_[id] = *std::move(kernel);
  return {};
}

const LoadedKernel* LaterKernels::find(ir::KernelId id) const {
  if (!ids_.contains(id)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto it = loaded_.find(id);
  return it == loaded_.end() ? nullptr : &it->second;
}

}  // namespace fusec::runtime
