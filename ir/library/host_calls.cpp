// SPDX-License-Identifier: Apache-2.0
// Holds the registered functions of custom calls by name and platform.

#include "ir/library/host_calls.h"

#include <map>
#include <mutex>
#include <utility>

#include "ir/support/check.h"

namespace fusec {
namespace {

using Key = std::pair<std::string, TargetKind>;

struct Calls {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<const CustomCall>> functions;
};

Calls& calls() {
  static Calls all;
  return all;
}

const char* platform_name(TargetKind platform) { return platform == TargetKind::cpu ? "cpu" : "cuda"; }

}  // namespace

Status register_call(const std::string& name, const std::string& platform, CustomCall function) noexcept {
  return ir::guarded([&]() -> Status {
    if (name.empty()) return Status(StatusCode::invalid_argument, "a custom call needs a name");
    if (platform != "cpu" && platform != "cuda") {
      return Status(StatusCode::invalid_argument,
                    "the platform of custom call '" + name + "' must be cpu or cuda, given is '" + platform + "'");
    }
    const Key key{name, platform == "cpu" ? TargetKind::cpu : TargetKind::cuda};
    std::shared_ptr<const CustomCall> held;
    if (function) held = std::make_shared<const CustomCall>(std::move(function));
    const std::lock_guard lock(calls().mutex);
    if (held)
      calls().functions[key] = std::move(held);
    else
      calls().functions.erase(key);
    return {};
  });
}

namespace ir {

std::shared_ptr<const CustomCall> find_call(const std::string& name, TargetKind platform) {
  const std::lock_guard lock(calls().mutex);
  const auto at = calls().functions.find({name, platform});
  return at == calls().functions.end() ? nullptr : at->second;
}

Status reject_call(const std::string& name, TargetKind platform) {
  return Status(StatusCode::unsupported,
                "no function is registered for the custom call '" + name + "' on " + platform_name(platform) +
                    "; register it (register_call, fusec_register_call) before an engine is made");
}

}  // namespace ir
}  // namespace fusec
