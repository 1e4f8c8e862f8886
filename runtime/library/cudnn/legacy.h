// SPDX-License-Identifier: Apache-2.0
// Plans of cuDNN's functions outside the graph API: pooling, copies, fills and epilogues in place. They work on any
// strides, keep NaN, and run on every GPU, where plans of the graph API for single pointwise ops do not.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cudnn/session.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

Result<std::unique_ptr<Work>> pool_plan(std::shared_ptr<Session> session, const PoolSpec& spec);
Result<std::unique_ptr<Work>> copy_plan(std::shared_ptr<Session> session, const TensorSpec& from, const TensorSpec& to);
Result<std::unique_ptr<Work>> fill_plan(std::shared_ptr<Session> session, const TensorSpec& out, double value);
Result<std::unique_ptr<Work>> post_plan(std::shared_ptr<Session> session, const PostSpec& post, const TensorSpec& out);

// All of cuDNN on the device of this name (DeviceMemory::device_name). `device` where it is missing or finds no GPU.
Result<std::shared_ptr<Backend>> open_cudnn(const Options& options, const std::string& device_name);

}  // namespace fusec::runtime::cudnn
