// SPDX-License-Identifier: Apache-2.0
// Executes kernels statement by statement as sequential code, the reference for emitters and for the schedules of
// lower. Checks every access against the buffer's bounds, as compiled code does not.

#include "ir/eval/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "ir/eval/combine.h"
#include "ir/eval/index_code.h"
#include "ir/eval/kernel_frame.h"
#include "ir/eval/ordered_tasks.h"
#include "ir/eval/shared_accesses.h"
#include "ir/kernel/mailbox.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const std::map<std::string, int64_t>& extents)
      : k_(kernel), memory_(kernel.buffers.size()), shared_(kernel.buffers.size()) {
    regs_.resize(kernel.regs.size());
    std::size_t lanes = 0, own = 0;
    for (uint32_t i = 0; i < kernel.regs.size(); ++i) {
      const RegInfo& info = kernel.regs[RegId{i}];
      regs_[i] = {lanes, info.width, info.dtype};
      lanes += static_cast<std::size_t>(info.width);
    }
    for (const Buffer& b : kernel.buffers) {
      const bool of_thread = b.space == Space::reg;
      buffers_.push_back({b.dtype, b.space, size_of(b.dtype), of_thread ? own++ : 0});
    }
    whole_.values.resize(lanes);
    whole_.memory.resize(own);
    lane_slot_ = slot(kLane);
    slot(kThread);
    add_slots();
    for (uint32_t i = 0; i < kernel.extents.size(); ++i) set(ExtentId{i}, extents.at(kernel.extents[ExtentId{i}]));
  }

  Status bind(const std::vector<Tensor>& args);
  Status run() {
    block(k_.body);
    return std::move(status_);
  }

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
  void add_slots() {
    std::set<SymbolId> symbols;
    const auto collect = [&](const IndexExpr& e) { e.collect_symbols(symbols); };
    for (const Buffer& buffer : k_.buffers) {
      for (const IndexShape* shape : {&buffer.shape, &buffer.strides})
        std::for_each(shape->begin(), shape->end(), collect);
    }
    for_each_stmt(k_.body, [&](const Stmt& s) {
      for_each_index(s, collect);
      for_each_head(s, [&](const LoopHead& head) { symbols.insert(head.var); });
    });
    for (const SymbolId symbol : symbols) slot(symbol);
  }

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
  std::string where(const Stmt& s) const { return fmt::format("'{}'", print_stmt(k_, s)); }

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

  char* element(const Stmt& s, BufferId b, std::span<const int64_t> index, bool write = false) {
    Memory& m = memory(b);
    if (index.size() != m.shape.size()) {
      fail(fmt::format("{} has rank {}, {} indices in {}", k_.buffers[b].name, m.shape.size(), index.size(), where(s)));
      return nullptr;
    }
    int64_t offset = 0;
    for (std::size_t a = 0; a < index.size(); ++a) {
      if (index[a] < 0 || index[a] >= m.shape[a]) {
        fail(fmt::format("index {} of axis {} of {} is outside of [0, {}) in {}", index[a], a, k_.buffers[b].name,
                         m.shape[a], where(s)));
        return nullptr;
      }
      offset += index[a] * m.strides[a];
    }
    const EvalBuffer& info = buffers_[b.index];
    if (!active_.empty() && info.space == Space::shared) touch(s, b, offset, write);
    return m.data + offset * static_cast<int64_t>(info.size);
  }

  // Indices from data wrap if negative and are then clamped.
  void clamp(const Load& s, const Stmt& stmt, std::span<int64_t> index) {
    if (s.clamp == 0) return;
    for (std::size_t a = 0; a < index.size(); ++a) {
      if (!(s.clamp >> a & 1)) continue;
      const int64_t size = memory(s.buffer).shape[a];
      const int64_t wrapped = index[a] < 0 ? index[a] + size : index[a];
      if ((wrapped < 0 || wrapped >= size) && out_of_range_.empty()) {
        out_of_range_ = fmt::format("index {} is out of range for axis {} of {}, which has {} elements, in {}",
                                    index[a], a, k_.buffers[s.buffer].name, size, where(stmt));
      }
      index[a] = std::max<int64_t>(0, std::min(wrapped, size - 1));
    }
  }

  void allocate(BufferId b) {
    const Buffer& buffer = k_.buffers[b];
    Memory& m = memory(b);
    m.shape = eval(buffer.shape);
    m.strides = row_major(m.shape);
    int64_t count = 1;
    for (const int64_t e : m.shape) {
      if (e < 0 || __builtin_mul_overflow(count, e, &count) || count > kMaxLocalElements) {
        return fail(fmt::format("{} has a negative or too large extent", buffer.name));
      }
    }
    const std::size_t size = size_of(buffer.dtype);
    m.owned.assign(static_cast<std::size_t>(count) * size, static_cast<char>(0xcd));
    m.data = m.owned.data();
    if (buffer.space == Space::shared) shared_.allocate(b, count);
    if (!is_float(buffer.dtype)) return;
    for (int64_t i = 0; i < count; ++i) {
      store_number(buffer.dtype, m.data + i * static_cast<int64_t>(size),
                   {std::numeric_limits<double>::quiet_NaN(), 0});
    }
  }

  // Statements.

  void block(const Block& body) {
    for (const Stmt& s : body) {
      if (!ok()) return;
      const auto for_all = [&] {
        return std::holds_alternative<Loop>(s.v) || std::holds_alternative<If>(s.v) ||
               std::holds_alternative<Choose>(s.v) || std::holds_alternative<Shuffle>(s.v) ||
               std::holds_alternative<Ballot>(s.v) || std::holds_alternative<Sync>(s.v) || allocates_shared(s);
      };
      const auto execute = [&] { std::visit([&](const auto& own) { run(own, s); }, s.v); };
      if (active_.empty() || for_all()) {
        execute();
      } else {
        each_active(execute);
      }
    }
  }

  bool allocates_shared(const Stmt& s) const {
    const auto* alloc = std::get_if<Alloc>(&s.v);
    return alloc != nullptr && k_.buffers[alloc->buffer].space != Space::reg;
  }

  // Threads in lockstep.

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
  void narrow(const Condition& takes_part, const F& body) {
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
  void run_threads(const Loop& s, const F& body) {
    threads_.assign(static_cast<std::size_t>(s.threads), whole_);
    block_threads_ = s.threads / std::max(1, s.cluster);
    started_ = arrived_ = false;
    reaches_far_ = nullptr;
    shared_.begin(threads_.size(), static_cast<std::size_t>(block_threads_));
    for (Frame& frame : threads_) active_.push_back(&frame);
    each_active([&] { set(kThread, number(frame_)); });
    body();
    active_.clear();
    frame_ = &whole_;
  }

  void run_tasks(const Loop& s) {
    const auto run_one = [&](const Block& body) {
      const auto run_block = [&] { block(body), check_end(); };
      s.threads > 0 ? run_threads(s, run_block) : block(body);
      return ok();
    };
    const std::string wrong = run_in_order(
        s, reinterpret_cast<int32_t*>(memory(s.tasks->counters).data),
        {[&](const IndexExpr& e) { return eval(e); }, [&](VarId var, int64_t v) { set(var, v); }, run_one});
    if (!wrong.empty()) fail(wrong);
  }

  void in_lockstep(const Loop& s) {
    int64_t most = 0;
    std::vector<int64_t> extents(threads_.size());
    const auto extent = [&]() -> int64_t& { return extents[static_cast<std::size_t>(number(frame_))]; };
    each_active([&] { most = std::max(most, extent() = eval(s.head.extent)); });
    for (int64_t i = 0; i < most && ok(); ++i) {
      narrow([&] { return set(s.head.var, i), i < extent(); }, [&] { block(s.body); });
      if (s.head.tag == LoopTag::grid) check_end();
    }
  }

  // A block's shared memory is gone when it ends.
  void check_end() {
    if (!ok()) return;
    if (reaches_far_ != nullptr) fail("a block may end before another one comes to " + where(*reaches_far_));
    if (arrived_) fail("a block ends without a sync.wait");
    if (shared_.has_unread_mailbox()) fail("a block may end before others have stored to its mailbox");
  }

  void sync_all(const Sync& s, const Stmt& stmt) {
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

  void run(const If& s, const Stmt&) {
    if (!active_.empty()) return narrow([&] { return holds(s.condition); }, [&] { block(s.body); });
    if (holds(s.condition)) block(s.body);
  }

  // All threads choose alike.
  void run(const Choose& s, const Stmt&) {
    const int64_t number = eval(s.number);
    if (number < 0 || number >= static_cast<int64_t>(s.among.size())) return;
    const Memory& chosen = memory_[s.among[static_cast<std::size_t>(number)].index];
    Memory& m = memory_[s.buffer.index];
    m.data = chosen.data, m.shape = chosen.shape, m.strides = chosen.strides;
    if (active_.empty()) set(s.head.var, number);
    each_active([&] { set(s.head.var, number); });
    block(s.body);
  }

  // The active threads of each warp, one bit each.
  std::vector<uint32_t> active_by_warp() const {
    std::vector<uint32_t> bits(threads_.size() / 32 + 1);
    for (const Frame* frame : active_) bits[static_cast<std::size_t>(number(frame) / 32)] |= 1u << (number(frame) % 32);
    return bits;
  }

  // Whether the mask is that of the threads that come here. Threads that the block lacks may be in it.
  bool check_mask(const Operand& mask, const std::vector<uint32_t>& active, const Stmt& stmt) {
    const int first = number(frame_) / 32 * 32, in_warp = std::min(32, static_cast<int>(threads_.size()) - first);
    const uint32_t existing = in_warp == 32 ? ~0u : (1u << in_warp) - 1;
    const uint32_t here = active[static_cast<std::size_t>(first / 32)],
                   stated = static_cast<uint32_t>(read(mask, 0).i) & existing;
    if (here == stated) return true;
    fail(fmt::format("the mask {:#x} is not that of the threads {:#x} of the warp that come to {}", stated, here,
                     where(stmt)));
    return false;
  }

  void run(const Shuffle& s, const Stmt& stmt) {
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

  void run(const Ballot& s, const Stmt& stmt) {
    std::map<int, uint32_t> bits;
    const std::vector<uint32_t> active = active_by_warp();
    each_active([&] {
      if (check_mask(s.mask, active, stmt) && holds(s.condition))
        bits[number(frame_) / 32] |= 1u << (number(frame_) % 32);
    });
    each_active([&] { write(s.dst, 0, {0, static_cast<int64_t>(bits[number(frame_) / 32])}); });
  }

  void run(const Sync& s, const Stmt& stmt) {
    if (active_.empty()) return;  // the scheduled form
    if (s.scope != SyncScope::warp) return sync_all(s, stmt);
    std::set<int> warps;
    const std::vector<uint32_t> active = active_by_warp();
    each_active([&] {
      if (check_mask(s.mask, active, stmt)) warps.insert(number(frame_) / 32);
    });
    for (const int warp : warps) shared_.sync_warp(warp);
  }

  void touch(const Stmt& stmt, BufferId b, int64_t offset, bool write) {
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

  // Statements of one thread.

  void run(const Loop& s, const Stmt&) {
    if (s.tasks) return run_tasks(s);
    if (s.threads > 0) return run_threads(s, [&] { in_lockstep(s); });
    if (!active_.empty()) return in_lockstep(s);
    const int64_t n = eval(s.head.extent);
    for (int64_t i = 0; i < n && ok(); ++i) {
      set(s.head.var, i);
      block(s.body);
    }
  }

  void run(const Alloc& s, const Stmt&) { allocate(s.buffer); }

  void run(const Let& s, const Stmt&) {
    const EvalReg& result = regs_[s.dst.index];
    const DType operand = dtype_of(k_, s.args.back());
    Number args[3];
    for (int lane = 0; lane < result.width; ++lane) {
      for (std::size_t i = 0; i < s.args.size(); ++i) args[i] = read(s.args[i], lane);
      write(s.dst, lane, apply(s.op, operand, result.dtype, args, s.args.size()));
    }
  }

  void run(const IndexValue& s, const Stmt&) {
    const EvalReg& result = regs_[s.dst.index];
    for (int lane = 0; lane < result.width; ++lane) {
      set_lane(lane);
      write(s.dst, lane, cast_number(DType::i64, result.dtype, {0, eval(s.value)}));
    }
  }

  void run(const Load& s, const Stmt& stmt) {
    const DType dtype = buffers_[s.buffer.index].dtype;
    for (int lane = 0; lane < regs_[s.dst.index].width && ok(); ++lane) {
      set_lane(lane);
      if (!holds(s.guard)) {
        write(s.dst, lane, make_number(s.otherwise));
        continue;
      }
      const std::span<int64_t> index = eval_index(s.index);
      clamp(s, stmt, index);
      if (const char* at = element(stmt, s.buffer, index)) write(s.dst, lane, load_number(dtype, at));
    }
  }

  void run(const Store& s, const Stmt& stmt) {
    const int width = width_of(k_, s.value);
    for (int lane = 0; lane < width && ok(); ++lane) {
      set_lane(lane);
      if (!holds(s.guard)) continue;
      if (char* at = element(stmt, s.buffer, eval_index(s.index), true)) {
        store_number(buffers_[s.buffer.index].dtype, at, read(s.value, lane));
      }
    }
  }

  void run(const Prefetch&, const Stmt&) {}

  void run(const Reduce& s, const Stmt& stmt) {
    std::vector<int64_t> sizes;
    int64_t count = 1;
    for (const LoopHead& h : s.loops) {
      sizes.push_back(std::max<int64_t>(0, eval(h.extent)));
      count *= sizes.back();
    }
    const int width = width_of(k_, stmt);
    const bool lane_wise = width > 1 && k_.regs[s.dst[0]].width == width;
    const int64_t per_iteration = lane_wise ? 1 : width;
    TupleTypes types{};
    for (std::size_t i = 0; i < s.dst.size() && i < 3; ++i) types[i] = k_.regs[s.dst[i]].dtype;
    std::vector<TreeCombiner> folds(static_cast<std::size_t>(lane_wise ? width : 1),
                                    TreeCombiner(s.combiner, types, s.tree, count * per_iteration));
    for (int64_t i = 0; i < count && ok(); ++i) {
      int64_t rest = i;
      for (std::size_t l = s.loops.size(); l-- > 0; rest /= sizes[l]) set(s.loops[l].var, rest % sizes[l]);
      block(s.body);
      for (int lane = 0; lane < width && ok(); ++lane) {
        set_lane(lane);
        if (!holds(s.guard)) continue;
        Tuple t;
        for (std::size_t y = 0; y < s.yield.size() && y < 3; ++y) t[y] = read(s.yield[y], lane);
        folds[lane_wise ? static_cast<std::size_t>(lane) : 0].add(lane_wise ? i : i * width + lane, t);
      }
    }
    for (std::size_t lane = 0; lane < folds.size(); ++lane) {
      const Tuple t = folds[lane].finish();
      for (std::size_t d = 0; d < s.dst.size() && d < 3; ++d) write(s.dst[d], static_cast<int>(lane), t[d]);
    }
  }

  void run(const Scan& s, const Stmt&) {
    const int64_t n = eval(s.loop.extent);
    const EvalReg& result = regs_[s.dst.index];
    const TupleTypes types{result.dtype, result.dtype, result.dtype};
    std::vector<Tuple> running(static_cast<std::size_t>(result.width), identity(s.combiner, types));
    for (int64_t step = 0; step < n && ok(); ++step) {
      set(s.loop.var, s.reverse ? n - 1 - step : step);
      block(s.body);
      for (int lane = 0; lane < result.width; ++lane) {
        Tuple& r = running[static_cast<std::size_t>(lane)];
        const Tuple next = combine(s.combiner, types, r, {read(s.yield, lane)});
        write(s.dst, lane, s.exclusive ? r[0] : next[0]);
        r = next;
      }
      block(s.then);
    }
  }

  void run(const TransposeTile& s, const Stmt& stmt) {
    const DType dtype = k_.buffers[s.dst].dtype;
    const std::vector<int64_t> shape = memory(s.src).shape;
    if (shape.size() != 2) return fail("a transposed tile has two axes, in " + where(stmt));
    for (int64_t i = 0; i < shape[0] && ok(); ++i) {
      for (int64_t j = 0; j < shape[1] && ok(); ++j) {
        const char* from = element(stmt, s.src, std::array{i, j});
        char* to = element(stmt, s.dst, std::array{j, i}, true);
        if (from != nullptr && to != nullptr) std::memmove(to, from, size_of(dtype));
      }
    }
  }

  void run(const CopyAsync& s, const Stmt& stmt) {
    const std::vector<int64_t> box = eval(s.extents), to = eval(s.dst_index), from = eval(s.src_index);
    std::vector<int64_t> position(box.size(), 0);
    if (std::any_of(box.begin(), box.end(), [](int64_t e) { return e <= 0; })) return;
    for (bool more = true; more && ok();) {
      const char* source = element(stmt, s.src, inside(from, position));
      char* target = element(stmt, s.dst, inside(to, position));
      if (source != nullptr && target != nullptr) std::memcpy(target, source, size_of(k_.buffers[s.dst].dtype));
      more = false;
      for (std::size_t a = box.size(); a-- > 0 && !more;) {
        more = ++position[a] < box[a];
        if (!more) position[a] = 0;
      }
    }
  }

  void run(const Mma& s, const Stmt& stmt) {
    const std::vector<int64_t> a_index = eval(s.a_index), b_index = eval(s.b_index);
    const int64_t lane = eval(s.lane), g = lane / 4, t = lane % 4;
    const auto at = [&](BufferId b, std::vector<int64_t> index, int64_t row, int64_t term) {
      index[index.size() - 2] += row;
      index.back() += term;
      const char* p = element(stmt, b, index);
      return p == nullptr ? 0.0 : load_number(k_.buffers[b].dtype, p).f;
    };
    for (int64_t i = 0; i < kMmaResults; ++i) {
      double sum = read(s.c, static_cast<int>(i)).f;
      for (int64_t k = 0; k < kMmaTerms && ok(); ++k)
        sum += at(s.a, a_index, g + 8 * (i / 2), k) * at(s.b, b_index, 2 * t + i % 2, k);
      write(s.dst, static_cast<int>(i), cast_number(DType::f64, DType::f32, {sum, 0}));
    }
  }

  void run(const TileProduct& s, const Stmt& stmt) {
    std::vector<int64_t> at = eval(s.sums_index);
    const std::size_t axes = at.size();
    at.insert(at.end(), {0, 0, 0});
    const std::vector<int64_t>& shape = memory(s.sums).shape;
    if (shape.size() != at.size()) return fail("the sums are no tile in " + where(stmt));
    const int64_t t = eval(s.thread), terms = eval(s.terms), rows = eval(s.rows), columns = eval(s.columns);
    const DType dtype = buffers_[s.a.index].dtype;
    // The terms of a row, all inside of the buffer.
    const auto read_row = [&](BufferId b, const std::vector<IndexExpr>& index, int64_t offset) {
      std::vector<int64_t> first = eval(index);
      first.back() += offset;
      std::vector<double> values(static_cast<std::size_t>(terms));
      for (double& value : values) {
        const char* p = element(stmt, b, first);
        if (p != nullptr) value = load_number(dtype, p).f;
        ++first.back();
      }
      return values;
    };
    for (int64_t half = 0; half < shape[axes] * 2 && ok(); ++half) {
      const int64_t m = at[axes] = half / 2;
      const int64_t row = kTileRows * m + 16 * (t / 32) + t % 32 / 4 + 8 * (half % 2);
      const bool has_row = row < rows;
      std::vector<double> a;
      if (has_row) a = read_row(s.a, s.a_index, row * eval(s.a_pitch));
      for (int64_t pair = 0; pair < shape[axes + 1] * 2 && ok(); ++pair) {
        const int64_t g = at[axes + 1] = pair / 2, column = kTileColumns * g + 2 * (t % 4) + pair % 2;
        at[axes + 2] = 2 * (half % 2) + pair % 2;
        double sum = 0;
        if (has_row && column < columns) {
          const std::vector<double> b = read_row(s.b, s.b_index, column * eval(s.b_pitch));
          for (std::size_t k = 0; k < b.size(); ++k) sum += a[k] * b[k];
        }
        if (char* to = element(stmt, s.sums, at, true))
          store_number(DType::f32, to, cast_number(DType::f64, DType::f32, {sum, 0}));
      }
    }
  }

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

Status misfit(const Buffer& b, std::string_view what) {
  return Status(StatusCode::invalid_argument, fmt::format("argument {}: {}", b.name, what));
}

Status Interpreter::bind(const std::vector<Tensor>& args) {
  if (args.size() != k_.params.size()) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{} arguments for {} parameters", args.size(), k_.params.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Buffer& b = k_.buffers[k_.params[i]];
    Tensor t = args[i];
    Memory& m = memory_[k_.params[i].index];
    m.shape = eval(b.shape);
    const std::vector<int64_t> strides = b.strides.empty() ? row_major(m.shape) : eval(b.strides);
    if (!ok()) return std::move(status_);
    if (t.dtype() != b.dtype) return misfit(b, fmt::format("is {}, not {}", to_string(t.dtype()), to_string(b.dtype)));
    if (t.shape() != m.shape) return misfit(b, "has another shape");
    for (std::size_t a = 0; a < strides.size(); ++a) {
      if (m.shape[a] > 1 && t.num_elements() > 0 && t.strides()[a] != strides[a]) return misfit(b, "has other strides");
    }
    m.strides = strides;
    m.data = static_cast<char*>(t.data());
  }
  return {};
}

}  // namespace

Result<std::monostate> evaluate(const Kernel& kernel, const std::vector<Tensor>& args,
                                const std::map<std::string, int64_t>& extents) {
  return guarded([&]() -> Result<std::monostate> {
    FUSEC_TRY(check_extents(kernel, extents));
    Interpreter machine(kernel, extents);
    FUSEC_TRY(machine.bind(args));
    FUSEC_TRY(machine.run());
    if (!machine.out_of_range_.empty()) return Status(StatusCode::invalid_argument, machine.out_of_range_);
    return std::monostate();
  });
}

}  // namespace fusec::ir
