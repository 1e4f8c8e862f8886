// SPDX-License-Identifier: Apache-2.0
// Renames symbols of a model whose names kernels use for loops, registers, lanes and arguments.
#pragma once

#include <map>
#include <string>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

namespace fusec::compiler {

// Returns new names for such symbols of the graph; empty if no name clashes.
std::map<std::string, std::string> clashing_symbols(const ir::Graph& graph);

std::map<std::string, std::string> inverse(const std::map<std::string, std::string>& names);

ir::Graph with_symbols(ir::Graph graph, const std::map<std::string, std::string>& names);
Partition with_symbols(Partition partition, const std::map<std::string, std::string>& names);
// Kernels have names of their own and stay as they are.
ir::Program with_symbols(ir::Program program, const std::map<std::string, std::string>& names);

}  // namespace fusec::compiler
