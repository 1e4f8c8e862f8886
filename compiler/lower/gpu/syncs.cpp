// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: places barriers between statements of a thread block that conflict on an element of a shared buffer.
// Which thread touches which element is found by going through all threads, loop iterations and lanes.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/eval/index_code.h"
#include "ir/kernel/mailbox.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {
namespace {

using ir::IndexExpr;

// Who has touched an element since the last sync of the whole team: nobody, one thread, threads of one warp, those of
// one block, or of several blocks of a cluster. `warp_synced` and `block_synced`: before the last sync of that scope.
struct Toucher {
  enum class Kind : uint8_t { none, thread, warp, warp_synced, block, block_synced, many };
  Kind kind = Kind::none;
  int first = 0;  // the lowest thread of the thread, warp or block

  int warp() const { return first / 32; }
  bool is_of_block() const { return kind == Kind::block || kind == Kind::block_synced; }
  bool operator==(const Toucher&) const = default;
};

enum class Need : uint8_t { none, warp, block, cluster };

// The threads of a block, or of the blocks of a cluster.
struct Team {
  int threads = 1, block = 1;  // all, and those of a block

  int block_of(const Toucher& t) const { return t.first / block; }
  Toucher anybody() const { return {threads > block ? Toucher::Kind::many : Toucher::Kind::block, 0}; }

  Toucher merge(const Toucher& a, const Toucher& b) const {
    using Kind = Toucher::Kind;
    if (a == b || b.kind == Kind::none) return a;
    if (a.kind == Kind::none) return b;
    if (a.kind == Kind::many || b.kind == Kind::many || block_of(a) != block_of(b)) return {Kind::many, 0};
    if (a.is_of_block() || b.is_of_block() || a.warp() != b.warp()) return {Kind::block, block_of(a) * block};
    return {Kind::warp, a.warp() * 32};
  }

  // What must stand between an earlier access of `before` and one of `now`, one of them a write.
  Need need_between(const Toucher& before, const Toucher& now) const {
    using Kind = Toucher::Kind;
    if (before.kind == Kind::none || now.kind == Kind::none) return Need::none;
    if (before.kind == Kind::many || now.kind == Kind::many || block_of(before) != block_of(now)) return Need::cluster;
    if (before.kind == Kind::block_synced) return Need::none;
    if (before.is_of_block() || now.is_of_block() || before.warp() != now.warp()) return Need::block;
    return before.kind == Kind::warp_synced || (before.kind == Kind::thread && before == now) ? Need::none : Need::warp;
  }

  // What is left to wait for behind a sync of the scope.
  Toucher synced(const Toucher& t, Need scope) const {
    using Kind = Toucher::Kind;
    if (t.kind == Kind::none || t.kind == Kind::many) return t;
    if (scope == Need::block) return {Kind::block_synced, block_of(t) * block};
    return t.is_of_block() ? t : Toucher{Kind::warp_synced, t.warp() * 32};
  }
};

// Elements of one buffer, in memory order, at the same distance from where it begins: one that all threads agree on,
// but which is known on the device alone.
using Place = std::pair<BufferId, IndexExpr>;
struct Elements {
  std::vector<Toucher> touchers;
  bool own = true;  // each thread touches its own block's part alone, as there is none else outside of clusters

  void add(const Team& team, const Elements& other) {
    touchers.resize(std::max(touchers.size(), other.touchers.size()));
    own &= other.own;
    for (size_t i = 0; i < other.touchers.size(); ++i) touchers[i] = team.merge(touchers[i], other.touchers[i]);
  }
  bool has_unsynced() const {
    return std::any_of(touchers.begin(), touchers.end(), [](const Toucher& t) {
      return t.kind != Toucher::Kind::none && t.kind != Toucher::Kind::block_synced;
    });
  }
};
using Accesses = std::map<Place, Elements>;

Need need_between(const Team& team, const Elements& before, const Elements& now) {
  Need need = Need::none;
  const size_t count = std::min(before.touchers.size(), now.touchers.size());
  for (size_t i = 0; i < count && need != Need::cluster; ++i)
    need = std::max(need, team.need_between(before.touchers[i], now.touchers[i]));
  return need;
}

// Of elements at two distances.
Need need_apart(const Elements& before, const Elements& now) {
  if (before.own && now.own) return before.has_unsynced() && now.has_unsynced() ? Need::block : Need::none;
  return Need::cluster;
}

struct Touched {
  Accesses read, written;

