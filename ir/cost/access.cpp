// SPDX-License-Identifier: Apache-2.0
// Measures one access of a kernel to memory: how many elements it touches over a phase and over one task, how many of
// them differ, and how well the threads of a warp share sectors. It evaluates index expressions at a few points, so
// expressions with divisions are estimates.

#include "ir/cost/access.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace fusec::ir {
namespace {

constexpr int kWarpThreads = 32;
constexpr int64_t kSector = 32;  // bytes
constexpr int kPairs = 4;        // of neighbours, at which a loop's step is looked at

// Values at which an address is asked for. Registers in an index hold data, which counts as 0.
std::optional<int64_t> evaluate(const IndexExpr& e, std::map<SymbolId, int64_t>& values) {
  if (e.is_const()) return e.value();
  if (const auto value = e.eval(values)) return value;
  std::set<SymbolId> symbols;
  e.collect_symbols(symbols);
  for (const SymbolId symbol : symbols) values.try_emplace(symbol, 0);
  return e.eval(values);
}

class Address {
 public:
  Address(const Buffer& buffer, const std::vector<IndexExpr>& index, std::map<SymbolId, int64_t>& values)
      : index_(index), values_(values) {
    int64_t step = 1;
    for (std::size_t a = index.size(); a-- > 0;) {
      const int64_t own = buffer.strides.empty() ? step : evaluate(buffer.strides[a], values).value_or(1);
      strides_.insert(strides_.begin(), own);
      step *= std::max<int64_t>(1, evaluate(buffer.shape[a], values).value_or(1));
    }
    elements_ = static_cast<double>(step);
  }

  double elements() const { return elements_; }
  bool uses(SymbolId symbol) const {
    return std::any_of(index_.begin(), index_.end(), [&](const IndexExpr& e) { return e.uses(symbol); });
  }
  int64_t now() const {
    int64_t at = 0;
    for (std::size_t a = 0; a < index_.size(); ++a) at += strides_[a] * evaluate(index_[a], values_).value_or(0);
    return at;
  }
  int64_t at(SymbolId symbol, int64_t value) {
    const auto [it, added] = values_.try_emplace(symbol, 0);
    const int64_t before = it->second;
    it->second = value;
    const int64_t answer = now();
    values_[symbol] = before;
    return answer;
  }

 private:
  const std::vector<IndexExpr>& index_;
  std::map<SymbolId, int64_t>& values_;
  std::vector<int64_t> strides_;
  double elements_ = 1;
};

struct AddressStep {
  double distinct = 1;  // places that the loop takes the access to
  int64_t stride = 0;   // elements between the first two
  bool linear = true;   // between any two neighbours
};

// `first` is the address where all loops begin.
AddressStep step_of(Address& address, int64_t first, SymbolId symbol, double trip) {
  AddressStep step;
  if (trip <= 1 || !address.uses(symbol)) return step;
  const auto last = static_cast<int64_t>(std::ceil(trip)) - 1;
  const int64_t end = address.at(symbol, last);
  step.stride = address.at(symbol, 1) - first;
  step.linear = end - first == step.stride * last;
  if (step.linear) {
    step.distinct = step.stride == 0 ? 1 : trip;
    return step;
  }
  int moves = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const int64_t at = (last - 1) * pair / kPairs;
    moves += address.at(symbol, at) != address.at(symbol, at + 1);
  }
  // A loop that moves at none of these points moves now and then, as a quotient does.
  const double way = std::abs(static_cast<double>(end - first));
  step.distinct = moves == 0 ? std::max(2.0, std::min(trip, 1 + way)) : std::max(1.0, trip * moves / kPairs);
  return step;
}

struct ThreadLoop {
  VarId var;
  int64_t trip = 1;
  AddressStep step;
};

// The address of thread `number` of a block; the innermost loop, which is the first, counts fastest.
int64_t thread_address(Address& address, int64_t first, const std::vector<ThreadLoop>& loops, int64_t number,
                       std::map<SymbolId, int64_t>& values) {
  const bool linear = std::all_of(loops.begin(), loops.end(), [](const ThreadLoop& l) { return l.step.linear; });
  int64_t at = first;
  for (const ThreadLoop& loop : loops) {
    const int64_t place = number % loop.trip;
    number /= loop.trip;
    at += place * loop.step.stride;
    if (!linear) values[loop.var] = place;
  }
  if (linear) return at;
  at = address.now();
  for (const ThreadLoop& loop : loops) values[loop.var] = 0;
  return at;
}

// Counts the sectors that up to 32 threads with neighbouring numbers touch.
void count_sectors(Address& address, int64_t first, const std::vector<ThreadLoop>& loops, CountedAccess& access,
                   std::map<SymbolId, int64_t>& values) {
  int64_t all = 1;
  for (const ThreadLoop& loop : loops) all = std::min<int64_t>(all * loop.trip, kWarpThreads);
  std::vector<int64_t> sectors;
  for (int64_t t = 0; t < all; ++t) {
    const auto at = static_cast<double>(thread_address(address, first, loops, t, values)) * access.element;
    for (int lane = 0; lane < access.width; ++lane)
      sectors.push_back(static_cast<int64_t>(std::floor((at + lane * access.lane_stride) / kSector)));
  }
  std::sort(sectors.begin(), sectors.end());
  access.sectors = static_cast<double>(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
  access.warp = static_cast<double>(all);
}

// Bytes in a row that steps of these strides and numbers of places cover.
double run_in_bytes(std::vector<AddressStep> steps, double element) {
  std::sort(steps.begin(), steps.end(),
            [](const AddressStep& a, const AddressStep& b) { return std::abs(a.stride) < std::abs(b.stride); });
  double run = element;
  for (const AddressStep& step : steps) {
    const double stride = std::abs(static_cast<double>(step.stride)) * element;
    if (stride > 0 && stride <= run) run = std::max(run, stride * (step.distinct - 1) + run);
  }
  return run;
}

// Whether registers, which hold data, are in the index.
bool depends_on_data(const std::vector<IndexExpr>& index) {
  return std::any_of(index.begin(), index.end(), [](const IndexExpr& e) {
    std::set<SymbolId> symbols;
    if (!e.is_const()) e.collect_symbols(symbols);
    return std::any_of(symbols.begin(), symbols.end(), [](SymbolId s) { return s.kind == SymbolKind::reg; });
  });
}

void note_stride(const AddressStep& step, CountedAccess& access) {
  const double bytes = std::abs(static_cast<double>(step.stride)) * access.element;
  if (bytes > 0 && (access.least_stride == 0 || bytes < access.least_stride)) access.least_stride = bytes;
}

}  // namespace

