// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules element-wise nests of several loops. A thread block takes a box of the iterations, and its
// threads are numbered by the box's sides, which are constants: no thread divides to find its row. A thread takes
// several accesses along one loop, and loads what does not move with that loop once for all of them.

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kVectorLoad = 8;     // what a load of several elements weighs against one of a single element
constexpr int kMaxNeighbours = 8;  // of windows, that a thread takes
constexpr int kMaxThreads = 256;   // of a block
constexpr int kMaxSteps = 4;       // of a thread, where loads are not shared
constexpr int kFewSteps = 2;       // of a thread, whether there are few results or many
constexpr int kManyPlaces = 50;    // loads of a window with as much arithmetic, those of weights among them
constexpr int64_t kLine = 128;     // bytes of a cache line
constexpr int kFewThreads = 8;     // that load neighbouring elements of a window
constexpr int kLaneSteps = 32;     // of the share of lanes that have work: less makes no difference

// One loop of the nest. A block takes `threads` * `steps` accesses of `lanes` elements along it.
struct BoxSide {
  LoopHead head;
  int lanes = 1;
  int64_t count = 0;  // of accesses, as far as known
  int64_t threads = 1;
  int steps = 1;
  VarId grid, thread;

  int64_t covered() const { return threads * steps * lanes; }  // elements
};

class BoxSchedule {
 public:
  BoxSchedule(const Scheduling& s, const PerfectNest& nest, const PointShape& shape)
      : s_(s), k_(s.kernel), nest_(nest), shape_(shape) {
    for (const LoopHead& head : nest_.heads) {
      const auto known = known_value(s_, head.extent);
      sides_.push_back({head, 1, known.value_or(kUnknown), 1, 1, add_var(k_), add_var(k_)});
    }
    BoxSide& inner = sides_.back();
    inner_known_ = inner.count != kUnknown;
    inner.lanes = shape_.lanes;
    inner.count /= inner.lanes;
  }

  bool suits() const {
    const bool plain = std::all_of(nest_.body.begin(), nest_.body.end(), [](const Stmt& stmt) {
      return nested_blocks(stmt).empty() && !std::holds_alternative<ir::Alloc>(stmt.v);
    });
    // Where all loops are one, a block's accesses follow each other anyway.
    const bool steps = sides_.size() > 1 || (shape_.unroll > 1 && !shape_.heavy &&
                                             divisible_by(k_, nest_.heads.back().extent, shape_.lanes));
    return plain && steps && inner_known_ &&
           std::all_of(sides_.begin(), sides_.end(), [](const BoxSide& side) { return side.count > 0; });
  }

  Block run() {
    choose_slide();
    choose_accesses();
    choose_threads();
    if (!slides_) choose_steps();
    std::vector<IndexExpr> left;
    for (const BoxSide& side : sides_)
      if (!fits(side)) left.push_back(whole_tiles_left(side.head.extent, side.covered(), box(side)));
    Block body;
    const bool is_long = shape_.heavy || slides_;
    if (left.empty() || !is_long) body = threads(false);
    if (!left.empty()) body = is_long ? threads(true) : whole_or_partial(k_, left, std::move(body), threads(true));
    std::vector<LoopHead> grid;
    for (const BoxSide& side : sides_)
      if (!boxes(side).is(1)) grid.push_back({LoopTag::grid, side.grid, boxes(side)});
    if (grid.empty()) grid.push_back({LoopTag::grid, sides_[0].grid, 1});
    Block result;
    result.push_back(rebuild_loops(grid, std::move(body)));
    return result;
  }

 private:
  static constexpr int64_t kUnknown = int64_t{1} << 20;

  static IndexExpr boxes(const BoxSide& side) { return ceildiv(side.head.extent, side.covered()); }
  static IndexExpr box(const BoxSide& side) { return boxes(side).is(1) ? IndexExpr(0) : IndexExpr::symbol(side.grid); }
  bool fits(const BoxSide& side) const { return divisible_by(k_, side.head.extent, side.covered()); }

  // --- the box -----------------------------------------------------------------------------------------------------

  // `count` in equal parts of at most `most`; many parts need not be equal.
  static int64_t part(int64_t count, int64_t most) {
    if (count >= 8 * most) return most;
    const int64_t parts = (count + most - 1) / most;
    return (count + parts - 1) / parts;
  }

