// SPDX-License-Identifier: Apache-2.0
// Turns named constants of a graph into inputs, and such inputs of its Program into constants.

#include "runtime/engine/replaceable.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/support/check.h"

namespace fusec::runtime {
namespace {

bool can_be_replaced(const Tensor& data) {
  return data.rank() > 0 && (is_float(data.dtype()) || data.dtype() == DType::i8 || data.dtype() == DType::u8);
}

// invalid_argument: a name is none of the model's, or that of another kind of constant.
Status check_names(const ir::Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "*") continue;
    const auto named = std::find_if(graph.weight_names.begin(), graph.weight_names.end(),
                                    [&](const auto& weight) { return weight.second == name; });
    if (named == graph.weight_names.end()) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("the model has no constant '{}' that can stay replaceable: no initializer has this "
                                "name, or its contents were used to import the model",
                                name));
    }
    const Tensor& data = graph.constants.at(named->first);
    if (can_be_replaced(data)) continue;
    return Status(StatusCode::invalid_argument,
                  fmt::format("the constant '{}' cannot stay replaceable: it is {} of rank {}, and only floats and "
                              "8-bit integers of rank 1 at least can",
                              name, to_string(data.dtype()), data.rank()));
  }
  return {};
}

}  // namespace

Result<ir::Graph> open_weights(const ir::Graph& graph, const std::vector<std::string>& names,
                               std::vector<Tensor>& contents) {
  FUSEC_TRY(check_names(graph, names));
  const std::set<std::string> wanted(names.begin(), names.end());
  ir::Graph out = graph;
  for (const auto& [id, name] : graph.weight_names) {
    const Tensor& data = graph.constants.at(id);
    if (!can_be_replaced(data) || (!wanted.contains("*") && !wanted.contains(name))) continue;
    const ir::ValueId value = graph.nodes[id].output;
    out.values[value].producer = {};
    out.values[value].name = name;
    out.inputs.push_back(value);
    out.constants.erase(id);
    std::erase(out.order, id);
    contents.push_back(data);
  }
  out.weight_names.clear();
  return out;
}

void close_weights(ir::Program& program, std::vector<Tensor> contents) {
  FUSEC_CHECK(program.inputs.size() >= contents.size()) << "a Program lost inputs";
  const std::size_t first = program.inputs.size() - contents.size();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    ir::Allocation& alloc = program.allocs[program.inputs[first + i]];
    alloc.kind = ir::AllocKind::constant;
    alloc.ordinal = static_cast<uint32_t>(program.constants.size());
    program.constants.push_back(std::move(contents[i]));
  }
  program.inputs.resize(first);
  program.input_types.resize(first);
  program.input_names.resize(first);
}

}  // namespace fusec::runtime
