// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: places block-wide barriers between statements of a thread block that conflict on a shared buffer.
// Barriers are placed only outside block loops, where control flow is uniform.

#include <algorithm>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"

namespace fusec::compiler {

namespace {

struct Touched {
  std::set<BufferId> read, written;
  bool empty() const { return read.empty() && written.empty(); }
};

bool meet(const std::set<BufferId>& a, const std::set<BufferId>& b) {
  return std::any_of(a.begin(), a.end(), [&](BufferId id) { return b.contains(id); });
}
bool conflict(const Touched& before, const Touched& after) {
  return meet(before.written, after.read) || meet(before.read, after.written) || meet(before.written, after.written);
}

class SyncPlacer {
 public:
  explicit SyncPlacer(ir::Kernel& kernel) : kernel_(kernel) {}

  // Handles the statements of a thread block outside block loops. `pending` has the buffers touched since the last
  // barrier.
  void run(Block& body, Touched& pending) {
    Block result;
    for (Stmt& stmt : body) {
      auto* loop = std::get_if<ir::Loop>(&stmt.v);
      if (loop != nullptr && loop->head.tag != LoopTag::block) {
        around(*loop, pending);
        result.push_back(std::move(stmt));
        continue;
      }
      const Touched own = touched(stmt);
      if (conflict(pending, own)) {
        result.push_back({ir::Sync{ir::SyncScope::block}});
        pending = {};
      }
      pending.read.insert(own.read.begin(), own.read.end());
      pending.written.insert(own.written.begin(), own.written.end());
      result.push_back(std::move(stmt));
    }
    body = std::move(result);
  }

 private:
  // Handles a loop that the whole block runs. The end of an iteration may conflict with the beginning of the next one.
  void around(ir::Loop& loop, Touched& pending) {
    if (proves_nonneg(1 - loop.head.extent, {})) return maybe(loop.body, pending);
    Touched end = pending;
    Block first = loop.body;
    run(first, end);
    pending.read.insert(end.read.begin(), end.read.end());
    pending.written.insert(end.written.begin(), end.written.end());
    run(loop.body, pending);
  }

  // Handles a condition. What was pending before stays pending where it does not hold.
  void maybe(Block& body, Touched& pending) {
    Touched end = pending;
    run(body, end);
    pending.read.insert(end.read.begin(), end.read.end());
    pending.written.insert(end.written.begin(), end.written.end());
  }

  Touched touched(const Stmt& stmt) const {
    Touched t;
    const auto note = [&](const Stmt& s) {
      const auto shared = [&](BufferId b) { return kernel_.buffers[b].space == ir::Space::shared; };
      if (const auto* load = std::get_if<ir::Load>(&s.v); load != nullptr && shared(load->buffer))
        t.read.insert(load->buffer);
      if (const auto* store = std::get_if<ir::Store>(&s.v); store != nullptr && shared(store->buffer))
        t.written.insert(store->buffer);
      if (const auto* copy = std::get_if<ir::CopyAsync>(&s.v); copy != nullptr && shared(copy->dst))
        t.written.insert(copy->dst);
    };
    note(stmt);
    for (const Block* inner : nested_blocks(stmt)) for_each_stmt(*inner, note);
    return t;
  }

  ir::Kernel& kernel_;
};

void in_grid(ir::Kernel& kernel, Block& body) {
  for (Stmt& stmt : body) {
    auto* loop = std::get_if<ir::Loop>(&stmt.v);
    if (loop == nullptr || loop->head.tag != LoopTag::grid) continue;
    const bool nests = loop->body.size() == 1 && std::holds_alternative<ir::Loop>(loop->body[0].v) &&
                       std::get<ir::Loop>(loop->body[0].v).head.tag == LoopTag::grid;
    Touched pending;
    if (nests) {
      in_grid(kernel, loop->body);
    } else {
      SyncPlacer(kernel).run(loop->body, pending);
    }
  }
}

}  // namespace

void place_syncs(ir::Kernel& kernel) { in_grid(kernel, kernel.body); }

}  // namespace fusec::compiler
