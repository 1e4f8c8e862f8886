// SPDX-License-Identifier: Apache-2.0
// Lower for the host: joins nests and picks the schedule family of each (interleave, pointwise, transpose, scan, column
// chunks, columns, few rows, rows) and cleans up the kernel afterwards. For all families it derives the lanes of a loop
// body from its widest type, and splits a loop into full vectors and a guarded rest.

#include <algorithm>
#include <map>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Bodies of fewer statements process two vectors at a time, and at least two of the type they store. Memory is faster
// by about 5 % when each array is accessed for two cache lines in a row.
constexpr size_t kShortBody = 24;
// The rest of a loop over vectors runs in vectors of fewer lanes where they divide it, from this number on.
constexpr int kFewestRestLanes = 8;
// An op of this cost is a chain of dependent multiplications. Four vectors at a time hide its latency.
constexpr int kLongChain = 9;
// Values that need ops of this cost one after another are in flight eight vectors at a time: the instructions of an
// iteration are more than the core looks ahead, so that it does not begin the next one beside it.
constexpr int kLongestChain = 40;

// The cost of the ops that one value needs one after another, at most.
int chain_cost(const Block& body) {
  std::map<RegId, int> until;
  int longest = 0;
  for_each_stmt(body, [&](const Stmt& stmt) {
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    if (let == nullptr) return;
    int before = 0;
    for (const Operand& arg : let->args)
      if (const auto* r = std::get_if<RegId>(&arg); r != nullptr && until.contains(*r))
        before = std::max(before, until.at(*r));
    longest = std::max(longest, until[let->dst] = before + info(let->op).cost);
  });
  return longest;
}

Block schedule_reductions(const Scheduling& s, PerfectNest nest) {
  if (const auto along = columns_along(nest)) return schedule_columns(s, std::move(nest), *along);
  split_long_rows(s.kernel, nest.body);
  if (auto phases = schedule_few_rows(s, nest)) return std::move(*phases);
  return schedule_rows(s, std::move(nest));
}

}  // namespace

int lanes_in_flight(const Scheduling& s, const Block& body, const IndexExpr& extent) {
  const int vector = lanes_for(s.kernel, body, s.target);
  int64_t narrowest = 8;  // bytes of the narrowest stored element
  int cost = 0;           // of the most expensive op
  for_each_stmt(body, [&](const Stmt& stmt) {
    if (const auto* store = std::get_if<ir::Store>(&stmt.v))
      narrowest = std::min(narrowest, static_cast<int64_t>(size_of(s.kernel.buffers[store->buffer].dtype)));
    if (const auto* let = std::get_if<ir::Let>(&stmt.v)) cost = std::max(cost, info(let->op).cost);
  });
  int wanted = body.size() < kShortBody ? 2 * vector : vector;
  if (body.size() < kShortBody && wanted * narrowest < 2 * s.target.vector_bytes) wanted *= 2;
  if (cost >= kLongChain) wanted = std::max(wanted, 4 * vector);
  if (cost >= kLongChain && chain_cost(body) >= kLongestChain) wanted = std::max(wanted, 8 * vector);
  const int64_t known = known_extent(s, extent, kTaskElements);
  while (wanted > vector && known < 2 * wanted) wanted /= 2;
  return wanted;
}

ScheduleChoice schedule_host(LoopNest& nest, const Target& target, const std::vector<Dim>& launch,
                             const ScheduleChoice& choice) {
  const std::map<ir::SymbolId, int64_t> expected_values = find_expected_values(launch);
  ScheduleChoice made;
  const std::map<ir::SymbolId, int64_t> typical;
  const Scheduling s{nest.kernel, target, expected_values, choice, made, typical, {}, nest.questions};
  Block result;
  Block body = std::move(nest.kernel.body);
  nest.kernel.body.clear();
  std::vector<PerfectNest> nests;
  for (Stmt& stmt : body) {
    PerfectNest loops = peel_loops(std::move(stmt));
    if (nests.empty() || !join_nests(s.kernel, nests.back(), loops)) nests.push_back(std::move(loops));
  }
  for (PerfectNest& loops : nests) {
    Block scheduled;
    if (auto mixed = schedule_interleave(s, loops)) {
      scheduled = std::move(*mixed);
    } else if (!has_reduction(loops.body)) {
      const bool tiles = lanes_for(s.kernel, loops.body, s.target) > 1;
      const auto across = tiles ? strided_across(loops) : std::nullopt;
      scheduled = across ? schedule_transpose(s, std::move(loops), *across) : schedule_pointwise(s, std::move(loops));
    } else if (auto scanned = schedule_scan(s, loops)) {
      scheduled = std::move(*scanned);
    } else if (auto chunks = schedule_column_chunks(s, loops)) {
      scheduled = std::move(*chunks);
    } else {
      scheduled = schedule_reductions(s, std::move(loops));
    }
    for (Stmt& inner : scheduled) result.push_back(std::move(inner));
  }
  nest.kernel.body = std::move(result);
  give_own_vars(nest.kernel);  // parts of one loop have kept its name
  clean_up(nest.kernel);
  return made;
}

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
  if (length.is_const()) {
    // A rest of whole vectors of fewer lanes needs no guard, so that its stores may bypass the caches, too.
    const int64_t rest = length.value() % lanes;
    for (int fewer = lanes / 2; fewer >= kFewestRestLanes; fewer /= 2) {
      if (rest % fewer == 0) {
        append(result, vector_loops(kernel, body, var, base + done, rest, fewer, true));
        return result;
      }
    }
  }
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
