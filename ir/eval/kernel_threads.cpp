// SPDX-License-Identifier: Apache-2.0
// Executes loops of kernels and the threads of lowered ones: these run in lockstep, statement by statement. Finds
// barriers and masks that do not fit, and accesses to shared memory with no barrier between them.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/eval/kernel_interpreter.h"
#include "ir/eval/ordered_tasks.h"
#include "ir/kernel/mailbox.h"

namespace fusec::ir {

template <class Condition, class F>
void Interpreter::narrow(const Condition& takes_part, const F& body) {
  std::vector<Frame*> some;
  each_active([&] {
    if (takes_part()) some.push_back(frame_);
  });
  if (some.empty()) return;
  std::swap(active_, some);
  frame_ = active_.front();
  body();
  std::swap(active_, some);
  frame_ = active_.front();
}

template <class F>
void Interpreter::run_threads(const Loop& s, const F& body) {
  threads_.assign(static_cast<std::size_t>(s.threads), whole_);
  block_threads_ = s.threads / std::max(1, s.cluster);
  copies_.assign(threads_.size(), {});
  started_ = arrived_ = false;
  reaches_far_ = nullptr;
  shared_.begin(threads_.size(), static_cast<std::size_t>(block_threads_));
  for (Frame& frame : threads_) active_.push_back(&frame);
  each_active([&] { set(kThread, number(frame_)); });
  body();
  active_.clear();
  frame_ = &whole_;
}

void Interpreter::run_tasks(const Loop& s) {
  const auto run_one = [&](const Block& body) {
    const auto run_block = [&] { block(body), check_end(); };
    s.threads > 0 ? run_threads(s, run_block) : block(body);
    return ok();
  };
  const std::string wrong =
      run_in_order(s, reinterpret_cast<int32_t*>(memory(s.tasks->counters).data),
                   {[&](const IndexExpr& e) { return eval(e); }, [&](VarId var, int64_t v) { set(var, v); }, run_one});
  if (!wrong.empty()) fail(wrong);
}

void Interpreter::in_lockstep(const Loop& s) {
  int64_t most = 0;
  std::vector<int64_t> extents(threads_.size());
  const auto extent = [&]() -> int64_t& { return extents[static_cast<std::size_t>(number(frame_))]; };
  each_active([&] { most = std::max(most, extent() = eval(s.head.extent)); });
  for (int64_t i = 0; i < most && ok(); ++i) {
    narrow([&] { return set(s.head.var, i), i < extent(); }, [&] { block(s.body); });
    if (s.head.tag == LoopTag::grid) check_end();
  }
}

void Interpreter::check_end() {
  if (!ok()) return;
  if (reaches_far_ != nullptr) fail("a block may end before another one comes to " + where(*reaches_far_));
  if (arrived_) fail("a block ends without a sync.wait");
  for (const Copies& copies : copies_)
    if (!copies.pending.empty()) return fail("a block ends before a sync.copies that waits for all copies");
  if (shared_.has_unread_mailbox()) fail("a block may end before others have stored to its mailbox");
}

void Interpreter::sync_all(const Sync& s, const Stmt& stmt) {
  if (active_.size() != threads_.size())
    return fail(fmt::format("{} of {} threads come to {}", active_.size(), threads_.size(), where(stmt)));
  if (s.scope == SyncScope::block && static_cast<std::size_t>(block_threads_) < threads_.size())
    return shared_.sync_blocks();
  if (arrived_ != (s.scope == SyncScope::wait))
    return fail("sync.arrive and sync.wait take turns, unlike " + where(stmt));
  arrived_ = s.scope == SyncScope::arrive;
  reaches_far_ = nullptr;
  started_ |= !arrived_;
  if (arrived_) return shared_.arrive();
  shared_.sync();
}

void Interpreter::finish_copies(Copies& copies, int64_t left) {
  const int64_t last = copies.group++ - left;
  std::erase_if(copies.pending, [&](const Copy& copy) {
    if (copy.group > last) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    const auto offset = (copy.to - memory(copy.buffer).data) / static_cast<std::ptrdiff_t>(copy.bytes);
    touch(*copy.stmt, copy.buffer, offset, true);
    return true;
  });
}

void Interpreter::run(const Loop& s, const Stmt&) {
  if (s.tasks) return run_tasks(s);
  if (s.threads > 0) return run_threads(s, [&] { in_lockstep(s); });
  if (!active_.empty()) return in_lockstep(s);
  const int64_t n = eval(s.head.extent);
  for (int64_t i = 0; i < n && ok(); ++i) {
    set(s.head.var, i);
    block(s.body);
  }
}

void Interpreter::run(const If& s, const Stmt&) {
  if (!active_.empty()) return narrow([&] { return holds(s.condition); }, [&] { block(s.body); });
  if (holds(s.condition)) block(s.body);
}

void Interpreter::run(const Choose& s, const Stmt&) {
  const int64_t number = eval(s.number);
  if (number < 0 || number >= static_cast<int64_t>(s.among.size())) return;
  const Memory& chosen = memory_[s.among[static_cast<std::size_t>(number)].index];
  Memory& m = memory_[s.buffer.index];
  m.data = chosen.data, m.shape = chosen.shape, m.strides = chosen.strides;
  if (active_.empty()) set(s.head.var, number);
  each_active([&] { set(s.head.var, number); });
  block(s.body);
}

std::vector<uint32_t> Interpreter::active_by_warp() const {
  std::vector<uint32_t> bits(threads_.size() / 32 + 1);
  for (const Frame* frame : active_) bits[static_cast<std::size_t>(number(frame) / 32)] |= 1u << (number(frame) % 32);
  return bits;
}

bool Interpreter::check_mask(const Operand& mask, const std::vector<uint32_t>& active, const Stmt& stmt) {
  const int first = number(frame_) / 32 * 32, in_warp = std::min(32, static_cast<int>(threads_.size()) - first);
  const uint32_t existing = in_warp == 32 ? ~0u : (1u << in_warp) - 1;
  const uint32_t here = active[static_cast<std::size_t>(first / 32)],
                 stated = static_cast<uint32_t>(read(mask, 0).i) & existing;
  if (here == stated) return true;
  fail(fmt::format("the mask {:#x} is not that of the threads {:#x} of the warp that come to {}", stated, here,
                   where(stmt)));
  return false;
}

void Interpreter::run(const Shuffle& s, const Stmt& stmt) {
  const EvalReg& result = regs_[s.dst.index];
  std::vector<std::pair<Frame*, Number>> taken;
  const std::vector<uint32_t> active = active_by_warp();
  for (int lane = 0; lane < result.width; ++lane) {
    taken.clear();
    each_active([&] {
      if (!check_mask(s.mask, active, stmt)) return;
      const int self = number(frame_);
      const int64_t lane_index = eval(s.lane);
      const int64_t from = s.kind == ShuffleKind::by_xor ? (self % 32) ^ lane_index : lane_index;
      if (from < 0 || from > 31 || !(active[static_cast<std::size_t>(self / 32)] >> from & 1))
        return fail(
            fmt::format("thread {} takes a value of lane {}, which does not come to {}", self, from, where(stmt)));
      Frame* own = std::exchange(frame_, &threads_[static_cast<std::size_t>(self / 32 * 32 + from)]);
      taken.emplace_back(own, read(s.value, lane));
      frame_ = own;
    });
    for (const auto& [frame, value] : taken) {
      frame_ = frame;
      write(s.dst, lane, value);
    }
  }
  frame_ = active_.front();
}

void Interpreter::run(const Ballot& s, const Stmt& stmt) {
  std::map<int, uint32_t> bits;
  const std::vector<uint32_t> active = active_by_warp();
  each_active([&] {
    if (check_mask(s.mask, active, stmt) && holds(s.condition))
      bits[number(frame_) / 32] |= 1u << (number(frame_) % 32);
  });
  each_active([&] { write(s.dst, 0, {0, static_cast<int64_t>(bits[number(frame_) / 32])}); });
}

void Interpreter::run(const Sync& s, const Stmt& stmt) {
  if (active_.empty()) return;  // the scheduled form
  if (s.scope == SyncScope::copies)
    return each_active([&] { finish_copies(copies_[static_cast<std::size_t>(number(frame_))], s.left); });
  if (s.scope != SyncScope::warp) return sync_all(s, stmt);
  std::set<int> warps;
  const std::vector<uint32_t> active = active_by_warp();
  each_active([&] {
    if (check_mask(s.mask, active, stmt)) warps.insert(number(frame_) / 32);
  });
  for (const int warp : warps) shared_.sync_warp(warp);
}

void Interpreter::touch(const Stmt& stmt, BufferId b, int64_t offset, bool write) {
  const int self = number(frame_);
  const bool spread = static_cast<std::size_t>(block_threads_) < threads_.size();
  if (spread && offset / memory_[b.index].strides[0] != self / block_threads_) {
    if (arrived_) return fail("between sync.arrive and sync.wait comes " + where(stmt));
    if (!started_) return fail("a block may not have begun when another one comes to " + where(stmt));
    if (!is_mailbox(k_.buffers[b])) reaches_far_ = &stmt;
  }
  if (is_mailbox(k_.buffers[b])) {
    const char* wrong = shared_.add_to_mailbox(b, offset, memory_[b.index].strides[0], self / block_threads_, write);
    return wrong != nullptr ? fail(wrong + (" " + where(stmt))) : void();
  }
  const std::optional<int> other = shared_.add(b, offset, self, write);
  if (!other) return;
  fail(fmt::format("threads {} and {} touch element {} of {} with no sync between them, in {}", *other, self, offset,
                   k_.buffers[b].name, where(stmt)));
}

}  // namespace fusec::ir
