// SPDX-License-Identifier: Apache-2.0
// Measures the figures of a MachineModel. Rates of ops follow from the time of a long chain less that of a short one.

#include "runtime/tool/measure/machine_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "fusec/device.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "runtime/threads/parallel.h"
#include "runtime/tool/measure/op_chains.h"
#include "runtime/tool/measure/timing.h"

namespace fusec::tool {
namespace {

constexpr int64_t kFarBytes = int64_t{256} << 20;  // more than caches hold
constexpr int64_t kGpuChain = int64_t{1} << 24;    // elements
constexpr int64_t kNearChain = 2048;               // elements of arrays that a first-level cache holds
constexpr int kTries = 15;
constexpr int64_t kHops = 200'000;
constexpr double kReadsOfShortest = 0.05;  // of the time of a chain: what is shorter is noise

Figure measured(double value) { return {value, FigureSource::measured}; }

double least(const Call& call, int tries) {
  double us = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) us = std::min(us, time_us(call));
  return us;
}

double gb_per_s(double bytes, double us) { return bytes / (1e3 * us); }

Result<Tensor> ones(std::vector<int64_t> shape) {
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(DType::f32, std::move(shape)));
  std::fill_n(tensor.as<float>(), tensor.num_elements(), 0.75f);
  return tensor;
}

double copy_gb_per_s(const CopySpeed& copy, int64_t bytes, int threads) {
  double us = std::numeric_limits<double>::infinity();
  for (const CopyKind kind : copy.kinds()) us = std::min(us, copy.best_us({kind, threads}, bytes, kTries));
  return gb_per_s(static_cast<double>(bytes), us);
}

Status measure_copies(const Target& target, MachineModel& m) {
  FUSEC_ASSIGN(const CopySpeed copy, CopySpeed::make(kFarBytes, target.threads));
  const int64_t cached = target.last_level_cache / 4, near = target.l2_bytes / 2;
  m.memory_copy = measured(copy_gb_per_s(copy, kFarBytes, target.threads));
  m.worker_memory = measured(copy_gb_per_s(copy, kFarBytes, 1));
  m.cache_copy = measured(copy_gb_per_s(copy, cached, target.threads));
  m.worker_cache = measured(copy_gb_per_s(copy, cached, 1));
  m.near_copy = measured(copy_gb_per_s(copy, near, 1));
  // All threads together are no slower than one of them.
  m.memory_copy.value = std::max(m.memory_copy.value, m.worker_memory.value);
  m.cache_copy.value = std::max(m.cache_copy.value, m.worker_cache.value);
  return {};
}

// Microseconds of one hop along a random cycle through cache lines.
double hop_us(int64_t bytes) {
  struct alignas(64) Line {
    uint32_t next = 0;
  };
  const auto count = static_cast<uint32_t>(bytes / static_cast<int64_t>(sizeof(Line)));
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::minstd_rand(1));
  std::vector<Line> lines(count);
  for (uint32_t i = 0; i < count; ++i) lines[order[i]].next = order[(i + 1) % count];
  volatile uint32_t at = 0;
  const double us = least(
      [&] {
        uint32_t here = at;
        for (int64_t i = 0; i < kHops; ++i) here = lines[here].next;
        at = here;
      },
      5);
  return us / static_cast<double>(kHops);
}

// A compiled model with its tensors.
struct Ready {
  Session session;
  std::vector<Tensor> inputs, outputs;
  double run_us() {
    return time_us([&] { (void)session.run_bound(); });
  }
};

Result<Ready> ready(const Engine& engine, std::vector<Tensor> inputs) {
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(std::vector<Tensor> outputs, session.run(inputs));
  FUSEC_TRY(session.bind_io(inputs, outputs));
  return Ready{std::move(session), std::move(inputs), std::move(outputs)};
}

// Rows, of which only the greatest number is kept.
Result<Model> reading_model(int64_t rows, int64_t columns) {
  GraphBuilder b;
  b.output("y", b.reduce_max(b.input("x", DType::f32, {rows, columns}), {1}));
  return b.finish();
}

Status measure_reads(const Options& options, GpuBaseline::Compile compile, MachineModel& m) {
  constexpr int64_t kRows = 8192, kColumns = kFarBytes / 4 / kRows;
  FUSEC_ASSIGN(const Model model, reading_model(kRows, kColumns));
  FUSEC_ASSIGN(const Engine engine, compile(model, options));
  FUSEC_ASSIGN(Tensor x, ones({kRows, kColumns}));
  FUSEC_ASSIGN(Ready run, ready(engine, {std::move(x)}));
  double us = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) us = std::min(us, run.run_us());
  m.memory_read = measured(gb_per_s(static_cast<double>(kFarBytes), us));
  return {};
}

