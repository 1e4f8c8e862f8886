// SPDX-License-Identifier: Apache-2.0
// Renames the symbols of graphs, partitions and programs, so that partition and lower never see a symbol that has the
// name of a loop, register, lane or argument of a kernel.

#include "compiler/partition/symbols.h"

#include <cctype>
#include <set>

#include "ir/kernel/kernel.h"

namespace fusec::compiler {
namespace {

using Names = std::map<std::string, std::string>;

// Kernels name loops d0, i0 and d0p1, registers v0, and arguments n0.
bool is_kernel_name(const std::string& s) {
  static const std::string kLetters = "dinv";
  return s == ir::kLane ||
         (s.size() > 1 && kLetters.find(s[0]) != std::string::npos && std::isdigit(static_cast<unsigned char>(s[1])));
}

void rename(Dim& d, const Names& names) {
  d = d.substitute([&](const std::string& s) -> std::optional<Dim> {
    const auto it = names.find(s);
    return it == names.end() ? std::nullopt : std::optional(Dim::symbol(it->second));
  });
}

void rename(Shape& shape, const Names& names) {
  for (Dim& d : shape) rename(d, names);
}

void rename(std::vector<std::string>& symbols, const Names& names) {
  for (std::string& s : symbols)
    if (const auto it = names.find(s); it != names.end()) s = it->second;
}

void rename(ir::Attrs& attrs, const Names& names) {
  const ir::Attrs old = attrs;
  for (const auto& [name, value] : old.items()) {
    if (!std::holds_alternative<Shape>(value)) continue;
    Shape shape = std::get<Shape>(value);
    rename(shape, names);
    attrs.set(name, shape);
  }
}

void rename(ir::View& view, const Names& names) {
  rename(view.offset, names);
  rename(view.shape, names);
  rename(view.strides, names);
}

void rename(ir::Step& step, const Names& names) {
  if (auto* launch = std::get_if<ir::KernelStep>(&step.v)) {
    for (ir::View& view : launch->args) rename(view, names);
    rename(launch->extents, names);
    return;
  }
  auto& call = std::get<ir::LibraryStep>(step.v);
  for (ir::View& view : call.args) rename(view, names);
  rename(call.attrs, names);
}

}  // namespace

Names clashing_symbols(const ir::Graph& graph) {
  const std::set<std::string> taken(graph.symbols.begin(), graph.symbols.end());
  Names names;
  for (const std::string& s : graph.symbols) {
    if (!is_kernel_name(s)) continue;
    std::string fresh = "symbol_" + s;
    while (taken.contains(fresh)) fresh += '_';
    names[s] = fresh;
  }
  return names;
}

Names inverse(const Names& names) {
  Names back;
  for (const auto& [from, to] : names) back[to] = from;
  return back;
}

ir::Graph with_symbols(ir::Graph graph, const Names& names) {
  for (ir::Value& value : graph.values) rename(value.type.shape, names);
  for (ir::Node& node : graph.nodes) rename(node.attrs, names);
  rename(graph.symbols, names);
  return graph;
}

Partition with_symbols(Partition partition, const Names& names) {
  for (auto& [value, storage] : partition.storage) {
    rename(storage.offset, names);
    rename(storage.strides, names);
  }
  return partition;
}

ir::Program with_symbols(ir::Program program, const Names& names) {
  for (ir::Allocation& alloc : program.allocs) rename(alloc.elements, names);
  for (ir::Slot& slot : program.slots)
    for (ir::Variant& variant : slot.variants) {
      for (Dim& d : variant.when) rename(d, names);
      for (ir::Candidate& candidate : variant.candidates)
        for (ir::Step& step : candidate.steps) rename(step, names);
    }
  for (ir::Type& type : program.input_types) rename(type.shape, names);
  for (ir::Type& type : program.output_types) rename(type.shape, names);
  rename(program.symbols, names);
  return program;
}

}  // namespace fusec::compiler
