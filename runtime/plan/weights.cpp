// SPDX-License-Identifier: Apache-2.0
// Holds what Engine::set_weight was given, and the EngineState that was made of it last.

#include "runtime/plan/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "fusec/device.h"

namespace fusec::runtime {
namespace {

constexpr std::size_t kListedNames = 20;

std::string text(const TensorInfo& info) { return to_string(info.dtype) + to_string(info.shape); }

Status unknown(const std::string& name, const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo& info : infos)
    if (names.size() < kListedNames) names.push_back("'" + info.name + "'");
  return Status(StatusCode::invalid_argument,
                fmt::format("there is no weight '{}' that can be replaced; Options::replaceable_weights kept {}{}",
                            name, fmt::join(names, ", "), infos.size() > names.size() ? ", ..." : ""));
}

}  // namespace

std::unique_ptr<Weights> Weights::make(const ir::Program& program, Remake remake) {
  auto weights = std::make_unique<Weights>();
  for (uint32_t i = 0; i < program.allocs.size(); ++i) {
    const ir::Allocation& alloc = program.allocs[ir::AllocId{i}];
    if (alloc.kind != ir::AllocKind::constant || alloc.name.empty()) continue;
    const Tensor& constant = program.constants[alloc.ordinal];
    weights->infos_.push_back({alloc.name, constant.dtype(), Shape(constant.shape().begin(), constant.shape().end())});
    weights->ordinals_.push_back(alloc.ordinal);
  }
  if (weights->infos_.empty()) return nullptr;
  weights->remake_ = std::move(remake);
  return weights;
}

Status Weights::set(const std::string& name, const Tensor& data) {
  const auto at = std::find_if(infos_.begin(), infos_.end(), [&](const TensorInfo& i) { return i.name == name; });
  if (at == infos_.end()) return unknown(name, infos_);
  const TensorInfo given{name, data.dtype(), Shape(data.shape().begin(), data.shape().end())};
  if (given.dtype != at->dtype || !(given.shape == at->shape)) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("weight '{}' must be {}, given is {}", name, text(*at), text(given)));
  }
  FUSEC_ASSIGN(Tensor own, Tensor::make(data.dtype(), data.shape()));
  if (data.num_elements() > 0) {
    if (data.data() == nullptr)
      return Status(StatusCode::invalid_argument, fmt::format("weight '{}' has no memory", name));
    FUSEC_TRY(copy(data, own));
  }
  const std::lock_guard lock(mutex_);
  contents_.insert_or_assign(ordinals_[static_cast<std::size_t>(at - infos_.begin())], std::move(own));
  version_.fetch_add(1, std::memory_order_release);
  return {};
}

Result<std::pair<uint64_t, std::shared_ptr<const EngineState>>> Weights::current() {
  const std::lock_guard remaking(remaking_);
  Contents contents;
  uint64_t wanted = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted = version();
    if (state_ != nullptr && made_ == wanted) return std::pair(made_, state_);
    contents = contents_;
  }
  FUSEC_ASSIGN(state_, remake_(contents));
  made_ = wanted;
  return std::pair(made_, state_);
}

}  // namespace fusec::runtime