  void add(const Team& team, const Touched& other) {
    for (const auto& [from, to] : {std::pair{&other.read, &read}, {&other.written, &written}}) {
      for (const auto& [place, elements] : *from) (*to)[place].add(team, elements);
    }
  }
  void sync(const Team& team, Need scope) {
    for (auto* map : {&read, &written})
      for (auto& [place, elements] : *map)
        for (Toucher& t : elements.touchers) t = team.synced(t, scope);
  }
};

Need need_between(const Team& team, const Accesses& before, const Accesses& now) {
  Need need = Need::none;
  for (const auto& [place, elements] : now)
    for (const auto& [other, earlier] : before) {
      if (other.first != place.first) continue;
      const bool same = other.second == place.second;
      need = std::max(need, same ? need_between(team, earlier, elements) : need_apart(earlier, elements));
    }
  return need;
}
Need need_between(const Team& team, const Touched& before, const Touched& now) {
  return std::max({need_between(team, before.written, now.read), need_between(team, before.read, now.written),
                   need_between(team, before.written, now.written)});
}

// More points than this are not gone through: every thread may touch every element.
constexpr int64_t kMaxPoints = int64_t{1} << 18;

// Goes through the values of the symbols that an access depends on.
class Points {
 public:
  Points(int threads, int width, const std::vector<LoopHead>& loops) {
    add(ir::kThread, threads);
    add(ir::kLane, width);
    for (const LoopHead& head : loops)
      if (head.extent.is_const()) add(head.var, std::max<int64_t>(0, head.extent.value()));
  }

  bool knows(const IndexExpr& e) const {
    std::set<ir::SymbolId> symbols;
    e.collect_symbols(symbols);
    return std::all_of(symbols.begin(), symbols.end(), [&](ir::SymbolId s) { return slot_of_.contains(s); });
  }
  void use(const IndexExpr& e) {
    std::set<ir::SymbolId> symbols;
    e.collect_symbols(symbols);
    used_.insert(symbols.begin(), symbols.end());
  }
  ir::IndexCode code(const IndexExpr& e) const {
    return ir::IndexCode(e, [&](ir::SymbolId s) { return slot_of_.at(s); });
  }
  const std::vector<int64_t>& values() const { return values_; }
  int thread() const { return static_cast<int>(values_[0]); }

  // Calls f at every point that differs in the thread or in a symbol used; false if there are too many.
  template <class F>
  bool each(const F& f) {
    int64_t count = 1;
    std::vector<size_t> moving;
    for (const auto& [symbol, slot] : slot_of_) {
      if (symbol != ir::kThread && !used_.contains(symbol)) continue;
      moving.push_back(static_cast<size_t>(slot));
      count *= counts_[static_cast<size_t>(slot)];
      if (count > kMaxPoints) return false;
    }
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n;
      for (const size_t slot : moving) values_[slot] = rest % counts_[slot], rest /= counts_[slot];
      f();
    }
    return true;
  }

 private:
  void add(ir::SymbolId symbol, int64_t count) {
    slot_of_[symbol] = static_cast<int>(counts_.size());
    counts_.push_back(count);
    values_.push_back(0);
  }

  std::map<ir::SymbolId, int> slot_of_;
  std::vector<int64_t> counts_, values_;
  std::set<ir::SymbolId> used_;
};

class SyncPlacer {
 public:
  SyncPlacer(ir::Kernel& kernel, const ir::Loop& grid)
      : kernel_(kernel), team_{static_cast<int>(grid.threads), static_cast<int>(grid.threads / grid.cluster)} {}

  // Handles statements that all threads of the team run. `pending`: what was touched since the last sync of all.
  void run(Block& body, Touched& pending) {
    Block result;
    for (Stmt& stmt : body) {
      auto* loop = std::get_if<ir::Loop>(&stmt.v);
      if (loop != nullptr && is_uniform(loop->head.extent) && !is_free_of_conflicts(stmt)) {
        around(*loop, pending);
      } else if (auto* branch = std::get_if<ir::If>(&stmt.v); branch != nullptr && is_uniform(branch->condition)) {
        const Touched before = pending;
        run(branch->body, pending);
        pending.add(team_, before);
      } else {
        before_stmt(stmt, pending, result);
      }
      result.push_back(std::move(stmt));
    }
    body = std::move(result);
  }

