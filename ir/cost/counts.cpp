// SPDX-License-Identifier: Apache-2.0
// Counts what one phase of a kernel does, by a walk over its loops with mean trip counts. It also adds up how long one
// thread of a GPU takes from start to end when nothing else runs: latencies of loads, dependent ops and barriers.

#include "ir/cost/counts.h"

#include <algorithm>
#include <cmath>

#include "ir/base/index_expr.h"
#include "ir/cost/access.h"
#include "ir/kernel/combiner.h"

namespace fusec::ir {
namespace {

// Ops of this cost are functions of many instructions; ops that are correctly rounded and cost as much as this are
// divisions and square roots.
constexpr int kFunctionCost = 9, kDivisionCost = 4;
// Iterations of a short loop whose loads are under way at once: neighbouring threads that read neighbouring bytes keep
// more of them in the air than threads that each read a line of their own.
constexpr double kLoadsInAir = 6, kScatteredLoadsInAir = 2;
constexpr double kOpDepth = 3;  // cycles until a dependent op can begin, in ops of one cycle
constexpr double kMmaBytes = 16, kMmaStatements = 4, kMmaUs = 0.02;  // of a thread's part; fitted
constexpr double kTileProductUs = 0.44 / (128 * 192 * 64);           // of one product of a tile; measured on an H100
constexpr double kShuffleUs = 0.012;                                 // of one exchange between lanes of a warp
constexpr double kWarpExchanges = 5;
constexpr double kLoopStep = 2, kIndexStep = 2;          // additions
constexpr double kCpuLoopStep = 0.5;                     // a CPU counts and jumps beside its vector ops
constexpr double kConstantDivision = 3, kDivision = 12;  // of an index, in additions
constexpr double kLongLoop = 8;                          // iterations in which a thread loads while it computes
constexpr double kGatheredLane = 2;  // instructions for one lane of a vector access whose lanes are not neighbours
constexpr double kGuardOps = 3;      // of 64-bit integers, for each lane whose number a guard asks for

double& counter(OpCounts& ops, ScalarOp op) {
  const ScalarOpInfo& row = info(op);
  if (row.typing == Typing::cast) return ops.conversion;
  if (row.cost >= kFunctionCost) return ops.transcendental;
  return has(op, OpFlag::ieee) && row.cost >= kDivisionCost ? ops.division : ops.simple;
}

// Divisions of an index expression, as additions.
double index_cost(const IndexExpr& e) {
  if (e.is_const()) return 0;
  double cost = 0;
  for (const IndexExpr::Term& term : e.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn == IndexExpr::Fn::symbol) continue;
      const bool divides = atom.fn == IndexExpr::Fn::floordiv || atom.fn == IndexExpr::Fn::mod;
      cost += !divides ? 1 : atom.args[1].is_const() ? kConstantDivision : kDivision;
      for (const IndexExpr& arg : atom.args) cost += index_cost(arg);
    }
  }
  return cost;
}

bool is_over_threads(LoopTag tag) { return tag == LoopTag::block || tag == LoopTag::cluster; }

// The largest product of the extents of nested loops over threads: all of them, or those over blocks of a cluster.
double count_threads(const Block& block, const std::map<SymbolId, int64_t>& values, bool only_blocks = false) {
  double most = 1;
  for (const Stmt& stmt : block) {
    double own = 1, inside = 1;
    for_each_head(stmt, [&](const LoopHead& head) {
      const bool counts = only_blocks ? head.tag == LoopTag::cluster : is_over_threads(head.tag);
      if (counts) own *= static_cast<double>(head.extent.eval(values).value_or(1));
    });
    for (const Block* nested : nested_blocks(stmt))
      inside = std::max(inside, count_threads(*nested, values, only_blocks));
    most = std::max(most, own * inside);
  }
  return most;
}

class PhaseCounter {
 public:
  PhaseCounter(CountSettings& settings, PhaseCounts& counts)
      : kernel_(settings.kernel),
        target_(settings.target),
        values_(settings.values),
        counts_(counts),
        gpu_(settings.target.kind == TargetKind::cuda),
        near_(settings.near),
        lanes_(gpu_ ? 1 : std::max(1, settings.target.vector_bytes / 4)) {
    const double simple = std::max(1.0, target_.model.simple_ops.value);
    cycle_us_ = 0.128 / simple;
  }

