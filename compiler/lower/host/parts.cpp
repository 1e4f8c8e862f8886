// SPDX-License-Identifier: Apache-2.0
// Lower for the host: cuts long rows into parts. A reduction of a long row is the reduction of the results of its
// parts, whoever computes them; where there are fewer rows than threads need, the parts become tasks of phases that
// exchange their results through scratch memory. Parts depend on the extents of the row alone, so that neither the
// number of rows nor that of threads affects a result.

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Rows of at least this many elements have parts: reducing one takes several times as long as starting threads.
constexpr int64_t kLongRow = 8 * kRowChunk;
// Enough parts to share them evenly among the threads of a large machine, and few enough to combine them in no time.
constexpr int64_t kMaxParts = 128;
constexpr int64_t kMinPart = 2 * kRowChunk;  // elements

// The elements of the loops, if that is a constant.
std::optional<int64_t> count_elements(const std::vector<LoopHead>& loops) {
  int64_t n = 1;
  for (const LoopHead& head : loops) {
    if (!head.extent.is_const()) return std::nullopt;
    n *= head.extent.value();
  }
  return n;
}

bool is_long(const std::vector<LoopHead>& loops) { return count_elements(loops).value_or(0) >= kLongRow; }

// The loops of a row as loops over its parts and loops inside a part. The variable `cut` stands for `value` in them.
struct Parts {
  std::vector<LoopHead> over, inside;
  VarId cut;
  IndexExpr value;
  IndexExpr position = 0;  // of a part
  int64_t count = 1;
};

// `size` iterations of a loop from `done` on, or as many as are left of `extent`.
IndexExpr length_of(int64_t size, int64_t extent, const IndexExpr& done) {
  return extent % size == 0 ? IndexExpr(size) : min(size, IndexExpr(extent) - done);
}

// Cuts `loop` into `count` parts of `size` units; the last part may have fewer.
void cut(ir::Kernel& kernel, Parts& parts, const LoopHead& loop, int64_t unit, int64_t size) {
  const int64_t extent = loop.extent.value(), units = (extent + unit - 1) / unit, count = (units + size - 1) / size;
  const VarId p = add_var(kernel), k = add_var(kernel);
  const IndexExpr first = IndexExpr(size) * IndexExpr::symbol(p), at = first + IndexExpr::symbol(k);
  parts.cut = loop.var;
  parts.over.push_back({LoopTag::seq, p, count});
  parts.inside.push_back({LoopTag::seq, k, length_of(size, units, first)});
  parts.value = at;
  if (unit > 1) {
    const VarId e = add_var(kernel);
    parts.inside.push_back({LoopTag::seq, e, length_of(unit, extent, IndexExpr(unit) * at)});
    parts.value = IndexExpr(unit) * at + IndexExpr::symbol(e);
  }
  parts.position = parts.position * count + IndexExpr::symbol(p);
  parts.count *= count;
}

// Outer loops are loops over parts as long as that leaves parts of enough elements; the next loop is cut.
Parts split_row(ir::Kernel& kernel, const std::vector<LoopHead>& loops) {
  Parts parts;
  int64_t rest = *count_elements(loops);
  for (size_t i = 0; i < loops.size(); ++i) {
    const int64_t extent = loops[i].extent.value();
    rest /= extent;
    if (rest >= kMinPart && parts.count * extent <= kMaxParts) {
      parts.over.push_back({LoopTag::seq, loops[i].var, extent});
      parts.position = parts.position * extent + IndexExpr::symbol(loops[i].var);
      parts.count *= extent;
      continue;
    }
    const int64_t unit = i + 1 == loops.size() ? kRowChunk : 1, units = (extent + unit - 1) / unit;
    const int64_t wanted = std::max<int64_t>(1, kMaxParts / parts.count);
    cut(kernel, parts, loops[i], unit, std::max((units + wanted - 1) / wanted, kMinPart / (unit * rest)));
    parts.inside.insert(parts.inside.end(), loops.begin() + static_cast<std::ptrdiff_t>(i) + 1, loops.end());
    break;
  }
  return parts;
}

// reduce of the row -> for each part: a reduce of the part, stored; then the reduce of what was stored.
void split_reduce(ir::Kernel& kernel, ir::Reduce reduce, Block& out) {
  const Parts parts = split_row(kernel, reduce.loops);
  const VarId q = add_var(kernel);
  ir::Reduce total{reduce.dst, reduce.combiner, {}, {{LoopTag::seq, q, parts.count}}, {}, {}, {}};
  Block stores;
  for (RegId& dst : reduce.dst) {
    const DType dtype = kernel.regs[dst].dtype;
    const std::string name = "parts" + std::to_string(kernel.buffers.size());
    const BufferId buffer = add_buffer(kernel, {name, ir::Space::reg, dtype, {parts.count}, {}, 0, ""});
    out.push_back({ir::Alloc{buffer}});
    dst = add_reg(kernel, dtype);
    stores.push_back({ir::Store{buffer, {parts.position}, dst, {}, ir::StoreHint::none}});
    total.yield.push_back(add_reg(kernel, dtype));
    total.body.push_back(
        {ir::Load{std::get<RegId>(total.yield.back()), buffer, {IndexExpr::symbol(q)}, {}, ir::Constant{dtype}, 0}});
  }
  reduce.loops = parts.inside;
  Block body;
  body.push_back({std::move(reduce)});
  append(body, std::move(stores));
  substitute(body, parts.cut, parts.value);
  out.push_back(rebuild_loops(parts.over, std::move(body)));
  out.push_back({std::move(total)});
}

