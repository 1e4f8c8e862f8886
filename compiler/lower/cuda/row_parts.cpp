// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: takes nests with reductions apart and keeps what rows compute in scratch memory.

#include "compiler/lower/cuda/row_parts.h"

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

void note_reads(const Stmt& stmt, std::set<RegId>& reads) {
  for_each_operand(stmt, [&](const ir::Operand& o) {
    if (const auto* r = std::get_if<RegId>(&o)) reads.insert(*r);
  });
  for_each_index(stmt, [&](const IndexExpr& d) {
    std::set<ir::SymbolId> symbols;
    d.collect_symbols(symbols);
    for (const ir::SymbolId s : symbols)
      if (const auto reg = s.reg()) reads.insert(*reg);
  });
  for (const Block* inner : nested_blocks(stmt)) reads.merge(find_reads(*inner));
}

std::set<RegId> find_reads(const Stmt& stmt) {
  std::set<RegId> reads;
  note_reads(stmt, reads);
  return reads;
}

bool meet(const std::set<RegId>& a, const std::set<RegId>& b) {
  return std::any_of(a.begin(), a.end(), [&](RegId r) { return b.contains(r); });
}

// What a part may compute once per row.
bool is_simple(const Stmt& stmt) {
  if (std::holds_alternative<ir::IndexValue>(stmt.v)) return find_reads(stmt).empty();
  return std::holds_alternative<ir::Let>(stmt.v) || std::holds_alternative<ir::Load>(stmt.v) ||
         std::holds_alternative<ir::Store>(stmt.v);
}

class PartList {
 public:
  explicit PartList(bool together) : together_(together) {}

  bool add(const Stmt& stmt) {
    if (std::holds_alternative<ir::Reduce>(stmt.v)) return add_reduction(stmt);
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) {
      if (has_reduction(loop->body)) return false;
      close();
      parts_.push_back({{}, {}, {}, stmt});
      return true;
    }
    if (!is_simple(stmt)) return false;
    const bool late = meet(find_reads(stmt), results_) || std::holds_alternative<ir::Store>(stmt.v);
    if (late)
      for (const RegId r : defined(stmt)) results_.insert(r);
    (late ? open_.after : open_.before).push_back(stmt);
    return true;
  }

  std::vector<RowPart> finish() {
    close();
    return std::move(parts_);
  }

 private:
  bool add_reduction(const Stmt& stmt) {
    const auto& reduce = std::get<ir::Reduce>(stmt.v);
    if (reduce.loops.empty() || has_reduction(reduce.body)) return false;
    const bool joins =
        open_.reductions.empty() || (together_ && !meet(find_reads(stmt), results_) && open_.after.empty());
    if (!joins) close();
    for (const RegId r : reduce.dst) results_.insert(r);
    open_.reductions.push_back(stmt);
    return true;
  }

  void close() {
    results_.clear();
    if (open_.before.empty() && open_.reductions.empty() && open_.after.empty()) return;
    parts_.push_back(std::move(open_));
    open_ = {};
  }

  bool together_;
  std::vector<RowPart> parts_;
  RowPart open_;
  std::set<RegId> results_;  // of the open part's reductions, and what follows from them
};

}  // namespace

std::set<RegId> find_reads(const Block& block) {
  std::set<RegId> reads;
  for (const Stmt& stmt : block) note_reads(stmt, reads);
  return reads;
}

bool has_store(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Stmt& s) { return std::holds_alternative<ir::Store>(s.v); });
}

void drop_unread(Block& block, std::set<RegId> reads) {
  Block kept;
  for (size_t i = block.size(); i-- > 0;) {
    const std::vector<RegId> made = defined(block[i]);
    const bool needed =
        made.empty() || std::any_of(made.begin(), made.end(), [&](RegId r) { return reads.contains(r); });
    if (!needed) continue;
    note_reads(block[i], reads);
    kept.push_back(std::move(block[i]));
  }
  std::reverse(kept.begin(), kept.end());
  block = std::move(kept);
}

std::optional<std::vector<RowPart>> take_apart(const Block& body, bool together) {
  PartList parts(together);
  for (const Stmt& stmt : body)
    if (!parts.add(stmt)) return std::nullopt;
  return parts.finish();
}

RowMemory::RowMemory(ir::Kernel& kernel, const std::vector<LoopHead>& heads) : kernel_(kernel) {
  for (const LoopHead& head : heads) {
    row_ = row_ * head.extent + IndexExpr::symbol(head.var);
    rows_ *= head.extent;
  }
}