  void run(const Stmt& phase) {
    const auto* loop = std::get_if<Loop>(&phase.v);
    const double threads = loop != nullptr ? count_threads(loop->body, values_) : 1;
    if (loop != nullptr) counts_.cluster = count_threads(loop->body, values_, true);
    counts_.threads = threads / counts_.cluster;
    Segment segment;
    counts_.chain_us = statement(phase, 1, segment) + segment.wait_us;
    counts_.local_bytes /= gpu_ ? threads : 1;
  }

 private:
  // Statements in a row whose independent loads wait together.
  struct Segment {
    double wait_us = 0;      // for loads, once however often the statements are unrolled
    bool scattered = false;  // threads of a warp read far apart
    bool short_loop = true;  // no loop, barrier or exchange inside
  };

  double runs() const {
    double product = 1;
    for (const CountedLoop& loop : loops_) product *= loop.trip;
    return product;
  }

  double block(const Block& block) {
    Segment segment;
    const double us = body(block, segment);
    return us + segment.wait_us;
  }

  // Of one thread, once through the statements.
  double body(const Block& block, Segment& segment) {
    // Statements beside deeper loops over threads run in each of those threads.
    const double copies = gpu_ ? count_threads(block, values_) : 1;
    double us = 0;
    for (const Stmt& stmt : block) us += statement(stmt, copies, segment);
    return us;
  }

  double statement(const Stmt& stmt, double copies, Segment& segment) {
    if (const auto* loop = std::get_if<Loop>(&stmt.v)) return this->loop(*loop, segment);
    if (const auto* alloc = std::get_if<Alloc>(&stmt.v)) return allocate(alloc->buffer), 0;
    if (const auto* let = std::get_if<Let>(&stmt.v)) return op(*let, width_of(kernel_, stmt), copies);
    if (const auto* value = std::get_if<IndexValue>(&stmt.v)) {
      counts_.statements += runs() * copies * (kIndexStep + index_cost(value->value));
      if (value->value.uses(kLane)) count_lanes(width_of(kernel_, stmt), copies);
      return 0;
    }
    if (const auto* load = std::get_if<Load>(&stmt.v))
      return access(load->buffer, load->index, load->guard, width_of(kernel_, stmt), copies, nullptr, segment);
    if (const auto* store = std::get_if<Store>(&stmt.v))
      return access(store->buffer, store->index, store->guard, width_of(kernel_, stmt), copies, store, segment);
    if (std::holds_alternative<Prefetch>(stmt.v)) return counts_.statements += runs() * copies, 0;
    if (const auto* reduce = std::get_if<Reduce>(&stmt.v)) return this->reduce(*reduce, stmt, segment);
    if (const auto* scan = std::get_if<Scan>(&stmt.v)) return this->scan(*scan, stmt, segment);
    if (const auto* tile = std::get_if<TransposeTile>(&stmt.v)) return transpose(*tile), 0;
    if (std::holds_alternative<Mma>(stmt.v)) {
      counts_.shared_accesses += runs() * copies * kMmaBytes;
      counts_.statements += runs() * copies * kMmaStatements;
      return kMmaUs;
    }
    if (const auto* copy = std::get_if<CopyAsync>(&stmt.v)) return this->copy(*copy, copies), 0;
    if (const auto* product = std::get_if<TileProduct>(&stmt.v)) return multiply(*product, segment);
    if (std::holds_alternative<Sync>(stmt.v)) {
      if (std::get<Sync>(stmt.v).scope == SyncScope::copies) return 0;
      segment.short_loop = false;
      counts_.exchanges = true;
      return target_.model.barrier;
    }
    return 0;
  }

  void enter(const LoopHead& head) {
    const double trip = std::max(0.0, mean_value(head.extent, loops_, values_));
    loops_.push_back({head.tag, head.var, trip});
    values_[head.var] = 0;
    if (head.tag == LoopTag::grid) counts_.tasks *= trip;
    if (is_long(loops_.back())) ++serial_loops_;
    if (head.tag == LoopTag::seq && !head.extent.is(1))
      counts_.statements += runs() * (gpu_ ? kLoopStep : kCpuLoopStep);
  }

  static bool is_long(const CountedLoop& loop) { return loop.tag == LoopTag::seq && loop.trip >= kLongLoop; }
  void leave() {
    if (is_long(loops_.back())) --serial_loops_;
    loops_.pop_back();
  }

  double loop(const Loop& loop, Segment& outer) {
    enter(loop.head);
    const double trip = loops_.back().trip;
    double us = 0;
    if (loop.head.tag == LoopTag::unroll || trip <= 1) {
      us = trip * body(loop.body, outer);
    } else {
      Segment own;
      us = body(loop.body, own);
      us += own.wait_us;
      if (loop.head.tag == LoopTag::seq) us *= trip / in_air(own, trip);
      outer.short_loop = false;
      outer.scattered |= own.scattered;
    }
    leave();
    return us;
  }