Status measure_launches(const Options& options, const Target& target, GpuBaseline::Compile compile, MachineModel& m) {
  FUSEC_ASSIGN(const Model model, empty_chain(16));
  FUSEC_ASSIGN(const Engine engine, compile(model, options));
  FUSEC_ASSIGN(Tensor x, ones({16}));
  FUSEC_ASSIGN(Ready run, ready(engine, {x, x}));
  constexpr int kRuns = 200;
  const double us = least(
      [&] {
        for (int i = 0; i < kRuns; ++i) (void)run.session.run_bound();
      },
      kTries);
  m.launch = measured(us / kRuns);
  // Short tries: among many, some find all threads awake.
  constexpr int kRegions = 10;
  const runtime::Lease team(target.threads);
  const double regions = least(
      [&] {
        for (int i = 0; i < kRegions; ++i)
          runtime::parallel_for(team.threads(), team.threads(), [](int64_t, int64_t, int) {});
      },
      100 * kTries);
  m.barrier = measured(std::max(1e-3, regions / kRegions));
  m.dependent_launch = measured(m.launch + m.barrier);
  return {};
}

// Units of the chains' class per ns, from the ns that an element takes in a long and in a short one.
double rate(const OpChain& long_one, const OpChain& short_one, const MachineModel& m, double long_ns, double short_ns) {
  const bool simple = long_one.figure == &MachineModel::simple_ops;
  const double others = simple ? 0 : (long_one.other - short_one.other) / m.simple_ops;
  const double ns = std::max(long_ns - short_ns - others, long_ns * kReadsOfShortest);
  return (long_one.cost - short_one.cost) / ns;
}

Result<double> element_ns(const Model& model, const Options& options, const Target& target) {
  FUSEC_ASSIGN(Tensor x, ones({kNearChain}));
  FUSEC_ASSIGN(Tensor y, ones({kNearChain}));
  const Tensor inputs[] = {x, x};
  FUSEC_ASSIGN(const TaskCycles cycles, task_cycles(model, options, target, inputs, std::span(&y, 1)));
  return cycles.per_16 / core_ghz() / 16;
}

Status measure_ops(const Options& options, const Target& target, MachineModel& m) {
  FUSEC_ASSIGN(const std::vector<OpChain> short_ones, op_chains(kNearChain, 2));
  FUSEC_ASSIGN(const std::vector<OpChain> long_ones, op_chains(kNearChain, 5));
  for (std::size_t i = 0; i < long_ones.size(); ++i) {
    FUSEC_ASSIGN(const double short_ns, element_ns(short_ones[i].model, options, target));
    FUSEC_ASSIGN(const double long_ns, element_ns(long_ones[i].model, options, target));
    m.*long_ones[i].figure = measured(rate(long_ones[i], short_ones[i], m, long_ns, short_ns));
  }
  return {};
}

// --- a GPU ---------------------------------------------------------------------------------------------------------

struct GpuTimes {
  double us = 0, fastest_us = 0;
};

// Of a model of inputs x and z, after a flush of the caches.
Result<GpuTimes> time_on_gpu(GpuBaseline& baseline, const Options& options, GpuBaseline::Compile compile,
                             const Model& model, int64_t elements) {
  FUSEC_ASSIGN(const Engine engine, compile(model, options));
  FUSEC_ASSIGN(const Tensor on_host, ones({elements}));
  FUSEC_ASSIGN(Tensor x, make_tensor(engine.device(), DType::f32, {elements}));
  FUSEC_TRY(copy(on_host, x));
  FUSEC_ASSIGN(Ready run, ready(engine, {x, x}));
  const int64_t bytes = 8 * elements;  // both inputs are the same memory
  FUSEC_ASSIGN(const GpuPaired timed, baseline.time(run.session, run.inputs, run.outputs, bytes, {0, kTries, 3}));
  return GpuTimes{median(timed.us), timed.fastest().us};
}

// The fastest run of a model whose inputs are ones, as a caller sees it who waits for it; and its launches.
struct WallTime {
  double us = 0;
  double launches = 0;
};
Result<WallTime> wall_time(const Options& options, GpuBaseline::Compile compile, const Model& model,
                           const std::vector<int64_t>& shape) {
  FUSEC_ASSIGN(const Engine engine, compile(model, options));
  FUSEC_ASSIGN(const Tensor on_host, ones(shape));
  FUSEC_ASSIGN(Tensor x, make_tensor(engine.device(), DType::f32, shape));
  FUSEC_TRY(copy(on_host, x));
  const std::vector<Tensor> inputs(engine.inputs().size(), x);
  FUSEC_ASSIGN(Ready run, ready(engine, inputs));
  const std::vector<TensorShape> shapes(inputs.size(), shape);
  FUSEC_ASSIGN(const PlanStats plan, engine.plan(shapes));
  WallTime time{std::numeric_limits<double>::infinity(), static_cast<double>(plan.launches)};
  for (int i = 0; i < 10 * kTries; ++i) time.us = std::min(time.us, run.run_us());
  return time;
}

// Steps that follow one another in a CUDA graph: each takes the greatest of a row, then of a column, away.
Result<Model> stairs(int steps) {
  GraphBuilder b;
  Var x = b.input("x", DType::f32, {32, 32});
  for (int i = 0; i < steps; ++i) x = x - b.reduce_max(x, {i % 2}, true);
  b.output("y", x);
  return b.finish();
}

