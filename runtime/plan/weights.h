// SPDX-License-Identifier: Apache-2.0
// The constants of an Engine that Engine::set_weight replaces. The Engine stays as it is; for the new contents another
// EngineState is linked from the same Program and code, when a Session first asks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/program/program.h"

namespace fusec::runtime {

struct EngineState;

class Weights {
 public:
  using Contents = std::map<uint32_t, Tensor>;  // by index into Program::constants
  // An EngineState, without Weights, whose Program has these contents in place of its own.
  using Remake = std::function<Result<std::shared_ptr<const EngineState>>(const Contents&)>;

  // Null: the Program has no constant that may be replaced.
  static std::unique_ptr<Weights> make(const ir::Program& program, Remake remake);

  const std::vector<TensorInfo>& infos() const { return infos_; }
  Status set(const std::string& name, const Tensor& data);
  // How often weights were replaced. 0: the Engine is as it was made.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Of the contents that are set, with their version, at least 1.
  Result<std::pair<uint64_t, std::shared_ptr<const EngineState>>> current();

 private:
  std::vector<TensorInfo> infos_;
  std::vector<uint32_t> ordinals_;  // of each
  Remake remake_;
  std::atomic<uint64_t> version_{0};
  std::mutex mutex_, remaking_;
  Contents contents_;  // under mutex_
  uint64_t made_ = 0;  // the version of state_; under remaking_
  std::shared_ptr<const EngineState> state_;
};

}  // namespace fusec::runtime
