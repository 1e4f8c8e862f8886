// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: picks the schedule family of each loop nest (pointwise, transpose, columns, rows), merges independent
// nests into one launch, and cleans up the kernel. It also records alignments.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

Linear linearize(const std::vector<LoopHead>& heads, const IndexExpr& index) {
  Linear result{1, {}};
  IndexExpr rest = index;
  for (size_t i = heads.size(); i-- > 0;) {
    const bool never = heads[i].extent.is(0);  // the loop runs zero times: nothing may divide by its extent
    result.values[heads[i].var] = i == 0 || never ? rest : mod(rest, heads[i].extent);
    if (i > 0 && !never) rest = floordiv(rest, heads[i].extent);
    result.total *= heads[i].extent;
  }
  return result;
}

Stmt only_if(ir::Kernel& kernel, const IndexExpr& condition, Block body) {
  return {ir::Loop{
      {LoopTag::seq, add_var(kernel), max(0, min(1, condition))}, std::move(body), ir::PhaseBoundary::launches}};
}

IndexExpr whole_tiles_left(const IndexExpr& extent, int64_t tile, const IndexExpr& at) {
  // Numbers are in tiles and symbols in elements, as the verifier can prove them.
  return extent.is_const() ? floordiv(extent, tile) - at : extent - at * tile - (tile - 1);
}

Block whole_or_partial(ir::Kernel& kernel, const std::vector<IndexExpr>& left, Block whole, Block partial) {
  IndexExpr inside = left[0];
  for (const IndexExpr& count : left) {
    Block one;
    one.push_back(only_if(kernel, count, std::move(whole)));
    whole = std::move(one);
    inside = min(inside, count);
  }
  whole.push_back(only_if(kernel, 1 - inside, std::move(partial)));
  return whole;
}

int lanes_of_access(const ir::Kernel& kernel, const Block& block, VarId var) {
  size_t widest = 1;
  const auto note = [&](ir::BufferId b, const std::vector<IndexExpr>& index) {
    const ir::Buffer& buffer = kernel.buffers[b];
    if (buffer.space == ir::Space::reg || index.empty() || !index.back().uses(var)) return;
    widest = std::max(widest, size_of(buffer.dtype));
  };
  for_each_stmt(block, [&](const Stmt& stmt) {
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) note(load->buffer, load->index);
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) note(store->buffer, store->index);
  });
  return kAccessBytes / static_cast<int>(widest);
}

std::optional<int64_t> known_value(const Scheduling& s, const IndexExpr& d) { return d.eval(s.expected_values); }

KnownExtents known_extents(const Scheduling& s) { return {s.expected_values.begin(), s.expected_values.end()}; }

void put_extents(PerfectNest& nest, const KnownExtents& known) {
  const auto put = [&](IndexExpr& e) { e = e.substitute(known); };
  for (LoopHead& head : nest.heads) put(head.extent);
  for_each_stmt(nest.body, [&](Stmt& stmt) { ir::for_each_index(stmt, put); });
}

void put_extents(ir::Kernel& kernel, const KnownExtents& known) {
  for (const BufferId id : kernel.params)
    for (ir::IndexShape* shape : {&kernel.buffers[id].shape, &kernel.buffers[id].strides})
      for (IndexExpr& e : *shape) e = e.substitute(known);
}

Block cuda_elements(const Scheduling& s, PerfectNest nest) {
  if (s.choice.tiles != Decision::no) {
    if (auto planes = cuda_planes(s, nest)) return std::move(*planes);
    if (const auto across = strided_across(nest)) {
      if (auto tiles = cuda_transpose(s, nest, *across)) return std::move(*tiles);
    }
  }
  return cuda_pointwise(s, std::move(nest));
}

Block cuda_nest(const Scheduling& s, PerfectNest nest) {
  if (!has_reduction(nest.body)) return cuda_elements(s, std::move(nest));
  if (auto scan = cuda_scan(s, nest)) return std::move(*scan);
  if (auto attention = cuda_attention(s, nest)) return std::move(*attention);
  if (auto product = cuda_warpgroup_product(s, nest)) return std::move(*product);
  if (auto product = cuda_product(s, nest)) return std::move(*product);
  if (s.multiplies)
    if (auto product = cuda_general_product(s, nest)) return std::move(*product);
  if (const auto along = columns_along(nest)) {
    if (auto columns = cuda_columns(s, nest, *along)) return std::move(*columns);
    if (auto parts = cuda_column_parts(s, nest)) return std::move(*parts);
  } else if (auto rows = cuda_rows(s, nest)) {
    return std::move(*rows);
  }
  sum_in_levels(s.kernel, nest.body);
  return cuda_pointwise(s, std::move(nest));  // a thread for each row
}