// Of graphs, whose data stays in L2. Differences of two sizes leave out what a run costs by itself.
Status measure_graphs(const Options& options, const Target& target, GpuBaseline::Compile compile, MachineModel& m) {
  FUSEC_ASSIGN(const Model few, stairs(16));
  FUSEC_ASSIGN(const Model many, stairs(48));
  FUSEC_ASSIGN(const WallTime short_time, wall_time(options, compile, few, {32, 32}));
  FUSEC_ASSIGN(const WallTime long_time, wall_time(options, compile, many, {32, 32}));
  const double launches = long_time.launches - short_time.launches;
  // A step loads once from L2 and exchanges once.
  const double own = m.cache_latency + m.block_start;
  const double each = (long_time.us - short_time.us) / std::max(1.0, launches) - own;
  if (launches >= 16 && each > 0) m.dependent_launch = measured(each);
  const int64_t large = target.last_level_cache / 2 / 8, small = large / 4;
  FUSEC_ASSIGN(const Model large_model, empty_chain(large));
  FUSEC_ASSIGN(const Model small_model, empty_chain(small));
  FUSEC_ASSIGN(const WallTime large_time, wall_time(options, compile, large_model, {large}));
  FUSEC_ASSIGN(const WallTime small_time, wall_time(options, compile, small_model, {small}));
  const double us = large_time.us - small_time.us;
  if (us > 0.5) m.cache_copy = measured(gb_per_s(static_cast<double>(8 * (large - small)), us));
  return {};
}

}  // namespace

Result<MachineModel> measure_cpu(const Options& options, const Target& target, GpuBaseline::Compile compile) {
  MachineModel m = target.model;
  FUSEC_TRY(measure_copies(target, m));
  FUSEC_TRY(measure_reads(options, compile, m));
  m.memory_latency = measured(hop_us(4 * target.last_level_cache));
  m.cache_latency = measured(hop_us(target.last_level_cache / 2));
  FUSEC_TRY(measure_launches(options, target, compile, m));
  FUSEC_TRY(measure_ops(options, target, m));
  return m;
}

Result<MachineModel> measure_gpu(const Options& options, const Target& target, GpuBaseline::Compile compile) {
  MachineModel m = target.model;
  Options plain = options;
  plain.cuda_graph = false;  // work is timed between events on a plain stream
  FUSEC_ASSIGN(const std::unique_ptr<GpuBaseline> baseline, GpuBaseline::make(plain, compile));
  FUSEC_TRY(baseline->prepare());
  if (baseline->read_gb_per_s() > 0) m.memory_read = measured(baseline->read_gb_per_s());
  constexpr int64_t kTiny = 256;
  FUSEC_ASSIGN(const Model tiny, empty_chain(kTiny));
  FUSEC_ASSIGN(const GpuTimes smallest, time_on_gpu(*baseline, plain, compile, tiny, kTiny));
  m.launch = measured(smallest.us);
  FUSEC_ASSIGN(const Model empty, empty_chain(kGpuChain));
  FUSEC_ASSIGN(const GpuTimes base, time_on_gpu(*baseline, plain, compile, empty, kGpuChain));
  // The difference of two sizes: the last writes of both stay in L2, and both have the same launch.
  constexpr int64_t kGpuCopy = 4 * kGpuChain;
  FUSEC_ASSIGN(const Model large, empty_chain(kGpuCopy));
  FUSEC_ASSIGN(const GpuTimes copied, time_on_gpu(*baseline, plain, compile, large, kGpuCopy));
  const auto moved = static_cast<double>(8 * (kGpuCopy - kGpuChain));
  m.memory_copy = measured(gb_per_s(moved, std::max(copied.fastest_us - base.fastest_us, copied.fastest_us / 2)));
  FUSEC_ASSIGN(const std::vector<OpChain> short_ones, op_chains(kGpuChain, 6));
  FUSEC_ASSIGN(const std::vector<OpChain> long_ones, op_chains(kGpuChain, 12));
  const double per_sm = 1e3 * target.sm_count / static_cast<double>(kGpuChain);
  for (std::size_t i = 0; i < long_ones.size(); ++i) {
    FUSEC_ASSIGN(const GpuTimes a, time_on_gpu(*baseline, plain, compile, short_ones[i].model, kGpuChain));
    FUSEC_ASSIGN(const GpuTimes b, time_on_gpu(*baseline, plain, compile, long_ones[i].model, kGpuChain));
    // Memory and instructions overlap: a chain that takes hardly longer than its bytes tells nothing.
    if (a.us < 1.5 * base.us) continue;
    m.*long_ones[i].figure = measured(rate(long_ones[i], short_ones[i], m, b.us * per_sm, a.us * per_sm));
  }
  FUSEC_TRY(measure_graphs(options, target, compile, m));
  return m;
}

}  // namespace fusec::tool