  // Where most loads move as windows along an outer loop, a thread takes neighbours along it. Where there is work for
  // many threads, it takes the rows of the window in a loop: else all rows should be under way at once.
  void choose_slide() {
    if (!find_window(2)) return;
    const int wanted = count_loads() < kManyPlaces ? kMaxNeighbours / 2 : kMaxNeighbours;
    const int most = decide(s_, &ScheduleChoice::accesses, choose_neighbours(wanted));
    int steps = static_cast<int>(part(sides_[stepped_].count, most));
    while (steps > 1 && !find_window(steps)) steps /= 2;
    Block body = nest_.body;
    share_windows(k_, nest_.heads, sides_[stepped_].head.var, body);
    rolls_ = (most >= wanted || count_loads() > 2 * kManyPlaces) && has_rows(k_, nest_.heads, body);
    slides_ = steps > 1 || rolls_;
    sides_[stepped_].steps = steps;
  }

  // As many as leave work for a quarter of the threads that the machine holds: such a body has registers for no more.
  // Where a window has many places, arithmetic takes longer than memory, and many neighbours share its conversions.
  int choose_neighbours(int wanted) const {
    const int64_t threads = int64_t{s_.target.sm_count} * s_.target.threads_per_sm / 4;
    const IndexExpr results = count_results();
    if (const auto known = typical_value(s_, results)) {
      int steps = wanted;
      while (steps > 1 && *known / shape_.lanes < steps * threads) steps /= 2;
      return steps;
    }
    return has_many(s_, results, kMaxNeighbours / 2 * threads * shape_.lanes, false) ? wanted : kMaxNeighbours / 4;
  }

  IndexExpr count_results() const {
    IndexExpr results = 1;
    for (const BoxSide& side : sides_) results *= side.head.extent;
    return results;
  }

  int64_t count_loads() const {
    return std::count_if(nest_.body.begin(), nest_.body.end(),
                         [](const Stmt& stmt) { return std::holds_alternative<ir::Load>(stmt.v); });
  }

  // Finds the side along which most loads share what they read, if many do and if `steps` neighbours divide it well.
  bool find_window(int steps) {
    const int64_t loads = count_loads();
    int most = 0;
    for (size_t i = 0; i + 1 < sides_.size(); ++i) {
      Block body = nest_.body;
      const int shared = share_windows(k_, nest_.heads, sides_[i].head.var, body);
      const int64_t covered = (sides_[i].count + steps - 1) / steps * steps;
      const int once = shared + fixed_loads(sides_[i].head.var);
      if (shared < 2 || 4 * once < loads || shared < most || 4 * covered > 5 * sides_[i].count) continue;
      most = shared;
      stepped_ = i;
    }
    return most > 0;
  }

  int fixed_loads(VarId var) const {
    return static_cast<int>(std::count_if(nest_.body.begin(), nest_.body.end(), [&](const Stmt& stmt) {
      return std::holds_alternative<ir::Load>(stmt.v) && !mentions(stmt, var);
    }));
  }

  // The largest block, and the accesses of a thread. Where the number of iterations is not known, their share of the
  // threads that the machine holds decides, as it does in point_shape. A model has many different concats, and each is
  // compiled once, whatever its size: two accesses are faster than one with 1 and with 64 images of densenet121.
  void choose_accesses() {
    threads_ = std::min(shape_.threads, kMaxThreads), steps_ = shape_.steps;
    if (slides_ || sides_.size() == 1) return;
    const IndexExpr results = count_results();
    if (known_value(s_, results)) return;
    if (s_.shares_launch) {
      steps_ = std::max(steps_, kFewSteps);
      return;
    }
    const int64_t machine = int64_t{s_.target.sm_count} * s_.target.threads_per_sm;
    if (!has_many(s_, results, kMaxSteps * machine * shape_.lanes, false)) return;
    steps_ = kMaxSteps;
    if (!shape_.heavy) threads_ = decide(s_, &ScheduleChoice::threads, kMaxThreads);
  }

  // How many threads cover a side.
  static int64_t needed(const BoxSide& side) { return (side.count + side.steps - 1) / side.steps; }

  // Threads go along the inner loop first, then along the loops around it.
  void choose_threads() {
    if (rolls_ && choose_window_threads()) return;
    int64_t room = threads_;
    for (size_t i = sides_.size(); i-- > 0 && room > 1;) {
      BoxSide& side = sides_[i];
      side.threads = part(needed(side), room);
      const int64_t line = kLine / kAccessBytes;
      if (i + 1 == sides_.size() && side.threads < side.count) side.threads = (side.threads + line - 1) / line * line;
      if (!slides_) stepped_ = i;
      if (side.threads < needed(side)) return;
      room /= side.threads;
    }
  }

