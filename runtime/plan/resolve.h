// SPDX-License-Identifier: Apache-2.0
// resolve: the steps that a Program executes for one set of symbol values, with every Dim evaluated.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/program/program.h"

namespace fusec::runtime {

using Bindings = std::map<std::string, int64_t>;

struct ResolvedView {
  ir::AllocId alloc;
  DType dtype = DType::f32;
  int64_t offset = 0;                   // bytes from the start of the allocation
  std::vector<int64_t> shape, strides;  // elements
  bool operator==(const ResolvedView&) const = default;
  bool empty() const;
};

struct ResolvedStep {
  const ir::Step* step = nullptr;
  std::vector<ResolvedView> args;
  std::vector<int64_t> extents;  // of a kernel step
};

struct ResolvedProgram {
  std::vector<ResolvedStep> steps;   // without steps that have nothing to write
  std::vector<int64_t> alloc_bytes;  // by AllocId
  std::size_t once = 0;              // of the first steps: those that run once per plan
  std::vector<bool> kept;            // by AllocId: temporaries that these write and later steps read
};

// The value of a Dim of the Program under `bindings` (FUSEC_CHECK that there is one).
int64_t evaluate(const Dim& dim, const Bindings& bindings);
std::vector<int64_t> evaluate(const Shape& shape, const Bindings& bindings);

// Whether the step writes its argument (outputs and scratch), by the Program alone.
bool writes(const ir::Program& program, const ir::Step& step, std::size_t arg);

// The first variant of the slot whose `when` holds. A Dim that passes 63 bits does not hold.
const ir::Variant& variant_for(const ir::Slot& slot, const Bindings& bindings);

// Whether Engine::set_weight may replace constants of the Program: those that have a name.
bool has_weights(const ir::Program& program);

// Moves the steps that depend on no input, but on constants and the values of symbols alone, before all others,
// and sets once and kept. The values that stay in memory for this take `most_kept` bytes at most.
void put_once_steps_first(const ir::Program& program, ResolvedProgram& resolved, int64_t most_kept);

// Takes variant_for each slot and its picked candidate, and puts the steps that run once first. Views are checked to
// lie inside their allocations. out_of_memory when a size passes 63 bits.
Result<ResolvedProgram> resolve(const ir::Program& program, const Bindings& bindings);

}  // namespace fusec::runtime
