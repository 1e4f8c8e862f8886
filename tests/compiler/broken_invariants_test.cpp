// SPDX-License-Identifier: Apache-2.0
// What stages say of a mistake in the stage before, which no model reaches.
#include <gtest/gtest.h>

#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "fusec/target.h"
#include "ir/program/program.h"

namespace fusec::compiler {
namespace {

std::string selected(ir::Slot slot) {
  ir::Program program;
  program.slots.push_back(std::move(slot));
  return select(program, named_target("x86-64-v3").value()).str();
}

TEST(BrokenInvariants, SlotsThatCannotRun) {
  ir::Variant never;
  never.when = {Dim::symbol("N")};
  EXPECT_EQ(selected({}), "internal: a slot whose variants do not cover every shape");
  EXPECT_EQ(selected({{never}}), "internal: a slot whose variants do not cover every shape");
  EXPECT_EQ(selected({{ir::Variant()}}), "internal: a variant without a candidate");
}

TEST(BrokenInvariants, APassThatMakesACycle) {
  ir::Graph graph;
  const ir::ValueId x = ir::add_input(graph, "x", {DType::f32, {4}});
  const ir::ValueId y = ir::add_node(graph, ir::ScalarOp::neg, {x});
  ir::add_output(graph, ir::add_node(graph, ir::ScalarOp::exp, {y}), "z");
  const Pass ties = {"ties", [](ir::Graph& g, const PassContext&) -> Result<bool> {
                       g.nodes[g.order.front()].inputs[0] = g.nodes[g.order.back()].output;
                       return true;
                     }};
  const Target target = named_target("x86-64-v3").value();
  EXPECT_EQ(run_pass(ties, graph, {target, Options()}).status().str(), "internal: pass ties made a cycle");
}

}  // namespace
}  // namespace fusec::compiler
