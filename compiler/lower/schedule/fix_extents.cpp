// SPDX-License-Identifier: Apache-2.0
// Lower for shapes that are known: puts numbers in the place of the model's symbols in a nest that has no schedule yet,
// or in the place of launch arguments in a kernel that has one. The second way keeps the order of every sum, which the
// schedule has chosen for a length that it did not know.

#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

namespace {

using Numbers = std::map<ir::SymbolId, IndexExpr>;

// Conditions that hold for these numbers are idle.
void drop_idle(ir::Guard& guard) {
  std::erase_if(guard, [](const IndexExpr& e) { return e.is_const() && e.value() >= 0; });
}

void put_in(const Numbers& numbers, ir::Kernel& kernel) {
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& e) { e = e.substitute(numbers); });
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) drop_idle(load->guard);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) drop_idle(store->guard);
  });
  for (ir::Buffer& buffer : kernel.buffers) {
    for (IndexExpr& e : buffer.shape) e = e.substitute(numbers);
    for (IndexExpr& e : buffer.strides) e = e.substitute(numbers);
  }
}

Dim fixed(const Dim& dim, const SymbolBindings& values) {
  return dim.substitute([&](const std::string& name) -> std::optional<Dim> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional<Dim>(it->second);
  });
}

// The arguments that code depends on. The number of tasks or blocks alone changes no instruction.
std::set<ir::SymbolId> find_used(const ir::Kernel& kernel) {
  std::set<ir::SymbolId> used;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    const auto* loop = std::get_if<ir::Loop>(&stmt.v);
    if (loop != nullptr && loop->head.tag == ir::LoopTag::grid && loop->head.extent.as_symbol()) return;
    for_each_index(stmt, [&](const IndexExpr& e) { e.collect_symbols(used); });
  });
  return used;
}

}  // namespace

void fix_params(std::vector<ParamSource>& params, const SymbolBindings& values) {
  for (ParamSource& source : params) {
    source.offset = fixed(source.offset, values);
    source.elements = fixed(source.elements, values);
  }
}

void fix_symbols(LoopNest& nest, const SymbolBindings& values) {
  Numbers numbers;
  for (const auto& [name, symbol] : nest.symbols)
    if (const auto it = values.find(name); it != values.end()) numbers[symbol] = it->second;
  put_in(numbers, nest.kernel);
  fix_params(nest.params, values);
  for (Dim& extent : nest.domain.extents) extent = fixed(extent, values);
}

void fix_extents(ir::Kernel& kernel, std::vector<Dim>& launch, const SymbolBindings& values) {
  const std::set<ir::SymbolId> used = find_used(kernel);
  Numbers numbers;
  ir::IdVector<ir::ExtentId, std::string> names;
  std::map<ir::ExtentId, int64_t> facts;
  std::vector<Dim> left;
  for (uint32_t i = 0; i < launch.size(); ++i) {
    const ir::ExtentId id{i};
    const Dim value = fixed(launch[i], values);
    if (value.is_const() && used.contains(id)) {
      numbers[id] = value.value();
      continue;
    }
    const ir::ExtentId moved = names.push_back("n" + std::to_string(names.size()));
    numbers[id] = IndexExpr::symbol(moved);
    if (const auto fact = kernel.divisible.find(id); fact != kernel.divisible.end()) facts[moved] = fact->second;
    left.push_back(value);
  }
  put_in(numbers, kernel);
  kernel.extents = std::move(names);
  kernel.divisible = std::move(facts);
  launch = std::move(left);
}

}  // namespace fusec::compiler
