// SPDX-License-Identifier: Apache-2.0
// Lower for the host: derives the lanes of a loop body from its widest type, and splits a loop into full vectors and a
// guarded rest.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

using ir::Block;
using ir::LoopTag;
using ir::Stmt;

int lanes_for(const ir::Kernel& kernel, const Block& block, const Target& target, int unroll) {
  size_t widest = 1;
  for_each_stmt(block, [&](const Stmt& stmt) {
    for (ir::RegId r : defined(stmt))
      if (kernel.regs[r].dtype != DType::bool_) widest = std::max(widest, size_of(kernel.regs[r].dtype));
  });
  return std::max(1, target.vector_bytes / static_cast<int>(widest)) * unroll;
}

Block vector_loops(ir::Kernel& kernel, const Block& body, VarId var, const IndexExpr& base, const IndexExpr& length,
                   int lanes, bool divisible) {
  Block result;
  const IndexExpr full = floordiv(length, lanes);
  if (!full.is(0)) {
    const VarId v = add_var(kernel);
    Block main = clone(kernel, body);
    vectorize(kernel, main, var, lanes, base + IndexExpr(lanes) * IndexExpr::symbol(v));
    result.push_back({ir::Loop{{LoopTag::seq, v, full}, std::move(main), ir::PhaseBoundary::launches}});
  }
  if (divisible || lanes == 1) return result;
  const IndexExpr done = IndexExpr(lanes) * full;
  Block rest = clone(kernel, body);
  vectorize(kernel, rest, var, lanes, base + done);
  add_guard(kernel, rest, {length - 1 - done - IndexExpr::symbol(ir::kLane)});
  const IndexExpr times = ceildiv(length, lanes) - full;
  if (times.is(1)) {
    for (Stmt& stmt : rest) result.push_back(std::move(stmt));
  } else {
    result.push_back({ir::Loop{{LoopTag::seq, add_var(kernel), times}, std::move(rest), ir::PhaseBoundary::launches}});
  }
  return result;
}

}  // namespace fusec::compiler
