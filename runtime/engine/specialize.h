// SPDX-License-Identifier: Apache-2.0
// Makes a compiled model anew for one set of shapes, from its graph and partition: lower with the values of all
// symbols, select, emit, link.
#pragma once

#include "compiler/partition/partition.h"
#include "compiler/select/select.h"
#include "fusec/options.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "runtime/plan/specializer.h"

namespace fusec::runtime {

// What the stages made of the model, and for what.
struct SpecializeSource {
  ir::Graph graph;  // as optimized
  compiler::Partition partition;
  compiler::TuningData tuning;
  Target target;
  Options options;
};

// `generic` is select's Program of the same source for all shapes.
SpecializeProgram specialize_from(const ir::Program& generic, SpecializeSource source);

}  // namespace fusec::runtime
