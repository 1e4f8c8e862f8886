// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules scans down columns that lie side by side in memory. A thread adds up a column in order,
// part by part, and each element is the sum of the parts before its own plus that within the part. The parts depend on
// the column's length alone. Where columns are many, a thread takes all parts of one; where they are few, a grid phase
// keeps the sum of each part in scratch memory, and the next one scans again, from the sum of the parts before.

#include <algorithm>
#include <utility>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/scan_statements.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kColumnPart = 64;      // elements of a part, at least
constexpr int64_t kMaxColumnParts = 64;  // of a column
constexpr int64_t kUnrolled = 8;         // loads of a thread under way
constexpr int64_t kStripThreads = 128;   // of a block, at most

class ScanColumns : ScanStatements {
 public:
  ScanColumns(const Scheduling& s, PerfectNest nest, const ir::Scan& scan)
      : ScanStatements(s.kernel, scan), s_(s), nest_(std::move(nest)) {
    const int64_t length = scan.loop.extent.value();
    part_ = std::max(kColumnPart, (length + kMaxColumnParts - 1) / kMaxColumnParts);
    part_ = (part_ + kUnrolled - 1) / kUnrolled * kUnrolled;
    parts_ = (length + part_ - 1) / part_;
    const LoopHead& columns = nest_.heads.back();
    lanes_ = std::min(lanes_of_access(k_, scan_.body, columns.var), lanes_of_access(k_, scan_.then, columns.var));
    while (lanes_ > 1 && !divisible_by(k_, columns.extent, lanes_)) lanes_ /= 2;
    const auto accesses = known_value(s, ceildiv(columns.extent, lanes_));
    width_ = std::clamp<int64_t>(accesses.value_or(kStripThreads), 1, kStripThreads);
    planes_ = kStripThreads / width_;
  }

  Block run() {
    k_.may_alias.clear();  // a block may read what another one has overwritten
    IndexExpr threads = width_ * strips();
    for (size_t i = 0; i + 1 < nest_.heads.size(); ++i) threads *= nest_.heads[i].extent;
    const auto known = known_value(s_, threads);
    const bool few = !known || 2 * *known < int64_t{s_.target.sm_count} * s_.target.threads_per_sm;
    return decide(s_, &ScheduleChoice::slices, few) ? in_parts() : whole();
  }

 private:
  // Scans a part; returns its sum. Without `before`, the sum of the parts before it, only that is computed.
  Operand scan_part(const IndexExpr& part, const std::optional<Operand>& before, Block& out) {
    const BufferId sum = running(out);
    const VarId step = add_var(k_), u = add_var(k_);
    const IndexExpr i = part * part_ + IndexExpr::symbol(step) * kUnrolled + IndexExpr::symbol(u);
    Block body = scan_.body;
    const Operand last = load(body, sum, {IndexExpr(0)}), next = combine(body, last, scan_.yield);
    store(body, sum, {IndexExpr(0)}, next);
    if (before) {
      body.push_back({ir::Let{scan_.dst, ir::combining_op(scan_.combiner), {*before, scan_.exclusive ? last : next}}});
      body.insert(body.end(), scan_.then.begin(), scan_.then.end());
    }
    // The last part may go beyond the end of the column.
    if (!divisible_by(k_, scan_.loop.extent, part_)) guard_accesses(body, {scan_.loop.extent - 1 - i});
    body = clone(k_, body);
    substitute(body, scan_.loop.var, scan_.reverse ? scan_.loop.extent - 1 - i : i);
    out.push_back(rebuild_loops({{LoopTag::seq, step, part_ / kUnrolled}, {LoopTag::unroll, u, kUnrolled}}, body));
    return load(out, sum, {IndexExpr(0)});
  }

  Block whole() {
    Block column, body;
    const VarId part = add_var(k_);
    const BufferId parts = running(column);
    const Operand before = load(body, parts, {IndexExpr(0)});
    const Operand sum = scan_part(IndexExpr::symbol(part), before, body);
    store(body, parts, {IndexExpr(0)}, combine(body, before, sum));
    column.push_back(rebuild_loops({{LoopTag::seq, part, parts_}}, std::move(body)));
    return spread({}, column);
  }

