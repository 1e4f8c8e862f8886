// SPDX-License-Identifier: Apache-2.0
// Lower: simplifies the index expressions, guards and extents of a kernel by the ranges of its loop variables.
// Simplifiers are cached per loop body and vector width.

#include <algorithm>
#include <map>
#include <memory>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/base/dim_range.h"

namespace fusec::compiler {

using ir::Kernel;

namespace {

void put_range(ir::IndexRanges& ranges, const LoopHead& head) { ranges[head.var] = {IndexExpr(0), head.extent - 1}; }

// The ranges of the loop variables at one depth of loops and, for statements of several lanes, of `lane`.
class Scope {
 public:
  explicit Scope(ir::IndexRanges ranges) : ranges_(std::move(ranges)), dims_(ranges_) {}

  const ir::IndexRanges& ranges() const { return ranges_; }
  base::Simplifier<IndexExpr>& dims() { return dims_; }
  base::Simplifier<IndexExpr>& dims(int width) {
    auto& lanes = lanes_[width];
    if (!lanes) {
      ir::IndexRanges ranges = ranges_;
      ranges[ir::kLane] = {IndexExpr(0), IndexExpr(width - 1)};
      lanes = std::make_unique<Lanes>(std::move(ranges));
    }
    return lanes->dims;
  }

 private:
  struct Lanes {
    explicit Lanes(ir::IndexRanges r) : ranges(std::move(r)), dims(ranges) {}
    const ir::IndexRanges ranges;
    base::Simplifier<IndexExpr> dims;
  };
  const ir::IndexRanges ranges_;
  base::Simplifier<IndexExpr> dims_;
  std::map<int, std::unique_ptr<Lanes>> lanes_;
};

class DimSimplifier {
 public:
  explicit DimSimplifier(Kernel& kernel) : kernel_(kernel) {}

  void run(Block& block, const ir::IndexRanges& ranges) {
    Scope scope(ranges);
    run(block, scope);
  }

 private:
  void run(Block& block, Scope& scope) {
    Block result;
    for (Stmt& stmt : block) visit(stmt, scope, result);
    block = std::move(result);
  }

  // Drops conditions that are proven or repeated.
  static void reduce_guard(ir::Guard& guard, base::Simplifier<IndexExpr>& dims) {
    ir::Guard kept;
    for (const IndexExpr& g : guard) {
      const IndexExpr s = dims.simplify(g);
      if (dims.nonneg(s)) continue;
      if (std::find(kept.begin(), kept.end(), s) == kept.end()) kept.push_back(s);
    }
    guard = std::move(kept);
  }

  int width_of(const Operand& operand) const {
    const auto* r = std::get_if<RegId>(&operand);
    return r != nullptr ? kernel_.regs[*r].width : 1;
  }

  static void access(std::vector<IndexExpr>& index, ir::Guard& guard, base::Simplifier<IndexExpr>& dims) {
    for (IndexExpr& d : index) d = dims.simplify(d);
    reduce_guard(guard, dims);
  }

  void visit(Stmt& stmt, Scope& scope, Block& out) {
    if (auto* s = std::get_if<ir::Loop>(&stmt.v)) return loop(*s, scope, out);
    if (auto* s = std::get_if<ir::Load>(&stmt.v)) access(s->index, s->guard, scope.dims(kernel_.regs[s->dst].width));
    if (auto* s = std::get_if<ir::Store>(&stmt.v)) access(s->index, s->guard, scope.dims(width_of(s->value)));
    if (auto* s = std::get_if<ir::IndexValue>(&stmt.v))
      s->value = scope.dims(kernel_.regs[s->dst].width).simplify(s->value);
    if (auto* s = std::get_if<ir::CopyAsync>(&stmt.v)) {
      for (IndexExpr& d : s->dst_index) d = scope.dims(1).simplify(d);
      access(s->src_index, s->guard, scope.dims(1));
    }
    if (std::holds_alternative<ir::TileProduct>(stmt.v))
      for_each_index(stmt, [&](IndexExpr& e) { e = scope.dims(1).simplify(e); });
    if (auto* s = std::get_if<ir::Reduce>(&stmt.v)) {
      ir::IndexRanges ranges = scope.ranges();
      for (LoopHead& head : s->loops) {
        head.extent = simplify(head.extent, ranges);
        put_range(ranges, head);
      }
      Scope inner(std::move(ranges));
      run(s->body, inner);
      reduce_guard(s->guard, inner.dims(width_of(s->yield[0])));
    }
    if (auto* s = std::get_if<ir::Scan>(&stmt.v)) {
      ir::IndexRanges ranges = scope.ranges();
      put_range(ranges, s->loop);
      Scope inner(std::move(ranges));
      run(s->body, inner);
      run(s->then, inner);
    }
    out.push_back(std::move(stmt));
  }

  void loop(ir::Loop& loop, Scope& scope, Block& out) {
    loop.head.extent = scope.dims().simplify(loop.head.extent);
    if (loop.head.extent.is(0) || scope.dims().nonneg(-loop.head.extent)) return;
    if (loop.head.extent.is(1) && loop.head.tag != ir::LoopTag::grid) {
      substitute(loop.body, loop.head.var, 0);
      Block body = std::move(loop.body);
      run(body, scope);
      for (Stmt& stmt : body) out.push_back(std::move(stmt));
      return;
    }
    ir::IndexRanges ranges = scope.ranges();
    put_range(ranges, loop.head);
    run(loop.body, ranges);
    out.push_back({std::move(loop)});
  }

  Kernel& kernel_;
};

}  // namespace

void simplify_dims(Kernel& kernel) { DimSimplifier(kernel).run(kernel.body, {}); }

}  // namespace fusec::compiler