  static double in_air(const Segment& segment, double trip) {
    if (segment.wait_us == 0 || !segment.short_loop) return 1;
    return std::min(trip, segment.scattered ? kScatteredLoadsInAir : kLoadsInAir);
  }

  double bytes_of(const Buffer& buffer) const {
    double elements = 1;
    for (const IndexExpr& extent : buffer.shape) elements *= static_cast<double>(extent.eval(values_).value_or(1));
    return elements * static_cast<double>(size_of(buffer.dtype));
  }

  void allocate(BufferId id) {
    const Buffer& buffer = kernel_.buffers[id];
    double bytes = bytes_of(buffer);
    if (gpu_)
      for (const CountedLoop& loop : loops_)
        if (is_over_threads(loop.tag)) bytes *= loop.trip;
    (buffer.space == Space::shared ? counts_.shared_bytes : counts_.local_bytes) += bytes;
  }

  // Lanes that an op of so many values pays for, twice those of 8 bytes.
  double paid_lanes(double width, DType dtype) const {
    const double wide = size_of(dtype) == 8 ? 2 : 1;
    return std::ceil(width * wide / lanes_) * lanes_;
  }

  // The greater or less of a value and a constant takes one op: the constant is no NaN.
  static double cost_of(const Let& let) {
    const int cost = info(let.op).cost;
    const bool constant = std::any_of(let.args.begin(), let.args.end(),
                                      [](const Operand& arg) { return std::holds_alternative<Constant>(arg); });
    return constant && cost == 2 && info(let.op).arity == 2 ? 1 : cost;
  }

  double op(const Let& let, int width, double copies) {
    const double cost = cost_of(let);
    counter(counts_.ops, let.op) += runs() * copies * cost * paid_lanes(width, kernel_.regs[let.dst].dtype);
    return cost * (kOpDepth + width) * cycle_us_;
  }

  double combine(Combiner combiner, double width) {
    const double cost = tuple_size(combiner) == 1 ? info(combining_op(combiner)).cost : 6;
    counts_.ops.simple += runs() * cost * paid_lanes(width, DType::f32);
    return cost * (kOpDepth + width) * cycle_us_;
  }

  // Integers of 64 bits for each lane.
  void count_lanes(int width, double ops) { counts_.ops.simple += runs() * ops * paid_lanes(width, DType::i64); }

  double share_of(const Guard& guard) {
    double share = 1;
    for (const IndexExpr& e : guard) share *= share_nonneg(e, loops_, values_);
    return share;
  }

  double access(BufferId id, const std::vector<IndexExpr>& index, const Guard& guard, int width, double copies,
                const Store* store, Segment& segment) {
    const Buffer& buffer = kernel_.buffers[id];
    const double element = static_cast<double>(size_of(buffer.dtype));
    if (buffer.space == Space::reg) return 0;
    if (buffer.space == Space::shared) {
      counts_.shared_accesses += runs() * copies * width * element;
      counts_.statements += runs() * copies;
      return gpu_ ? kShuffleUs : 0;
    }
    CountedAccess access = measure_access(kernel_, loops_, id, index, width, share_of(guard), values_);
    for (const IndexExpr& e : guard)
      if (!gpu_ && width > 1 && e.uses(kLane)) count_lanes(width, kGuardOps);
    access.is_store = store != nullptr;
    access.streams = store != nullptr && store->hint == StoreHint::stream;
    access.copies = copies;
    const double executed = access.statements * copies;
    double divisions = 0;
    for (const IndexExpr& e : index) divisions += index_cost(e);
    counts_.statements += executed * (gpu_ ? 1 + kIndexStep + divisions : issue_of(access) + divisions);
    counts_.accesses.push_back(access);
    if (access.is_store) return 0;
    wait(access, segment);
    (serial_loops_ > 0 ? counts_.read_in_loops : counts_.read_at_once) += access.distinct * element;
    return 0;
  }

  // Vector instructions of an access on a CPU.
  double issue_of(const CountedAccess& access) const {
    const bool together = access.lane_stride == access.element || access.lane_stride == 0;
    if (access.width > 1 && !together) return access.width * kGatheredLane;
    return 0.5 * std::ceil(access.width * access.element / target_.vector_bytes);
  }