  // A grid phase for the sums of all parts but the last, and one that scans.
  Block in_parts() {
    Block result, sums, scans;
    const VarId part = add_var(k_), q = add_var(k_);
    const BufferId all = allocate_sums(result);
    store(sums, all, sum_at(IndexExpr::symbol(part)), scan_part(IndexExpr::symbol(part), std::nullopt, sums));
    append(result, spread({{LoopTag::grid, part, parts_ - 1}}, sums));
    const BufferId before = running(scans);
    Block add;
    const Operand so_far = load(add, before, {IndexExpr(0)});
    store(add, before, {IndexExpr(0)}, combine(add, so_far, load(add, all, sum_at(IndexExpr::symbol(q)))));
    scans.push_back(rebuild_loops({{LoopTag::seq, q, IndexExpr::symbol(part)}}, std::move(add)));
    scan_part(IndexExpr::symbol(part), load(scans, before, {IndexExpr(0)}), scans);
    append(result, spread({{LoopTag::grid, part, parts_}}, scans));
    return result;
  }

  BufferId allocate_sums(Block& out) {
    ir::IndexShape shape{IndexExpr(parts_ - 1)};
    for (const LoopHead& head : nest_.heads) shape.push_back(head.extent);
    return allocate(out, "parts", ir::Space::scratch, std::move(shape));
  }
  std::vector<IndexExpr> sum_at(const IndexExpr& part) const {
    std::vector<IndexExpr> at{part};
    for (const LoopHead& head : nest_.heads) at.push_back(IndexExpr::symbol(head.var));
    return at;
  }
  IndexExpr strips() const { return ceildiv(nest_.heads.back().extent, width_ * lanes_); }

  // A grid over the outer loops, `more` and strips of columns, a thread for each access of a strip. Short strips of
  // several iterations of the outer loops share a block.
  Block spread(const std::vector<LoopHead>& more, const Block& column) {
    const LoopHead& columns = nest_.heads.back();
    const VarId strip = add_var(k_), t = add_var(k_), plane = add_var(k_), group = add_var(k_);
    const IndexExpr first = (IndexExpr::symbol(strip) * width_ + IndexExpr::symbol(t)) * lanes_;
    std::vector<LoopHead> heads(nest_.heads.begin(), nest_.heads.end() - 1), threads{{LoopTag::block, t, width_}};
    Block body = clone(k_, column), result, once;
    vectorize(k_, body, columns.var, lanes_, first);
    IndexExpr left = columns.extent - first - (lanes_ - 1);
    if (planes_ > 1 && !heads.empty()) {
      const IndexExpr number = IndexExpr::symbol(group) * planes_ + IndexExpr::symbol(plane);
      const Linear linear = linearize(heads, number);
      for (const LoopHead& head : heads) substitute(body, head.var, linear.values.at(head.var));
      heads = {{LoopTag::grid, group, ceildiv(linear.total, planes_)}};
      threads.insert(threads.begin(), {LoopTag::block, plane, planes_});
      left = min(left, linear.total - number);
    }
    heads.insert(heads.end(), more.begin(), more.end());
    heads.push_back({LoopTag::grid, strip, strips()});
    for (LoopHead& head : heads) head.tag = LoopTag::grid;
    heads.insert(heads.end(), threads.begin(), threads.end());
    once.push_back(only_if(k_, left, std::move(body)));
    result.push_back(rebuild_loops(heads, std::move(once)));
    return result;
  }

  const Scheduling& s_;
  const PerfectNest nest_;
  int64_t part_ = 0, parts_ = 0;    // elements of a part; parts of a column
  int lanes_ = 1;                   // columns of a thread
  int64_t width_ = 1, planes_ = 1;  // threads of a strip; strips of a block
};

}  // namespace

Block cuda_scan_columns(const Scheduling& s, PerfectNest nest, const ir::Scan& scan, size_t column) {
  const ir::Scan own = scan;
  const auto at = nest.heads.begin() + static_cast<std::ptrdiff_t>(column);
  std::rotate(at, at + 1, nest.heads.end());
  const bool long_columns = own.loop.extent.is_const() && own.loop.extent.value() > kColumnPart;
  return long_columns ? ScanColumns(s, std::move(nest), own).run() : cuda_pointwise(s, std::move(nest));
}

}  // namespace fusec::compiler
