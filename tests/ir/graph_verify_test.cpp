// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::ir {
namespace {

Graph valid_graph() {
  auto graph = parse_graph(R"(graph @main(%x: f32[N, 4], %y: f32[4]) {
    %0 = add %x, %y: f32[N, 4]
    %1 = constant f32[4] {1, 2, 3, 4}
    %2 = mul %0, %1: f32[N, 4]
    return %2 as "z", %0 as "s"
  })");
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  return *graph;
}

struct Fault {
  const char* message;  // part of it
  std::function<void(Graph&)> plant;
};

TEST(VerifyGraph, AcceptsAGoodGraph) {
  EXPECT_TRUE(verify(valid_graph(), GraphForm::imported).ok());
  EXPECT_TRUE(verify(valid_graph(), GraphForm::optimized).ok());
  EXPECT_TRUE(verify(Graph(), GraphForm::imported).ok());
}

TEST(VerifyGraph, FindsEveryPlantedFault) {
  const ValueId none{99};
  const Fault faults[] = {
      {"an input is value 99", [&](Graph& g) { g.inputs[0] = none; }},
      {"is listed twice", [](Graph& g) { g.inputs[1] = g.inputs[0]; }},
      {"two inputs are named 'x'", [](Graph& g) { g.values[g.inputs[1]].name = "x"; }},
      {"has a producer", [](Graph& g) { g.inputs.push_back(g.outputs[0]); }},
      {"order[0] is node 99", [](Graph& g) { g.order[0] = NodeId{99}; }},
      {"before its definition", [](Graph& g) { std::swap(g.order[0], g.order[2]); }},
      {"before its definition", [](Graph& g) { g.order.erase(g.order.begin()); }},
      {"its output is defined twice", [](Graph& g) { g.order.push_back(g.order[0]); }},
      {"it reads value 99", [&](Graph& g) { g.nodes[g.order[2]].inputs[1] = none; }},
      {"its output is value 99", [&](Graph& g) { g.nodes[g.order[2]].output = none; }},
      {"names another producer", [](Graph& g) { g.values[g.outputs[0]].producer = g.order[0]; }},
      {"its type is f32[N, 4], not f32[N, 5]", [](Graph& g) { g.values[g.outputs[0]].type.shape[1] = 5; }},
      {"operands must have one type", [](Graph& g) { g.values[g.inputs[1]].type.dtype = DType::f16; }},
      {"expected 2 operands", [](Graph& g) { g.nodes[g.order[0]].inputs.pop_back(); }},
      {"attribute", [](Graph& g) { g.nodes[g.order[0]].attrs.set("axis", int64_t{0}); }},
      {"a constant has no data", [](Graph& g) { g.constants.clear(); }},
      {"add has constant data", [](Graph& g) { g.constants.emplace(g.order[0], *Tensor::make(DType::f32, {})); }},
      {"the data of a constant is f32[5]", [](Graph& g) { g.constants[g.order[1]] = *Tensor::make(DType::f32, {5}); }},
      {"has no memory", [](Graph& g) { g.constants[g.order[1]] = Tensor::borrow(DType::f32, {4}, nullptr); }},
      {"not row-major", [](Graph& g) { g.constants[g.order[1]] = Tensor::borrow(DType::f32, {4}, nullptr, {0}); }},
      {"a constant has operands", [](Graph& g) { g.nodes[g.order[1]].inputs.push_back(g.inputs[0]); }},
      {"2 outputs have 1 names", [](Graph& g) { g.output_names.pop_back(); }},
      {"output 'z' is not defined", [&](Graph& g) { g.outputs[0] = none; }},
      {"two outputs are named 's'", [](Graph& g) { g.output_names[0] = "s"; }},
      {"a symbol is listed twice", [](Graph& g) { g.symbols.push_back("N"); }},
      {"the list of symbols", [](Graph& g) { g.symbols.clear(); }},
  };
  for (const Fault& fault : faults) {
    Graph graph = valid_graph();
    fault.plant(graph);
    const Status status = verify(graph, GraphForm::imported);
    EXPECT_EQ(status.code(), StatusCode::internal) << fault.message;
    EXPECT_NE(status.str().find(fault.message), std::string::npos) << status.str() << "\nexpected: " << fault.message;
  }
}

TEST(VerifyGraph, NamesTheNode) {
  Graph graph = valid_graph();
  graph.nodes[graph.order[2]].origin = "/fc/Mul";
  graph.nodes[graph.order[2]].inputs.pop_back();
  EXPECT_NE(verify(graph, GraphForm::imported).str().find("in node 2 '/fc/Mul'"), std::string::npos);
}

}  // namespace
}  // namespace fusec::ir