  void wait(const CountedAccess& access, Segment& segment) const {
    const bool scattered = access.width * access.element * 2 < 32 && access.sectors >= 24;
    segment.scattered |= scattered;
    if (segment.wait_us > 0 && !access.gathers) return;
    const double far = target_.model.memory_latency, close = target_.model.cache_latency;
    segment.wait_us += near_ ? close : scattered ? far : (far + close) / 2;
  }

  // What a thread copies by itself, long before it is needed: it does not wait for it here.
  void copy(const CopyAsync& copy, double copies) {
    if (copied_bytes(kernel_, copy) == 0) return;
    const auto width = static_cast<int>(copy.extents[0].value());
    std::vector<IndexExpr> from = copy.src_index, to = copy.dst_index;
    from.back() += IndexExpr::symbol(kLane), to.back() += IndexExpr::symbol(kLane);
    Segment apart;
    access(copy.src, from, copy.guard, width, copies, nullptr, apart);
    access(copy.dst, to, {}, width, copies, nullptr, apart);
  }

  double reduce(const Reduce& reduce, const Stmt& stmt, Segment& outer) {
    double trips = 1, threads = 1;
    bool serial = false;
    for (const LoopHead& head : reduce.loops) {
      enter(head);
      serial |= head.tag == LoopTag::seq && loops_.back().trip > 1;
      (is_over_threads(head.tag) ? threads : trips) *= loops_.back().trip;
    }
    Segment own;
    Segment& segment = serial ? own : outer;
    const double width = width_of(kernel_, stmt);
    double us = body(reduce.body, segment) + combine(reduce.combiner, width) + own.wait_us;
    us *= trips / (serial ? in_air(own, trips) : 1);
    for (std::size_t l = 0; l < reduce.loops.size(); ++l) leave();
    if (serial) outer.short_loop = false, outer.scattered |= own.scattered;
    if (threads > 1 && gpu_) us += exchange(threads, outer);
    if (!reduce.dst.empty() && width > width_of(kernel_, Operand(reduce.dst[0]))) {
      counts_.ops.simple += runs() * (gpu_ ? width : lanes_ * 4);
      us += width * kOpDepth * cycle_us_;
    }
    return us;
  }

  // Of values of the threads of a block, which all of them get.
  double exchange(double threads, Segment& segment) {
    segment.short_loop = false;
    counts_.exchanges = true;
    counts_.ops.simple += runs() * threads * 2 * kWarpExchanges;
    const bool warps = threads > 32;
    const double between_blocks = counts_.cluster > 1 ? 2 * target_.model.cache_latency : 0;
    return kWarpExchanges * kShuffleUs +
           (warps ? 2 * target_.model.barrier + between_blocks + kWarpExchanges * kShuffleUs : 0);
  }

  double scan(const Scan& scan, const Stmt& stmt, Segment& outer) {
    enter(scan.loop);
    const double trip = loops_.back().trip;
    double us = block(scan.body) + combine(scan.combiner, width_of(kernel_, stmt)) + block(scan.then);
    leave();
    outer.short_loop = false;
    return us * (scan.loop.tag == LoopTag::block ? 1 : trip);
  }

  // The threads of a block stream both factors and multiply meanwhile.
  double multiply(const TileProduct& product, Segment& segment) {
    const IndexShape& shape = kernel_.buffers[product.sums].shape;
    const auto number = [&](const IndexExpr& e) { return static_cast<double>(e.eval(values_).value_or(1)); };
    const double terms = number(product.terms), rows = number(shape[shape.size() - 3]) * kTileRows,
                 columns = number(shape[shape.size() - 2]) * kTileColumns;
    counts_.statements += runs() * (rows + columns) * terms / kTileLanes;
    segment.short_loop = false;
    return rows * columns * terms * kTileProductUs;
  }

  void transpose(const TransposeTile& tile) {
    const Buffer& buffer = kernel_.buffers[tile.src];
    const double elements = bytes_of(buffer) / static_cast<double>(size_of(buffer.dtype));
    counts_.ops.simple += runs() * elements * std::log2(std::max(2.0, std::sqrt(elements)));
  }

  const Kernel& kernel_;
  const Target& target_;
  std::map<SymbolId, int64_t>& values_;
  PhaseCounts& counts_;
  const bool gpu_, near_;
  const double lanes_;
  double cycle_us_ = 0;
  std::vector<CountedLoop> loops_;
  int serial_loops_ = 0;
};

}  // namespace

PhaseCounts count_phase(CountSettings& settings, const Stmt& phase) {
  PhaseCounts counts;
  settings.values.try_emplace(kLane, 0);
  PhaseCounter(settings, counts).run(phase);
  return counts;
}

}  // namespace fusec::ir
