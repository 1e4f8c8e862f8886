// SPDX-License-Identifier: Apache-2.0
// Assigns every local buffer of a kernel to vector slots or to an offset in local memory, before the LLVM writers run.
// Buffers of sibling blocks share memory, because a block's buffers are dead after it.

#include <algorithm>
#include <set>

#include "codegen/llvm/phase_function.h"

namespace fusec::codegen {
namespace {

// Above this many slots, promotion is more expensive than memory.
constexpr int64_t kMaxSlots = 128;

struct Use {
  bool slots = true;
  int width = 0;
};

class Planner {
 public:
  Planner(const ir::Kernel& kernel, bool shared_too) : kernel_(kernel), shared_too_(shared_too) {}

  Locals run() {
    scan(kernel_.body);
    place(kernel_.body, 0);
    out_.bytes = peak_;
    return std::move(out_);
  }

 private:
  // First walk: finds out how buffers are indexed.
  void scan(const ir::Block& block) {
    for (const ir::Stmt& stmt : block) {
      const std::vector<ir::SymbolId> added = enter(stmt);
      scan_access(stmt);
      for (const ir::Block* nested : ir::nested_blocks(stmt)) scan(*nested);
      for (const ir::SymbolId symbol : added) unrolled_.erase(symbol);
    }
  }

  std::vector<ir::SymbolId> enter(const ir::Stmt& stmt) {
    std::vector<ir::SymbolId> added;
    const auto add = [&](const ir::LoopHead& head) {
      if (head.extent.is_const() && (head.tag == ir::LoopTag::unroll || head.extent.is(1))) added.push_back(head.var);
    };
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) add(loop->head);
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      for (const ir::LoopHead& head : reduce->loops) add(head);
    }
    unrolled_.insert(added.begin(), added.end());
    return added;
  }

  void scan_access(const ir::Stmt& stmt) {
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) {
      load_access(*load);
    } else if (const auto* store = std::get_if<ir::Store>(&stmt.v)) {
      const auto* reg = std::get_if<ir::RegId>(&store->value);
      access(store->buffer, store->index, reg ? kernel_.regs[*reg].width : 1, true);
    } else if (const auto* transpose = std::get_if<ir::TransposeTile>(&stmt.v)) {
      tile(transpose->src);
      tile(transpose->dst);
    } else if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) {
      uses_[copy->dst].slots = uses_[copy->src].slots = false;
    } else if (const auto* prefetch = std::get_if<ir::Prefetch>(&stmt.v)) {
      uses_[prefetch->buffer].slots = false;
    } else if (const auto* product = std::get_if<ir::TileProduct>(&stmt.v)) {
      set_width(product->sums, 2);  // neighbours, which are read together
    }
  }

  // Lanes in any fixed order are picked out of the slots. Only stores determine the width of the slots.
  void load_access(const ir::Load& load) {
    const ir::Buffer& buffer = kernel_.buffers[load.buffer];
    const int width = kernel_.regs[load.dst].width;
    if (load.clamp == 0 && is_const(buffer.shape)) {
      std::set<ir::SymbolId> symbols;
      (linear_index(buffer, load.index) - IndexExpr::symbol(ir::kLane)).collect_symbols(symbols);
      const bool in_order = symbols.erase(ir::kLane) == 0 && width > 1;
      if (!in_order && std::includes(unrolled_.begin(), unrolled_.end(), symbols.begin(), symbols.end())) return;
    }
    access(load.buffer, load.index, width, load.clamp == 0);
  }

  void access(ir::BufferId id, const std::vector<IndexExpr>& index, int width, bool plain) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    if (!plain || !is_const(buffer.shape)) return reject(id);
    const IndexExpr linear = linear_index(buffer, index);
    const IndexExpr start = linear - (width > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0));
    std::set<ir::SymbolId> symbols;
    start.collect_symbols(symbols);
    const bool known = std::includes(unrolled_.begin(), unrolled_.end(), symbols.begin(), symbols.end());
    if (!known || start.known_divisor() % width != 0) return reject(id);
    set_width(id, width);
  }

  void tile(ir::BufferId id) {
    const ir::IndexShape& shape = kernel_.buffers[id].shape;
    if (shape.empty() || !shape.back().is_const()) return reject(id);
    set_width(id, static_cast<int>(shape.back().value()));
  }

  void reject(ir::BufferId id) { uses_[id].slots = false; }
  void set_width(ir::BufferId id, int width) {
    Use& use = uses_[id];
    if (use.width != 0 && use.width != width) use.slots = false;
    use.width = width;
  }

  // Second walk: assigns memory as a stack of open blocks.
  void place(const ir::Block& block, IndexExpr top) {
    for (const ir::Stmt& stmt : block) {
      if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) top = place(alloc->buffer, top);
      for (const ir::Block* nested : ir::nested_blocks(stmt)) place(*nested, top);
    }
  }

  IndexExpr place(ir::BufferId id, const IndexExpr& top) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    if (buffer.space != ir::Space::reg && !(shared_too_ && buffer.space == ir::Space::shared)) return top;
    const IndexExpr elements = num_elements(buffer.shape);
    LocalBuffer& local = out_.buffers[id];
    const auto use = uses_.find(id);
    if (use != uses_.end() && use->second.slots && elements.is_const()) {
      local.width = std::max(1, use->second.width);
      local.count = elements.value() / local.width;
      local.slots = elements.value() % local.width == 0 && local.count <= kMaxSlots;
    }
    if (local.slots) return top;
    local.offset = top;
    const IndexExpr span = buffer.shape.empty() ? IndexExpr(1) : buffer.shape[0] * compute_strides(buffer)[0];
    const IndexExpr end = top + aligned_bytes(span, buffer.dtype);
    peak_ = end.is_const() && peak_.is_const() ? IndexExpr(std::max(end.value(), peak_.value())) : max(peak_, end);
    return end;
  }

  const ir::Kernel& kernel_;
  const bool shared_too_;
  std::set<ir::SymbolId> unrolled_;
  std::map<ir::BufferId, Use> uses_;
  Locals out_;
  IndexExpr peak_;
};

}  // namespace

IndexExpr aligned_bytes(const IndexExpr& elements, DType dtype) {
  return ceildiv(elements * IndexExpr(static_cast<int64_t>(size_of(dtype))), kLocalAlignment) * kLocalAlignment;
}

Locals plan_locals(const ir::Kernel& kernel, bool shared_too) { return Planner(kernel, shared_too).run(); }

}  // namespace fusec::codegen