CountedAccess measure_access(const Kernel& kernel, const std::vector<CountedLoop>& loops, BufferId id,
                             const std::vector<IndexExpr>& index, int width, double share,
                             std::map<SymbolId, int64_t>& values) {
  const Buffer& buffer = kernel.buffers[id];
  Address address(buffer, index, values);
  CountedAccess access;
  access.buffer = id;
  access.width = width;
  access.element = static_cast<double>(size_of(buffer.dtype));
  access.gathers = depends_on_data(index);
  const int64_t first = address.now();
  access.start = static_cast<double>(first) * access.element;
  double lanes = 1;
  std::vector<AddressStep> steps;  // of one task
  std::vector<ThreadLoop> threads;
  if (width > 1) {
    const AddressStep lane = step_of(address, first, kLane, width);
    lanes = lane.distinct;
    steps.push_back(lane);
    access.lane_stride = static_cast<double>(lane.stride) * access.element;
    note_stride(lane, access);
  }
  bool outermost = true;
  double runs = share, runs_of_task = share, distinct = lanes, distinct_of_task = lanes;
  for (const CountedLoop& loop : loops) {
    const AddressStep step = step_of(address, first, loop.var, loop.trip);
    note_stride(step, access);
    runs *= loop.trip;
    distinct *= step.distinct;
    if (loop.tag == LoopTag::grid) {
      if (outermost && loop.trip > 1) access.repeats = step.distinct <= 1, outermost = false;
      continue;
    }
    runs_of_task *= loop.trip;
    distinct_of_task *= step.distinct;
    steps.push_back(step);
    if (loop.tag == LoopTag::block)
      threads.insert(threads.begin(), {loop.var, std::max<int64_t>(1, static_cast<int64_t>(loop.trip)), step});
    const double bytes = std::abs(static_cast<double>(step.stride)) * access.element;
    if (loop.tag != LoopTag::block && bytes > 0 && bytes < kSector)
      access.sector_reuse = std::max(access.sector_reuse, std::min(loop.trip, kSector / bytes));
  }
  access.statements = runs;
  access.total = runs * width;
  access.of_task = runs_of_task * width;
  access.distinct = std::min({distinct, access.total, address.elements()});
  access.distinct_of_task = std::min({distinct_of_task, access.of_task, address.elements()});
  // Where data says which elements are read, each is another one as far as there are so many.
  if (access.gathers) access.distinct = std::min(access.total, address.elements());
  count_sectors(address, first, threads, access, values);
  if (access.gathers) access.sectors = access.warp * width;
  access.run_of_task = run_in_bytes(steps, access.element);
  return access;
}

namespace {

// The mean of of_value(e) over the loops; a value that is not known counts as `unknown`.
template <class F>
double mean_over(const IndexExpr& e, const std::vector<CountedLoop>& loops, std::map<SymbolId, int64_t>& values,
                 double unknown, const F& of_value) {
  const auto now = [&] {
    const std::optional<int64_t> value = evaluate(e, values);
    return value ? of_value(*value) : unknown;
  };
  std::vector<const CountedLoop*> used;
  for (const CountedLoop& loop : loops)
    if (loop.trip > 1 && e.uses(loop.var)) used.push_back(&loop);
  if (used.empty()) return now();
  // Points spread over all loops at once, as a lattice of steps that share no factor with their number.
  constexpr int kPoints = 16;
  constexpr int kSteps[] = {1, 7, 11, 5, 13, 3};
  double sum = 0;
  for (int point = 0; point < kPoints; ++point) {
    for (std::size_t l = 0; l < used.size(); ++l) {
      const int place = point * kSteps[l % std::size(kSteps)] % kPoints;
      values[used[l]->var] = static_cast<int64_t>(used[l]->trip * (place + 0.5) / kPoints);
    }
    sum += now();
  }
  for (const CountedLoop* loop : used) values[loop->var] = 0;
  return sum / kPoints;
}

}  // namespace

double mean_value(const IndexExpr& e, const std::vector<CountedLoop>& loops, std::map<SymbolId, int64_t>& values) {
  if (e.is_const()) return static_cast<double>(e.value());
  return mean_over(e, loops, values, 1, [](int64_t value) { return static_cast<double>(value); });
}

double share_nonneg(const IndexExpr& e, const std::vector<CountedLoop>& loops, std::map<SymbolId, int64_t>& values) {
  return mean_over(e, loops, values, 1, [](int64_t value) { return value >= 0 ? 1.0 : 0.0; });
}

}  // namespace fusec::ir