namespace {

PerfectNest take_grid(Stmt stmt) {
  PerfectNest nest;
  for (;;) {
    auto& loop = std::get<ir::Loop>(stmt.v);
    nest.heads.push_back(loop.head);
    const bool more = loop.body.size() == 1 && std::holds_alternative<ir::Loop>(loop.body[0].v) &&
                      std::get<ir::Loop>(loop.body[0].v).head.tag == LoopTag::grid;
    if (!more) {
      nest.body = std::move(loop.body);
      return nest;
    }
    Stmt inner = std::move(loop.body[0]);
    stmt = std::move(inner);
  }
}

// Merges nests that only store, each to elements of its own (the parts of a concat), into one launch in which their
// blocks follow each other.
Block side_by_side(const Scheduling& s, Block parts) {
  const VarId g = add_var(s.kernel);
  IndexExpr first = 0;  // first block of the current part
  Block body;
  for (Stmt& stmt : parts) {
    PerfectNest part = take_grid(std::move(stmt));
    const IndexExpr block = IndexExpr::symbol(g) - first;
    const Linear linear = linearize(part.heads, block);
    for (const LoopHead& head : part.heads) substitute(part.body, head.var, linear.values.at(head.var));
    body.push_back(only_if(s.kernel, min(block + 1, linear.total - block), std::move(part.body)));
    first += linear.total;
  }
  Block result;
  result.push_back(rebuild_loops({{LoopTag::grid, g, first}}, std::move(body)));
  return result;
}

bool is_independent(const ir::Kernel& kernel, const Block& nests) {
  bool reduces = false;
  for (const Stmt& stmt : nests)
    reduces |= !std::holds_alternative<ir::Loop>(stmt.v) || has_reduction(std::get<ir::Loop>(stmt.v).body);
  return nests.size() > 1 && !reduces && kernel.may_alias.empty();
}

// Whether both blocks load some same element, in loops of equal variables.
bool share_load(const Block& a, const Block& b) {
  const auto loads = [](const Block& block, const auto& test) {
    return std::any_of(block.begin(), block.end(), [&](const Stmt& stmt) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      return load != nullptr && test(*load);
    });
  };
  return loads(a, [&](const ir::Load& x) {
    return loads(b, [&](const ir::Load& y) { return x.buffer == y.buffer && x.index == y.index; });
  });
}

bool is_flat(const PerfectNest& nest) {
  return std::all_of(nest.body.begin(), nest.body.end(), [](const Stmt& stmt) { return nested_blocks(stmt).empty(); });
}

// Appends the work of `nest` to an earlier nest over the same loops that loads the same elements, so that these are
// read once: the two halves of a rotation. False if there is none.
bool join(std::vector<PerfectNest>& nests, const PerfectNest& nest) {
  for (PerfectNest& earlier : nests) {
    const bool same = std::equal(earlier.heads.begin(), earlier.heads.end(), nest.heads.begin(), nest.heads.end(),
                                 [](const LoopHead& a, const LoopHead& b) { return a.extent == b.extent; });
    if (!same || !is_flat(earlier) || !is_flat(nest)) continue;
    Block body = nest.body;
    for (size_t i = 0; i < nest.heads.size(); ++i)
      substitute(body, nest.heads[i].var, IndexExpr::symbol(earlier.heads[i].var));
    if (!share_load(earlier.body, body)) continue;
    append(earlier.body, std::move(body));
    return true;
  }
  return false;
}

// Joins independent nests that read the same elements.
Block join_nests(Block parts) {
  std::vector<PerfectNest> nests;
  for (Stmt& stmt : parts) {
    PerfectNest nest = peel_loops(std::move(stmt));
    if (!join(nests, nest)) nests.push_back(std::move(nest));
  }
  Block result;
  for (PerfectNest& nest : nests) result.push_back(rebuild_loops(nest.heads, std::move(nest.body)));
  return result;
}

// Records the alignment of every parameter. The arena, constants and the caller's memory are aligned, while views may
// begin anywhere.
void align_params(LoopNest& nest) {
  for (size_t i = 0; i < nest.params.size(); ++i) {
    ir::Buffer& buffer = nest.kernel.buffers[nest.kernel.params[i]];
    const auto element = static_cast<int64_t>(size_of(buffer.dtype));
    int64_t bytes = kAccessBytes;
    while (bytes > element && known_divisor(nest, nest.params[i].offset) * element % bytes != 0) bytes /= 2;
    if (bytes > element) buffer.alignment = static_cast<int>(bytes);
  }
}

}  // namespace

ScheduleChoice schedule_cuda(LoopNest& nest, const Target& target, const std::vector<Dim>& launch,
                             const ScheduleChoice& choice) {
  const std::map<ir::SymbolId, int64_t> expected_values = find_expected_values(launch);
  const std::map<ir::SymbolId, int64_t> typical = find_typical_values(launch, nest.typical);
  ScheduleChoice made;
  nest.questions.clear();
  align_params(nest);
  Block result;
  Block body = std::move(nest.kernel.body);
  nest.kernel.body.clear();
  narrow_places(nest.kernel, body);
  const bool independent = is_independent(nest.kernel, body);
  if (independent) body = join_nests(std::move(body));
  const Scheduling s{nest.kernel,
                     target,
                     expected_values,
                     choice,
                     made,
                     typical,
                     nest.has_many,
                     nest.questions,
                     independent && body.size() > 1,
                     nest.multiplies,
                     nest.splits_sums};
  for (Stmt& stmt : body) {
    for (Stmt& inner : cuda_nest(s, peel_loops(std::move(stmt)))) result.push_back(std::move(inner));
  }
  if (independent && result.size() > 1) result = side_by_side(s, std::move(result));
  nest.kernel.body = std::move(result);
  give_own_vars(nest.kernel);
  clean_up(nest.kernel);
  return made;
}

}  // namespace fusec::compiler
