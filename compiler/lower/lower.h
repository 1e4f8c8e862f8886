// SPDX-License-Identifier: Apache-2.0
// The lower stage: turns a Partition into a Program, with kernels for generated regions, library steps for anchors, and
// views over allocations.
#pragma once

#include "compiler/partition/partition.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/support/stage_context.h"

namespace fusec::compiler {

Result<ir::Program> lower(const ir::Graph& graph, const Partition& partition, const Target& target,
                          const Options& options, const ir::Deadline& deadline = {});

}  // namespace fusec::compiler