bool is_parts_loop(const Stmt& stmt) {
  const auto* loop = std::get_if<ir::Loop>(&stmt.v);
  return loop != nullptr && has_reduction(loop->body);
}

// One nest for each loop of a row. What the row computes between its loops is computed anew by every task that needs
// it: that is at most the combination of the results of a row's parts.
class Phases {
 public:
  Phases(const Scheduling& s, PerfectNest& nest) : s_(s), nest_(nest) {}

  bool suits() const {
    int reductions = 0, loops = 0;
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Scan>(stmt.v)) return false;
      if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v))
        if (count_elements(reduce->loops).value_or(kLongRow) > kMaxParts) return false;
      loops += std::holds_alternative<ir::Loop>(stmt.v);
      reductions += is_parts_loop(stmt);
    }
    return reductions > 0 && keeps_parts_alone() && few_rows(s_, nest_.heads, loops == 1);
  }

  Block run() {
    for (Stmt& stmt : nest_.body) {
      if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) {
        share(alloc->buffer);
      } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
        phase(std::move(stmt));
      } else if (std::holds_alternative<ir::Store>(stmt.v)) {
        stores_.push_back(std::move(stmt));
      } else {
        between_.push_back(std::move(stmt));
      }
    }
    if (!stores_.empty()) add(nest_.heads, std::move(stores_));
    return std::move(result_);
  }

 private:
  // Whether rows keep nothing but the results of their parts.
  bool keeps_parts_alone() const {
    for (const Stmt& stmt : nest_.body)
      if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v))
        if (!s_.kernel.buffers[alloc->buffer].shape[0].is_const() ||
            s_.kernel.buffers[alloc->buffer].shape[0].value() > kMaxParts)
          return false;
    return true;
  }

  // Makes a buffer of one row a buffer of all rows that lies in scratch memory.
  void share(BufferId id) {
    ir::Buffer& buffer = s_.kernel.buffers[id];
    buffer.space = ir::Space::scratch;
    ir::IndexShape shape;
    for (const LoopHead& head : nest_.heads) shape.push_back(head.extent);
    buffer.shape.insert(buffer.shape.begin(), shape.begin(), shape.end());
    shared_.insert(id);
    result_.push_back({ir::Alloc{id}});
  }

  void index_by_row(Block& block) const {
    std::vector<IndexExpr> rows;
    for (const LoopHead& head : nest_.heads) rows.push_back(IndexExpr::symbol(head.var));
    for_each_stmt(block, [&](Stmt& stmt) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      auto* store = std::get_if<ir::Store>(&stmt.v);
      if (load != nullptr && shared_.contains(load->buffer))
        load->index.insert(load->index.begin(), rows.begin(), rows.end());
      if (store != nullptr && shared_.contains(store->buffer))
        store->index.insert(store->index.begin(), rows.begin(), rows.end());
    });
  }

  void phase(Stmt stmt) {
    std::vector<LoopHead> heads = nest_.heads;
    PerfectNest loops = peel_loops(std::move(stmt));
    if (has_reduction(loops.body)) {
      heads.insert(heads.end(), loops.heads.begin(), loops.heads.end());
      return add(heads, std::move(loops.body));
    }
    const Parts parts = split_row(s_.kernel, loops.heads);
    substitute(loops.body, parts.cut, parts.value);
    heads.insert(heads.end(), parts.over.begin(), parts.over.end());
    Block body;
    body.push_back(rebuild_loops(parts.inside, std::move(loops.body)));
    add(heads, std::move(body));
  }

  void add(const std::vector<LoopHead>& heads, Block body) {
    Block whole = between_;
    append(whole, std::move(body));
    whole = clone(s_.kernel, whole);
    index_by_row(whole);
    append(result_, schedule_rows(s_, {heads, std::move(whole)}));
  }

  const Scheduling& s_;
  PerfectNest& nest_;
  std::set<BufferId> shared_;
  Block between_, stores_, result_;
};

// Whether threads that take whole rows would idle for more than a fifth of the time.
bool few(const Target& target, int64_t rows) {
  const int64_t rounds = (rows + target.threads - 1) / target.threads;
  return 5 * rounds * target.threads > 6 * rows;
}

}  // namespace

// A number of rows that is not known yet may be small; where each row is read but once, parts cost nothing.
bool few_rows(const Scheduling& s, const std::vector<LoopHead>& heads, bool once) {
  IndexExpr rows(1);
  for (const LoopHead& head : heads) rows *= head.extent;
  const std::optional<int64_t> known = rows.eval(s.expected_values);
  const bool wanted = known ? few(s.target, *known) : once && s.target.threads > 1;
  return s.target.threads > 1 ? decide(s, &ScheduleChoice::slices, wanted) : wanted;
}

bool recomputes_rows(const Target& target, const Domain& domain) {
  int64_t rows = 1, length = 1;
  for (size_t i = 0; i < domain.extents.size(); ++i) {
    if (!domain.extents[i].is_const()) return false;
    (domain.reduced[i] ? length : rows) *= domain.extents[i].value();
  }
  return length >= kLongRow && few(target, rows);
}

void split_long_rows(ir::Kernel& kernel, Block& body) {
  Block result;
  for (Stmt& stmt : body) {
    auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce != nullptr && is_long(reduce->loops)) {
      split_reduce(kernel, std::move(*reduce), result);
    } else {
      result.push_back(std::move(stmt));
    }
  }
  body = std::move(result);
}

std::optional<Block> schedule_few_rows(const Scheduling& s, PerfectNest& nest) {
  Phases phases(s, nest);
  return phases.suits() ? std::optional(phases.run()) : std::nullopt;
}

}  // namespace fusec::compiler
