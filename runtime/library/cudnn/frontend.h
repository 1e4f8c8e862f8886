// SPDX-License-Identifier: Apache-2.0
// Convolution plans of cuDNN's graph API. Only the translation unit behind this header includes cudnn-frontend.
#pragma once

#include <memory>

#include "runtime/library/cudnn/handles.h"
#include "runtime/library/cudnn/plan_cache.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

// Tells cudnn-frontend which library to call; `library` is the handle from dlopen.
void use_library(void* library);

// The plan that the spec names, or else the first in cuDNN's heuristics that meets our numerics: f32 without TF32
// unless spec.tf32, no reduced precision, the same bits on every run, no engine in lossy_engines. A named plan skips
// the heuristics. A plan in the cache (which may be null) is not built again.
Result<std::unique_ptr<CudnnPlan>> conv_plan(std::shared_ptr<Handles> handles, const ConvSpec& spec,
                                             const CudnnPlanCache* cache);

// All such plans, in the order of the heuristics.
Result<std::vector<CudnnPlanInfo>> conv_plan_names(const std::shared_ptr<Handles>& handles, const ConvSpec& spec);

}  // namespace fusec::runtime::cudnn
