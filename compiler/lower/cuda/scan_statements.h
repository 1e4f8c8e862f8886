// SPDX-License-Identifier: Apache-2.0
// What the schedules of scans along rows (scans.cpp) and down columns (scan_columns.cpp) share: the statements on
// running values.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/kernel/combiner.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

class ScanStatements {
 protected:
  ScanStatements(ir::Kernel& kernel, const ir::Scan& scan)
      : k_(kernel), scan_(scan), dtype_(kernel.regs[scan.dst].dtype) {}

  ir::Constant identity() const { return ir::identity_constants(scan_.combiner, {&dtype_, 1})[0]; }

  ir::RegId load(ir::Block& out, ir::BufferId from, std::vector<ir::IndexExpr> at, ir::Guard guard = {}) {
    const ir::RegId dst = add_reg(k_, dtype_);
    out.push_back({ir::Load{dst, from, std::move(at), std::move(guard), identity(), 0}});
    return dst;
  }
  static void store(ir::Block& out, ir::BufferId to, std::vector<ir::IndexExpr> at, ir::Operand value) {
    out.push_back({ir::Store{to, std::move(at), std::move(value), {}, ir::StoreHint::none}});
  }
  ir::Operand combine(ir::Block& out, const ir::Operand& before, const ir::Operand& after) {
    const ir::RegId dst = add_reg(k_, dtype_);
    out.push_back({ir::Let{dst, ir::combining_op(scan_.combiner), {before, after}}});
    return dst;
  }

  // A new buffer, declared in `out`.
  ir::BufferId allocate(ir::Block& out, const std::string& name, ir::Space space, ir::IndexShape shape) {
    const ir::BufferId buffer = add_buffer(k_, {name, space, dtype_, std::move(shape), {}, 0, ""});
    out.push_back({ir::Alloc{buffer}});
    return buffer;
  }
  // A value that changes from iteration to iteration, and begins as the identity.
  ir::BufferId running(ir::Block& out) {
    const std::string name = "running" + std::to_string(k_.buffers.size());
    const ir::BufferId buffer = allocate(out, name, ir::Space::reg, {ir::IndexExpr(1)});
    store(out, buffer, {ir::IndexExpr(0)}, identity());
    return buffer;
  }

  // Guards what the block reads and stores along the scan; reads at indices from data take part.
  void guard_accesses(ir::Block& block, const ir::Guard& inside) const {
    const auto moves = [&](const std::vector<ir::IndexExpr>& all) {
      return std::any_of(all.begin(), all.end(), [&](const ir::IndexExpr& d) { return d.uses(scan_.loop.var); });
    };
    const auto guard = [&](auto& access, bool takes_data) {
      if (k_.buffers[access.buffer].space == ir::Space::reg) return;
      if (takes_data || moves(access.index) || moves(access.guard))
        access.guard.insert(access.guard.end(), inside.begin(), inside.end());
    };
    for (ir::Stmt& stmt : block) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
        if (load->guard.empty()) load->otherwise.dtype = k_.buffers[load->buffer].dtype;
        guard(*load, load->clamp != 0);
      }
      if (auto* store = std::get_if<ir::Store>(&stmt.v)) guard(*store, false);
    }
  }

  ir::Kernel& k_;
  const ir::Scan scan_;
  const DType dtype_;
};

}  // namespace fusec::compiler