  // The share of a block's lanes that have work, if `threads` of them go along the last sides, the innermost one first.
  double used_lanes(const std::vector<int64_t>& threads) const {
    double used = 1, block = 1;
    for (size_t i = 0; i < threads.size(); ++i) {
      const int64_t count = needed(sides_[sides_.size() - 1 - i]), t = threads[i];
      used *= static_cast<double>(count) / static_cast<double>((count + t - 1) / t * t);
      block *= static_cast<double>(t);
    }
    return used * block / (std::ceil(block / kWarp) * kWarp);
  }

  // Loops over rows of windows take as long wherever their threads go, so lanes without work decide: few, then blocks
  // that are large, then long accesses of neighbouring threads. False: too few iterations are known.
  bool choose_window_threads() {
    const auto most = [&](size_t from_inner, int64_t room) -> int64_t {
      if (from_inner >= sides_.size()) return 1;
      const BoxSide& side = sides_[sides_.size() - 1 - from_inner];
      return side.count == kUnknown ? 1 : std::min(needed(side), room);
    };
    std::tuple<int64_t, int64_t, int64_t> best{};  // lanes, threads, those along the inner loop
    std::vector<int64_t> chosen;
    const int64_t longest = most(0, threads_);
    for (int64_t a = longest; a >= std::min<int64_t>(longest, kFewThreads); --a)
      for (int64_t b = most(1, threads_ / a); b >= 1; --b)
        for (int64_t c = most(2, threads_ / (a * b)); c >= 1; --c) {
          const std::tuple score{std::lround(kLaneSteps * used_lanes({a, b, c})), a * b * c, a};
          if (score <= best) continue;
          best = score;
          chosen = {a, b, c};
        }
    if (std::get<1>(best) < kWarp) return false;
    for (size_t i = 0; i < std::min(chosen.size(), sides_.size()); ++i)
      sides_[sides_.size() - 1 - i].threads = chosen[i];
    return true;
  }

