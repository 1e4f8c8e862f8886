// SPDX-License-Identifier: Apache-2.0
// Builds models of long chains of ops of one class: simple, transcendental, division, conversion.

#include "runtime/tool/measure/op_chains.h"

#include "fusec/graph_builder.h"
#include "ir/ops/op.h"

namespace fusec::tool {
namespace {

struct Chain {
  GraphBuilder b;
  Var x, z;
  double cost = 0, other = 0;
  explicit Chain(int64_t elements) : x(b.input("x", DType::f32, {elements})), z(b.input("z", DType::f32, {elements})) {}

  // x = op(x), or op(x, z)
  void step(const char* name, double& sum) {
    const ir::ScalarOpInfo& row = ir::info(*ir::find_scalar_op(name));
    x = row.arity == 1 ? b.apply(name, {x}) : b.apply(name, {x, z});
    sum += row.cost;
  }
  void round_to(DType dtype) {
    x = b.cast(b.cast(x, dtype), DType::f32);
    cost += 2 * ir::info(ir::ScalarOp::cast).cost;
  }
  Result<OpChain> finish(Figure MachineModel::*figure) {
    b.output("y", x);
    FUSEC_ASSIGN(Model model, b.finish());
    return OpChain{figure, std::move(model), cost, other};
  }
};

// No two neighbours may be computed at compile time or cancel each other.
Result<OpChain> simple_chain(int64_t elements, int rounds) {
  Chain chain(elements);
  for (int i = 0; i < 2 * rounds; ++i)
    for (const char* op : {"sub", "abs", "mul"}) chain.step(op, chain.cost);
  return chain.finish(&MachineModel::simple_ops);
}

Result<OpChain> function_chain(int64_t elements, int rounds) {
  Chain chain(elements);
  for (int i = 0; i < rounds; ++i) {
    for (const char* op : {"exp", "tanh", "sigmoid", "erf"}) {
      chain.step(op, chain.cost);
      chain.step("mul", chain.other);
    }
  }
  return chain.finish(&MachineModel::transcendental_ops);
}

Result<OpChain> division_chain(int64_t elements, int rounds) {
  Chain chain(elements);
  for (int i = 0; i < rounds; ++i) {
    chain.step("div", chain.cost);
    chain.step("add", chain.other);
    chain.step("abs", chain.other);
    chain.step("sqrt", chain.cost);
  }
  return chain.finish(&MachineModel::division_ops);
}

Result<OpChain> conversion_chain(int64_t elements, int rounds) {
  Chain chain(elements);
  for (int i = 0; i < rounds; ++i) {
    chain.step("add", chain.other);
    chain.round_to(DType::f16);
  }
  return chain.finish(&MachineModel::conversion_ops);
}

}  // namespace

Result<std::vector<OpChain>> op_chains(int64_t elements, int rounds) {
  std::vector<OpChain> out;
  for (const auto make : {simple_chain, function_chain, division_chain, conversion_chain}) {
    FUSEC_ASSIGN(OpChain chain, make(elements, rounds));
    out.push_back(std::move(chain));
  }
  return out;
}

Result<Model> empty_chain(int64_t elements) {
  Chain chain(elements);
  double cost = 0;
  chain.step("add", cost);
  chain.b.output("y", chain.x);
  return chain.b.finish();
}

}  // namespace fusec::tool
