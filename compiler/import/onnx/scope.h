// SPDX-License-Identifier: Apache-2.0
// What names and domains mean at one place of a model: in the main graph, a subgraph or the body of a function.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/functions.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

// A name is bound to a value, or to nullopt if an unsupported op makes it. Nodes that depend on nullopt are skipped, so
// that one run finds all unsupported ops.
using Binding = std::optional<Val>;

// The meaning of names in the main graph, a subgraph or a function body.
struct Scope {
  const Scope* outer = nullptr;  // set for a subgraph; functions see no outer names
  std::unordered_map<std::string, Binding> values;
  const std::map<std::string, int64_t>* opsets = nullptr;
  const AttributeMap* attributes = nullptr;  // of the call, in a function body
  std::string prefix;                        // prepended to origins

  const Binding* find(const std::string& name) const {
    for (const Scope* s = this; s != nullptr; s = s->outer) {
      if (auto it = s->values.find(name); it != s->values.end()) return &it->second;
    }
    return nullptr;
  }
};

inline std::string normalize_op_domain(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

inline std::map<std::string, int64_t> read_opsets(const auto& imports) {
  std::map<std::string, int64_t> opsets;
  for (const auto& entry : imports) {
    std::string domain = normalize_op_domain(entry.domain());
    if (!opsets.emplace(domain, entry.version()).second)
      fail_invalid("opset_import names '" + short_name(domain) + "' twice");
    if (entry.version() < 1)
      fail_invalid(fmt::format("opset {} of '{}' does not exist", entry.version(), short_name(domain)));
    if (domain != "ai.onnx") continue;
    if (entry.version() < kMinOpset || entry.version() > kMaxOpset) {
      fail_unsupported(fmt::format("opset {}; fusec reads opset {} to {}", entry.version(), kMinOpset, kMaxOpset));
    }
  }
  return opsets;
}

}  // namespace fusec::importer