  // What is loaded once instead of at every step along the loop.
  int saved(VarId var) const {
    int weight = 0;
    for (const Stmt& stmt : nest_.body) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || mentions(stmt, var)) continue;
      weight += mentions(stmt, sides_.back().head.var) ? kVectorLoad : 1;
    }
    return weight;
  }

  // Steps go along the loop that saves most loads, else along the first one that the threads do not cover.
  void choose_steps() {
    int most = 0;
    for (size_t i = sides_.size(); i-- > 0;) {
      const int weight = saved(sides_[i].head.var);
      if (sides_[i].count <= sides_[i].threads || weight <= most) continue;
      most = weight;
      stepped_ = i;
    }
    BoxSide& side = sides_[stepped_];
    if (sides_.size() == 1) {
      side.steps = decide(s_, &ScheduleChoice::accesses, shape_.unroll);
      return;
    }
    const int own = most >= kVectorLoad && !loads_all() ? 2 * steps_ : steps_;
    const int wanted = decide(s_, &ScheduleChoice::accesses, own);
    side.steps = static_cast<int>(std::clamp<int64_t>((side.count + side.threads - 1) / side.threads, 1, wanted));
  }

  // Whether some load moves with every loop. If none does, the stores are all that takes time.
  bool loads_all() const {
    return std::any_of(nest_.body.begin(), nest_.body.end(), [&](const Stmt& stmt) {
      return std::holds_alternative<ir::Load>(stmt.v) &&
             std::all_of(nest_.heads.begin(), nest_.heads.end(),
                         [&](const LoopHead& head) { return mentions(stmt, head.var); });
    });
  }

  // --- the code ----------------------------------------------------------------------------------------------------

  IndexExpr position(const BoxSide& side) const {
    if (slides_ && &side == &sides_[stepped_]) {  // neighbours
      IndexExpr at = box(side) * side.threads;
      if (side.threads > 1) at += IndexExpr::symbol(side.thread);
      return at * side.steps + IndexExpr::symbol(step_);
    }
    IndexExpr at = box(side) * side.steps;
    if (side.steps > 1) at += IndexExpr::symbol(step_);
    at *= side.threads;
    return side.threads > 1 ? at + IndexExpr::symbol(side.thread) : at;
  }

  // What the threads of a block do. A `partial` box may reach past the extents.
  Block threads(bool partial) {
    step_ = add_var(k_);
    Block body = clone(k_, nest_.body);
    if (slides_) share_windows(k_, nest_.heads, sides_[stepped_].head.var, body);
    if (rolls_) roll_rows(k_, nest_.heads, body);
    if (partial) guard(body);
    for (const BoxSide& side : sides_)
      if (side.head.var != sides_.back().head.var) substitute(body, side.head.var, position(side));
    vectorize(k_, body, sides_.back().head.var, shape_.lanes, position(sides_.back()) * shape_.lanes);
    Block result;
    if (!slides_) result = take_fixed(body);
    if (slides_) {
      result = side_by_side(std::move(body));
    } else if (sides_[stepped_].steps > 1) {
      Block loads = hold(body, result);
      if (!loads.empty()) result.push_back(over_steps(std::move(loads)));
      result.push_back(over_steps(std::move(body)));
    } else {
      append(result, std::move(body));
    }
    std::vector<LoopHead> heads;
    for (const BoxSide& side : sides_)
      if (side.threads > 1) heads.push_back({LoopTag::block, side.thread, side.threads});
    if (heads.empty()) heads.push_back({LoopTag::block, sides_.back().thread, 1});
    Block all;
    all.push_back(rebuild_loops(heads, std::move(result)));
    return all;
  }

  // Each statement for all steps, then the next one: what steps share is near its uses. Results go through registers to
  // one statement that stores them for all steps.
  Block side_by_side(Block body) {
    Block allocs, stores;
    for (Stmt& stmt : body) {
      auto* store = std::get_if<ir::Store>(&stmt.v);
      if (store == nullptr || is_local(*store)) continue;
      const int width = width_of(k_, store->value);
      const BufferId held = hold(store->value, width);
      allocs.push_back({ir::Alloc{held}});
      const RegId again = add_reg(k_, k_.buffers[held].dtype, width);
      stores.push_back({ir::Load{again, held, held_at(width), {}, ir::Constant{k_.buffers[held].dtype}, 0}});
      ir::Store late = *store;
      late.value = again;
      stores.push_back({late});
      *store = ir::Store{held, held_at(width), store->value, {}, ir::StoreHint::none};
    }
    for (Stmt& stmt : body)
      if (auto* loop = std::get_if<ir::Loop>(&stmt.v)) loop->body = windows_first(std::move(loop->body));
    std::vector<Block> steps;
    for (int i = 0; i < sides_[stepped_].steps; ++i) {
      steps.push_back(clone(k_, body));
      substitute(steps.back(), step_, i);
    }
    Block result = std::move(allocs);
    append(result, interleave(std::move(steps)));
    result.push_back(over_steps(std::move(stores)));
    return result;
  }

  // The loads of a row's places stand before what waits for them.
  Block windows_first(Block body) const {
    Block loads, others;
    for (Stmt& stmt : body) {
      const bool moves = std::holds_alternative<ir::Load>(stmt.v) && mentions(stmt, step_);
      (moves ? loads : others).push_back(std::move(stmt));
    }
    append(loads, std::move(others));
    return loads;
  }

  // The blocks are alike. Their loops become one.
  static Block interleave(std::vector<Block> blocks) {
    Block result;
    for (size_t i = 0; i < blocks[0].size(); ++i) {
      auto* const loop = std::get_if<ir::Loop>(&blocks[0][i].v);
      if (loop == nullptr) {
        for (Block& block : blocks) result.push_back(std::move(block[i]));
        continue;
      }
      std::vector<Block> bodies;
      for (Block& block : blocks) {
        auto& same = std::get<ir::Loop>(block[i].v);
        bodies.push_back(std::move(same.body));
        if (same.head.var != loop->head.var)
          substitute(bodies.back(), same.head.var, IndexExpr::symbol(loop->head.var));
      }
      loop->body = interleave(std::move(bodies));
      result.push_back(std::move(blocks[0][i]));
    }
    return result;
  }

  Stmt over_steps(Block body) const {
    return {ir::Loop{{LoopTag::unroll, step_, sides_[stepped_].steps}, std::move(body), ir::PhaseBoundary::launches}};
  }

  void guard(Block& body) const {
    for (Stmt& stmt : body) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
        load->otherwise.dtype = k_.buffers[load->buffer].dtype;
        guard(load->guard, stmt);
      }
      auto* const store = std::get_if<ir::Store>(&stmt.v);
      if (store != nullptr && !is_local(*store)) guard(store->guard, stmt);
      for (Block* nested : nested_blocks(stmt)) guard(*nested);
    }
  }

  bool is_local(const ir::Store& store) const { return k_.buffers[store.buffer].space == ir::Space::reg; }

  // A load is guarded along the loops that it moves with; it can then be taken out of the others.
  void guard(ir::Guard& guard, const Stmt& stmt) const {
    const bool moves = std::holds_alternative<ir::Store>(stmt.v) || takes_data(stmt);
    const Stmt before = stmt;
    for (const BoxSide& side : sides_)
      if (!fits(side) && (moves || mentions(before, side.head.var)) && !is_bounded(guard, side))
        guard.push_back(side.head.extent - side.lanes - position(side) * side.lanes);
  }

  // Whether the guards of a load that slides along the side keep it inside of its buffer beyond the extent, too.
  bool is_bounded(const ir::Guard& guard, const BoxSide& side) const {
    if (!slides_ || &side != &sides_[stepped_]) return false;
    return std::any_of(guard.begin(), guard.end(), [&](const IndexExpr& g) {
      const auto affine = affine_in(g, {side.head.var});
      return affine && affine->coefficient(side.head.var).is(-1);
    });
  }

  static bool takes_data(const Stmt& stmt) {
    bool found = false;
    for_each_index(stmt, [&](const IndexExpr& d) {
      std::set<ir::SymbolId> symbols;
      d.collect_symbols(symbols);
      for (const ir::SymbolId symbol : symbols) found |= symbol.reg().has_value();
    });
    return found;
  }

  // Takes the statements that are the same at every step out of the body.
  Block take_fixed(Block& body) const {
    Block fixed, rest;
    std::set<RegId> moving;
    for (Stmt& stmt : body) {
      bool moves = std::holds_alternative<ir::Store>(stmt.v) || mentions(stmt, step_);
      for_each_operand(stmt, [&](const Operand& o) {
        const auto* reg = std::get_if<RegId>(&o);
        moves |= reg != nullptr && moving.contains(*reg);
      });
      for (const RegId reg : moving) moves = moves || mentions(stmt, reg);
      if (moves)
        for (const RegId reg : defined(stmt)) moving.insert(reg);
      (moves ? rest : fixed).push_back(std::move(stmt));
    }
    body = std::move(rest);
    return fixed;
  }

  // Lets a thread load the inputs of all steps before it computes: they are under way together even where results may
  // overwrite inputs. Returns the loads.
  Block hold(Block& body, Block& allocs) {
    Block loads;
    std::vector<std::pair<ir::Load, BufferId>> seen;
    for (Stmt& stmt : body) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || load->clamp != 0 || takes_data(stmt)) continue;
      const ir::RegInfo info = k_.regs[load->dst];
      if (const auto again =
              std::find_if(seen.begin(), seen.end(), [&](const auto& x) { return same(x.first, *load); });
          again != seen.end()) {
        *load = ir::Load{load->dst, again->second, held_at(info.width), {}, load->otherwise, 0};
        continue;
      }
      const BufferId held = hold(info.dtype, info.width);
      allocs.push_back({ir::Alloc{held}});
      seen.emplace_back(*load, held);
      ir::Load early = *load;
      early.dst = add_reg(k_, info.dtype, info.width);
      loads.push_back({early});
      loads.push_back({ir::Store{held, held_at(info.width), early.dst, {}, ir::StoreHint::none}});
      *load = ir::Load{load->dst, held, held_at(info.width), {}, load->otherwise, 0};
    }
    return loads;
  }

  // A buffer for a value of every step.
  BufferId hold(DType dtype, int width) const {
    const std::string name = "held" + std::to_string(k_.buffers.size());
    return add_buffer(k_, {name, ir::Space::reg, dtype, {sides_[stepped_].steps, width}, {}, 0, ""});
  }
  BufferId hold(const Operand& value, int width) const {
    const auto* reg = std::get_if<RegId>(&value);
    return hold(reg != nullptr ? k_.regs[*reg].dtype : std::get<ir::Constant>(value).dtype, width);
  }

  std::vector<IndexExpr> held_at(int width) const {
    return {IndexExpr::symbol(step_), width > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0)};
  }
  static bool same(const ir::Load& a, const ir::Load& b) {
    return a.buffer == b.buffer && a.index == b.index && a.guard == b.guard && a.otherwise == b.otherwise;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  const PointShape& shape_;
  std::vector<BoxSide> sides_;
  bool inner_known_ = false;
  bool slides_ = false;  // whether a thread takes neighbours, whose windows overlap
  bool rolls_ = false;   // whether a thread takes the rows of a window in a loop
  size_t stepped_ = 0;   // the side along which a thread takes its steps
  int threads_ = 1;      // at most, of a block
  int steps_ = 1;        // at most, of a thread, unless they save loads
  VarId step_;
};

}  // namespace

std::optional<Block> cuda_boxes(const Scheduling& s, const PerfectNest& nest, const PointShape& shape) {
  BoxSchedule boxes(s, nest, shape);
  if (!boxes.suits()) return std::nullopt;
  return boxes.run();
}

}  // namespace fusec::compiler