BufferId RowMemory::allocate(const std::string& name, DType dtype, const ir::IndexShape& shape) {
  const BufferId id =
      add_buffer(kernel_, {name + std::to_string(kernel_.buffers.size()), ir::Space::scratch, dtype, shape, {}, 0, ""});
  allocations_.push_back({ir::Alloc{id}});
  return id;
}

Block RowMemory::keep(Block& block, const std::set<RegId>& needed) {
  Block stores, made;
  for (const Stmt& stmt : block) {
    for (const RegId r : defined(stmt)) {
      if (!needed.contains(r)) continue;
      if (std::holds_alternative<ir::IndexValue>(stmt.v)) {
        made.push_back(stmt);
        continue;
      }
      const DType dtype = kernel_.regs[r].dtype;
      const BufferId buffer = allocate("row", dtype, {rows_});
      stores.push_back({ir::Store{buffer, {row_}, r, {}, ir::StoreHint::none}});
      made.push_back({ir::Load{r, buffer, {row_}, {}, ir::Constant{dtype}, 0}});
    }
  }
  append(block, std::move(stores));
  return made;
}

Block RowMemory::take_allocations() { return std::move(allocations_); }

std::set<RegId> find_reads_from(const std::vector<RowPart>& parts, size_t first) {
  std::set<RegId> reads;
  for (size_t i = first; i < parts.size(); ++i) {
    for (const Block* block : {&parts[i].before, &parts[i].reductions, &parts[i].after})
      reads.merge(find_reads(*block));
    if (parts[i].loop) note_reads(*parts[i].loop, reads);
  }
  return reads;
}

void hoist_from_loop(RowPart& part, Block& known) {
  PerfectNest nest = peel_loops(std::move(*part.loop));
  std::set<RegId> made;
  for (const Stmt& stmt : known)
    for (const RegId r : defined(stmt)) made.insert(r);
  Block kept;
  for (Stmt& stmt : nest.body) {
    const std::set<RegId> reads = find_reads(stmt);
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    const bool of_row = let != nullptr && std::includes(made.begin(), made.end(), reads.begin(), reads.end());
    if (of_row) made.insert(let->dst);
    (of_row ? known : kept).push_back(std::move(stmt));
  }
  drop_unread(known, find_reads(kept));
  part.loop = rebuild_loops(nest.heads, std::move(kept));
}

namespace {

// As many elements keep the blocks of one row busy.
constexpr int64_t kManyElements = 4096;

// Takes the outermost loops off that leave two loops over many elements: positions among more loops are costly, and
// the verifier does not follow them.
std::vector<LoopHead> take_outer(const Scheduling& s, PerfectNest& nest) {
  std::vector<LoopHead> outer;
  while (nest.heads.size() > 2) {
    IndexExpr elements = 1;
    for (size_t i = 1; i < nest.heads.size(); ++i) elements *= nest.heads[i].extent;
    if (known_value(s, elements).value_or(kManyElements) < kManyElements) break;
    outer.push_back({LoopTag::grid, nest.heads[0].var, nest.heads[0].extent});
    nest.heads.erase(nest.heads.begin());
  }
  return outer;
}

}  // namespace

Block schedule_loop(const Scheduling& s, const std::vector<LoopHead>& heads, const RowPart& part, const Block& known,
                    bool rows_apart) {
  PerfectNest loop = peel_loops(*part.loop);
  Block body = known;
  append(body, std::move(loop.body));
  PerfectNest nest{{}, clone(s.kernel, body)};
  std::vector<LoopHead> outer;
  for (const LoopHead& head : heads)
    if (rows_apart) outer.push_back({LoopTag::grid, head.var, head.extent});
  if (!rows_apart) loop.heads.insert(loop.heads.begin(), heads.begin(), heads.end());
  for (const LoopHead& head : loop.heads) {
    if (head.extent.is(1)) {
      substitute(nest.body, head.var, 0);
    } else {
      nest.heads.push_back({LoopTag::seq, head.var, head.extent});
    }
  }
  if (nest.heads.empty()) nest.heads.push_back({LoopTag::seq, add_var(s.kernel), 1});
  order_by_memory(nest, s.kernel);
  if (!rows_apart && !strided_across(nest)) outer = take_outer(s, nest);
  Block result = cuda_elements(s, std::move(nest));
  if (outer.empty()) return result;
  Block wrapped;
  wrapped.push_back(rebuild_loops(outer, std::move(result)));
  return wrapped;
}

}  // namespace fusec::compiler
