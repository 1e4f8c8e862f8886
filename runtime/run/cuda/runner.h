// SPDX-License-Identifier: Apache-2.0
// The Runner of a GPU: a stream, an arena, Frames on it with their graphs, staging memory for tensors of the host and
// for those that kernels cannot take where they lie.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/device/cuda/context.h"
#include "runtime/run/runner.h"

namespace fusec::runtime::cuda {

Result<std::unique_ptr<Runner>> make_runner(const ir::Program& program, ContextPtr context, const Options& options);

}  // namespace fusec::runtime::cuda