  // No block of a cluster ends while another one may still touch its memory. What comes behind the last such access
  // need not wait.
  void end(Block& body) {
    if (team_.threads == team_.block) return;
    for (size_t i = body.size(); i-- > 0;) {
      Touched own;
      touch(body[i], own);
      if (own.read.empty() && own.written.empty()) continue;
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(i) + 1, {ir::Sync{ir::SyncScope::arrive}});
      body.push_back({ir::Sync{ir::SyncScope::wait}});
      return;
    }
  }

  // No block stores to the mailbox of another one before that one has begun.
  void begin(Block& body) {
    size_t first = 0, mail = 0;
    while (first < body.size() && std::holds_alternative<ir::Alloc>(body[first].v)) ++first;
    for (mail = first; mail < body.size() && !stores_mail(body[mail]); ++mail) {
      const auto* sync = std::get_if<ir::Sync>(&body[mail].v);
      if (sync != nullptr && sync->scope == ir::SyncScope::cluster) return;
    }
    if (mail == body.size()) return;
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(mail), {ir::Sync{ir::SyncScope::wait}});
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(first), {ir::Sync{ir::SyncScope::arrive}});
  }

  std::string problem;

 private:
  bool stores_mail(const Stmt& stmt) const {
    const auto* store = std::get_if<ir::Store>(&stmt.v);
    if (store != nullptr) return ir::is_mailbox(kernel_.buffers[store->buffer]);
    const std::vector<const Block*> nested = ir::nested_blocks(stmt);
    return std::any_of(nested.begin(), nested.end(), [&](const Block* block) {
      return std::any_of(block->begin(), block->end(), [&](const Stmt& inner) { return stores_mail(inner); });
    });
  }

  void before_stmt(const Stmt& stmt, Touched& pending, Block& out) {
    Touched own;
    touch(stmt, own);
    const Need need = need_before(stmt, pending, own);
    if (need == Need::cluster) {
      out.push_back({ir::Sync{ir::SyncScope::cluster}});
      pending = {};
    } else if (need != Need::none) {
      out.push_back({ir::Sync{need == Need::block ? ir::SyncScope::block : ir::SyncScope::warp}});
      pending.sync(team_, need);
    }
    pending.add(team_, own);
  }

  static bool waits_for_copies(const Stmt& stmt) {
    const auto* sync = std::get_if<ir::Sync>(&stmt.v);
    return sync != nullptr && sync->scope == ir::SyncScope::copies;
  }

  // Copies write over elements from where they begin: a sync in front of them keeps readers apart, none in front of the
  // wait is needed.
  Need need_before(const Stmt& stmt, const Touched& before, const Touched& now) const {
    return waits_for_copies(stmt) ? Need::none : need_between(team_, before, now);
  }

  // Whether a loop needs no sync inside. Then one in front of it is enough.
  bool is_free_of_conflicts(const Stmt& loop) {
    const std::string before = std::exchange(problem, "");
    Touched own;
    touch(loop, own);
    return std::exchange(problem, before).empty();
  }

  // Handles a loop that the whole block runs. The end of an iteration may conflict with the beginning of the next one.
  void around(ir::Loop& loop, Touched& pending) {
    const Touched before = pending;
    Touched end = pending;
    Block first = loop.body;
    loops_.push_back(loop.head);
    run(first, end);
    pending.add(team_, end);
    run(loop.body, pending);
    loops_.pop_back();
    if (!proves_nonneg(loop.head.extent - 1, {})) pending.add(team_, before);
  }

  static bool is_uniform(const IndexExpr& e) {
    std::set<ir::SymbolId> symbols;
    e.collect_symbols(symbols);
    return std::none_of(symbols.begin(), symbols.end(),
                        [](ir::SymbolId s) { return s == ir::kThread || s.reg().has_value(); });
  }
  static bool is_uniform(const ir::Guard& condition) {
    return std::all_of(condition.begin(), condition.end(), [](const IndexExpr& e) { return is_uniform(e); });
  }

  // Adds what the statement touches, nested ones included. No sync can stand inside of it.
  void touch(const Stmt& stmt, Touched& own) {
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) {
      loops_.push_back(loop->head);
      touch_block(stmt, loop->body, own, true);
      loops_.pop_back();
    } else if (const auto* branch = std::get_if<ir::If>(&stmt.v)) {
      conditions_.push_back(branch->condition);
      touch_block(stmt, branch->body, own, false);
      conditions_.pop_back();
    } else if (const auto* load = std::get_if<ir::Load>(&stmt.v)) {
      access(load->buffer, load->index, load->guard, ir::width_of(kernel_, stmt), own.read);
    } else if (const auto* store = std::get_if<ir::Store>(&stmt.v)) {
      access(store->buffer, store->index, store->guard, ir::width_of(kernel_, stmt), own.written);
    } else if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) {
      std::vector<IndexExpr> index = copy->dst_index;
      index.back() += IndexExpr::symbol(ir::kLane);
      const auto width = static_cast<int>(copy->extents[0].value());
      access(copy->dst, index, {}, width, own.written);
      access(copy->dst, index, {}, width, copied_);
    } else if (waits_for_copies(stmt)) {
      for (const auto& [place, elements] : copied_) own.written[place].add(team_, elements);
    } else if (const auto* mma = std::get_if<ir::Mma>(&stmt.v)) {
      const IndexExpr term = IndexExpr::symbol(ir::kLane);
      for (int64_t i : {0, 1}) {
        const IndexExpr row = floordiv(mma->lane, 4) + i * ir::kMmaRows / 2, column = mod(mma->lane, 4) * 2 + i;
        access(mma->a, element_of_a(*mma, row, term), {}, ir::kMmaTerms, own.read);
        access(mma->b, element_of_b(*mma, column, term), {}, ir::kMmaTerms, own.read);
      }
    }
  }

  void touch_block(const Stmt& stmt, const Block& body, Touched& own, bool repeats) {
    Touched inside;
    for (int round = 0; round < (repeats ? 2 : 1); ++round) {
      for (const Stmt& inner : body) {
        Touched next;
        touch(inner, next);
        if (need_before(inner, inside, next) != Need::none && problem.empty()) {
          problem = "cannot lower '" + print_stmt(kernel_, stmt) + "': '" + print_stmt(kernel_, inner) +
                    "' needs a barrier where not all threads of the block come";
        }
        inside.add(team_, next);
      }
    }
    own.add(team_, inside);
  }

  void access(BufferId id, const std::vector<IndexExpr>& index, const ir::Guard& guard, int width, Accesses& out) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    if (buffer.space != ir::Space::shared || ir::is_mailbox(buffer)) return;
    // Bodies of loops are gone through several times.
    auto [known, is_new] = accesses_.try_emplace(key_of(id, index, guard, width));
    if (is_new) known->second = touched_by(id, index, guard, width);
    out[{id, known->second.first}].add(team_, known->second.second);
  }

  // All that touched_by depends on.
  struct Key {
    BufferId buffer;
    int width = 1;
    std::vector<IndexExpr> values;  // the index, and what must not be negative
    std::vector<std::pair<ir::VarId, IndexExpr>> loops;
    bool operator<(const Key& o) const {
      return std::tie(buffer, width, values, loops) < std::tie(o.buffer, o.width, o.values, o.loops);
    }
  };
  Key key_of(BufferId id, const std::vector<IndexExpr>& index, const ir::Guard& guard, int width) const {
    Key key{id, width, index, {}};
    const auto append = [&](const ir::Guard& more) { key.values.insert(key.values.end(), more.begin(), more.end()); };
    append(guard);
    for (const ir::Guard& condition : conditions_) append(condition);
    for (const LoopHead& head : loops_) key.loops.emplace_back(head.var, head.extent);
    return key;
  }

  // The elements that an access touches, and their distance from where the buffer begins.
  std::pair<IndexExpr, Elements> touched_by(BufferId id, const std::vector<IndexExpr>& index, const ir::Guard& guard,
                                            int width) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    const IndexExpr extents = num_elements(buffer.shape);
    const auto count = static_cast<size_t>(extents.is_const() ? extents.value() : 1);
    IndexExpr linear = 0;
    for (size_t i = 0; i < index.size(); ++i) linear = linear * buffer.shape[i] + index[i];
    const auto [known, distance] = take_apart(linear, width);
    Elements own;
    own.touchers.resize(count);
    own.own = stays_in_block(buffer, index);
    if (!extents.is_const() || !go_through(known, distance.is(0), guard, width, own.touchers)) {
      own.touchers.assign(count, team_.anybody());
      if (own.own && team_.threads > team_.block)
        for (size_t i = 0; i < count; ++i)
          own.touchers[i] = {Toucher::Kind::block, static_cast<int>(i * blocks() / count) * team_.block};
    }
    return {distance, std::move(own)};
  }

  int blocks() const { return team_.threads / team_.block; }

  // An index as what is known here of each thread and iteration, and what all threads agree on.
  std::pair<IndexExpr, IndexExpr> take_apart(const IndexExpr& index, int width) const {
    if (index.is_const()) return {index, 0};
    const Points points(team_.threads, width, loops_);
    IndexExpr known = 0, distance = 0;
    for (const IndexExpr::Term& term : index.terms()) {
      const IndexExpr own = IndexExpr::from_terms({term});
      (points.knows(own) || !is_common(own) ? known : distance) += own;
    }
    return {known, distance};
  }

  bool is_common(const IndexExpr& e) const {
    return is_uniform(e) && !e.uses(ir::kLane) &&
           std::none_of(loops_.begin(), loops_.end(), [&](const LoopHead& head) { return e.uses(head.var); });
  }

  // Whether each thread touches the part of its own block alone, wherever in it.
  bool stays_in_block(const ir::Buffer& buffer, const std::vector<IndexExpr>& index) const {
    if (team_.threads == team_.block) return true;
    if (index.size() < 2 || !buffer.shape[0].is(blocks())) return false;
    Points points(team_.threads, 1, {});
    if (!points.knows(index[0])) return false;
    points.use(index[0]);
    const ir::IndexCode at = points.code(index[0]);
    bool stays = true;
    points.each([&] { stays &= at.eval(points.values()) == points.thread() / team_.block; });
    return stays;
  }

  // `is_whole`: the index is no part of one, so that what lies outside of the buffer is not touched.
  bool go_through(const IndexExpr& linear, bool is_whole, const ir::Guard& guard, int width,
                  std::vector<Toucher>& elements) {
    Points points(team_.threads, width, loops_);
    if (!points.knows(linear)) return false;
    points.use(linear);
    std::vector<ir::IndexCode> conditions;
    const auto add = [&](const IndexExpr& e) {
      if (points.knows(e)) points.use(e), conditions.push_back(points.code(e));
    };
    std::for_each(guard.begin(), guard.end(), add);
    for (const ir::Guard& condition : conditions_) std::for_each(condition.begin(), condition.end(), add);
    const ir::IndexCode at = points.code(linear);
    bool inside = true;
    const bool few = points.each([&] {
      for (const ir::IndexCode& c : conditions)
        if (c.eval(points.values()) < 0) return;
      const int64_t i = at.eval(points.values());
      if (i < 0 || i >= static_cast<int64_t>(elements.size())) {
        inside &= is_whole;
        return;
      }
      Toucher& t = elements[static_cast<size_t>(i)];
      t = team_.merge(t, {Toucher::Kind::thread, points.thread()});
    });
    return few && inside;
  }

  ir::Kernel& kernel_;
  const Team team_;
  std::vector<LoopHead> loops_;        // around the statement, in the block
  std::vector<ir::Guard> conditions_;  // of the ifs that not all threads take, around the statement
  std::map<Key, std::pair<IndexExpr, Elements>> accesses_;
  Accesses copied_;  // by asynchronous copies so far: a wait may be the one that they land at
};

}  // namespace

std::string place_syncs(ir::Kernel& kernel) {
  for (Stmt& stmt : kernel.body) {
    auto* grid = std::get_if<ir::Loop>(&stmt.v);
    if (grid == nullptr || grid->threads <= 1) continue;
    std::vector<Block*> bodies = {&ir::innermost_grid(*grid).body};
    if (grid->tasks) bodies = {};
    if (grid->tasks)
      for (Stmt& pass : ir::innermost_grid(*grid).body) bodies.push_back(&std::get<ir::Loop>(pass.v).body);
    for (Block* body : bodies) {
      SyncPlacer placer(kernel, *grid);
      Touched pending;
      placer.run(*body, pending);
      placer.end(*body);
      placer.begin(*body);
      if (!placer.problem.empty()) return placer.problem;
    }
  }
  return {};
}

}  // namespace fusec::compiler
