// SPDX-License-Identifier: Apache-2.0
// The interpreter of kernels, shared by the files that execute loops and threads in lockstep (kernel_threads.cpp) and
// the statements of one thread (kernel_statements.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/eval/index_code.h"
#include "ir/eval/kernel_frame.h"
#include "ir/eval/shared_accesses.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const std::map<std::string, int64_t>& extents);

  Status bind(const std::vector<Tensor>& args);
  Status run();

 private:
  // Symbols and index expressions.

  int slot(SymbolId symbol) {
    if (const auto known = slots_.find(symbol)) return *known;
    const int fresh = slots_.add(symbol);
    whole_.slots.push_back(0);
    // Registers in index expressions keep their slots up to date.
    if (const auto reg = symbol.reg(); reg && reg->index < regs_.size()) {
      regs_[reg->index].slot = fresh;
      regs_in_indices_.push_back(*reg);
    }
    return fresh;
  }

  // Gives every symbol of the kernel a slot.
  void add_slots();

  void publish(RegId r, int lane) {
    const EvalReg& reg = regs_[r.index];
    if (reg.slot < 0) return;
    const int at = std::min(lane, reg.width - 1);
    frame_->slots[static_cast<std::size_t>(reg.slot)] = frame_->values[reg.first + static_cast<std::size_t>(at)].i;
  }

  void set(SymbolId symbol, int64_t value) { frame_->slots[static_cast<std::size_t>(slot(symbol))] = value; }

  void set_lane(int lane) {
    frame_->slots[static_cast<std::size_t>(lane_slot_)] = lane;
    for (const RegId r : regs_in_indices_) publish(r, lane);
  }

  int64_t eval(const IndexExpr& d) {
    if (d.is_const()) return d.value();
    const auto make = [&] { return IndexCode(d, [&](SymbolId s) { return slot(s); }); };
    return codes_.get(d, make).eval(frame_->slots);
  }

  std::vector<int64_t> eval(const std::vector<IndexExpr>& list) {
    std::vector<int64_t> values;
    for (const IndexExpr& d : list) values.push_back(eval(d));
    return values;
  }
  // The same, until the next call.
  std::span<int64_t> eval_index(const std::vector<IndexExpr>& list) {
    index_.clear();
    for (const IndexExpr& d : list) index_.push_back(eval(d));
    return index_;
  }

  bool holds(const Guard& guard) {
    return std::all_of(guard.begin(), guard.end(), [&](const IndexExpr& d) { return eval(d) >= 0; });
  }

  void fail(std::string message) {
    if (status_.ok()) status_ = Status(StatusCode::internal, std::move(message));
  }
  bool ok() const { return status_.ok(); }
  std::string where(const Stmt& s) const;

  // Registers.

  Number read(const Operand& o, int lane) const {
    if (const auto* c = std::get_if<Constant>(&o)) return make_number(*c);
    const EvalReg& reg = regs_[std::get<RegId>(o).index];
    return frame_->values[reg.first + static_cast<std::size_t>(std::min(lane, reg.width - 1))];
  }
  void write(RegId r, int lane, const Number& value) {
    frame_->values[regs_[r.index].first + static_cast<std::size_t>(lane)] = value;
    if (lane == 0) publish(r, 0);
  }

  // Memory.

  Memory& memory(BufferId b) {
    const EvalBuffer& info = buffers_[b.index];
    return info.space == Space::reg ? frame_->memory[info.own] : memory_[b.index];
  }

  char* element(const Stmt& s, BufferId b, std::span<const int64_t> index, bool write = false);
  // Indices from data wrap if negative and are then clamped.
  void clamp(const Load& s, const Stmt& stmt, std::span<int64_t> index);
  void allocate(BufferId b);

  // Statements.

  void block(const Block& body);
  bool allocates_shared(const Stmt& s) const;

  // Loops, and threads in lockstep.

  template <class F>
  void each_active(const F& f) {
    for (Frame* frame : active_) {
      frame_ = frame;
      if (ok()) f();
    }
    if (!active_.empty()) frame_ = active_.front();
  }
  int number(const Frame* frame) const { return static_cast<int>(frame - threads_.data()); }

  // Runs the body with those of the active threads for which `takes_part` holds.
  template <class Condition, class F>
  void narrow(const Condition& takes_part, const F& body);
  template <class F>
  void run_threads(const Loop& s, const F& body);
  void run_tasks(const Loop& s);
  void in_lockstep(const Loop& s);
  // A block's shared memory is gone when it ends.
  void check_end();
  void sync_all(const Sync& s, const Stmt& stmt);
  struct Copies;
  // Ends the group of the thread's last copies, and makes those of all but the `left` last groups.
  void finish_copies(Copies& copies, int64_t left);
  void run(const Loop& s, const Stmt&);
  void run(const If& s, const Stmt&);
  // All threads choose alike.
  void run(const Choose& s, const Stmt&);
  // The active threads of each warp, one bit each.
  std::vector<uint32_t> active_by_warp() const;
  // Whether the mask is that of the threads that come here. Threads that the block lacks may be in it.
  bool check_mask(const Operand& mask, const std::vector<uint32_t>& active, const Stmt& stmt);
  void run(const Shuffle& s, const Stmt& stmt);
  void run(const Ballot& s, const Stmt& stmt);
  void run(const Sync& s, const Stmt& stmt);
  void touch(const Stmt& stmt, BufferId b, int64_t offset, bool write);

  // Statements of one thread.

  void run(const Alloc& s, const Stmt&) { allocate(s.buffer); }
  void run(const Let& s, const Stmt&);
  void run(const IndexValue& s, const Stmt&);
  void run(const Load& s, const Stmt& stmt);
  void run(const Store& s, const Stmt& stmt);
  void run(const Prefetch&, const Stmt&) {}
  void run(const Reduce& s, const Stmt& stmt);
  void run(const Scan& s, const Stmt&);
  void run(const TransposeTile& s, const Stmt& stmt);
  void run(const CopyAsync& s, const Stmt& stmt);
  void run(const Mma& s, const Stmt& stmt);
  void run(const TileProduct& s, const Stmt& stmt);

  const Kernel& k_;
  std::vector<EvalBuffer> buffers_;  // by BufferId
  std::vector<EvalReg> regs_;        // by RegId
  std::vector<Memory> memory_;       // by BufferId
  Frame whole_;
  Frame* frame_ = &whole_;  // of the thread that runs
  std::vector<Frame> threads_;
  std::vector<Frame*> active_;         // the threads that take part; empty outside of lowered loops
  int block_threads_ = 1;              // of a cluster's block
  bool started_ = false;               // all blocks have met at a barrier of the cluster
  bool arrived_ = false;               // at a barrier of the cluster, and has not waited
  const Stmt* reaches_far_ = nullptr;  // accesses another block's memory, with no barrier of the cluster since
  // What a thread copies, by groups: it is done when the thread waits for it.
  struct Copy {
    const Stmt* stmt;
    BufferId buffer;
    char* to;
    const char* from;
    std::size_t bytes;
    int64_t group;
  };
  struct Copies {
    std::vector<Copy> pending;
    int64_t group = 0;  // of the next copy
  };
  std::vector<Copies> copies_;  // by thread
  SymbolSlots slots_;
  std::vector<RegId> regs_in_indices_;
  int lane_slot_ = 0;
  IndexCodes codes_;
  std::vector<int64_t> index_;
  SharedAccesses shared_;
  Status status_;

 public:
  std::string out_of_range_;  // describes the first index from data that was out of range
};

}  // namespace fusec::ir
