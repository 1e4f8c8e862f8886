// SPDX-License-Identifier: Apache-2.0
// Measures the fastest copy on a GPU, the baseline of memory-bound work there: the driver's copy and a compiled copy
// kernel, each after a flush of the last-level cache. Builds without CUDA return a Status.

#include "runtime/tool/measure/gpu_baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "fusec/device.h"
#include "fusec/graph_builder.h"

#if FUSEC_WITH_CUDA
#include "runtime/device/cuda/handles.h"
#endif

namespace fusec::tool {

const GpuCopy& GpuPaired::fastest() const {
  return *std::min_element(copies.begin(), copies.end(),
                           [](const GpuCopy& a, const GpuCopy& b) { return a.us < b.us; });
}
double GpuPaired::score() const { return fastest().us / median(us); }

#if FUSEC_WITH_CUDA
namespace {

using runtime::cuda::Stopwatch;

// More than any last-level cache: 8192 rows of 8192 floats.
constexpr int64_t kFlushRows = 8192, kFlushColumns = 8192;
constexpr int64_t kFlushBytes = kFlushRows * kFlushColumns * 4;
constexpr int64_t kYardstickRounds = 5;
constexpr int64_t kWallRuns = 25;
constexpr int kHostRounds = 25, kHostWarmup = 4, kHostQueued = 4;  // the first rounds capture; runs behind one another

// A compiled model with its tensors on the GPU.
struct Bound {
  Session session;
  std::vector<Tensor> inputs, outputs;
  Status put_on(void* stream) { return session.run_async(inputs, outputs, stream); }
};

// One element in, one out, nothing to compute but the sign.
Result<Model> copy_model() {
  GraphBuilder b;
  b.output("y", b.neg(b.input("x", DType::f32, {Dim::symbol("N")})));
  return b.finish();
}

// Reads much, writes next to nothing.
Result<Model> read_model() {
  GraphBuilder b;
  b.output("y", b.reduce_max(b.input("x", DType::f32, {kFlushRows, kFlushColumns}), {1}));
  return b.finish();
}

Result<Tensor> random_tensor(const Device& device, std::vector<int64_t> shape) {
  FUSEC_ASSIGN(Tensor on_host, Tensor::make(DType::f32, shape));
  std::minstd_rand random(1);
  for (int64_t i = 0; i < on_host.num_elements(); ++i) on_host.as<float>()[i] = static_cast<float>(random()) * 1e-9f;
  FUSEC_ASSIGN(Tensor tensor, make_tensor(device, DType::f32, std::move(shape)));
  FUSEC_TRY(copy(on_host, tensor));
  return tensor;
}

}  // namespace

struct GpuBaseline::Impl {
  explicit Impl(Stopwatch w) : watch(std::move(w)) {}

  Options options;
  Compile compile = nullptr;
  Device device;
  Stopwatch watch;
  std::optional<Engine> copier;
  std::optional<Bound> flush_by_reading;
  Tensor flush_from, flush_to;  // where the reading kernel is missing
  Tensor copy_from, copy_to;    // as large as was asked for
  double read_gb_per_s = 0;
  std::vector<std::string> notes;

  Status prepare() {
    if (const Status status = start_copier(); !status.ok()) notes.push_back("no copy kernel: " + status.str());
    FUSEC_ASSIGN(flush_from, random_tensor(device, {kFlushRows, kFlushColumns}));
    if (const Status status = start_flush(); !status.ok()) {
      notes.push_back("the cache is flushed by copying, which leaves it dirty: " + status.str());
      flush_by_reading.reset();
      FUSEC_ASSIGN(flush_to, make_tensor(device, DType::f32, {kFlushRows, kFlushColumns}));
    }
    return {};
  }

  Result<Engine> compiled(const Model& model) const {
    if (compile == nullptr) return Status(StatusCode::unsupported, "there is no compiler here");
    return compile(model, options);
  }

  Status start_copier() {
    FUSEC_ASSIGN(const Model model, copy_model());
    FUSEC_ASSIGN(copier, compiled(model));
    return {};
  }

  Status start_flush() {
    FUSEC_ASSIGN(const Model model, read_model());
    FUSEC_ASSIGN(const Engine engine, compiled(model));
    FUSEC_ASSIGN(Session session, Session::create(engine));
    FUSEC_ASSIGN(Tensor out, make_tensor(device, DType::f32, {kFlushRows}));
    flush_by_reading.emplace(Bound{std::move(session), {flush_from}, {out}});
    std::vector<double> us;
    for (int i = 0; i < 7; ++i) {
      FUSEC_ASSIGN(const double one, watch.time_us([&](void* s) { return flush_by_reading->put_on(s); },
                                                   [&](void* s) { return flush_by_reading->put_on(s); }));
      us.push_back(one);
    }
    read_gb_per_s = static_cast<double>(kFlushBytes) / (1e3 * median(us));
    return {};
  }

  Status flush(void* stream) {
    if (flush_by_reading) return flush_by_reading->put_on(stream);
    return watch.copy(flush_from, flush_to, kFlushBytes, stream);
  }

  // Memory for copies of so much traffic.
  Status reserve(int64_t bytes) {
    const int64_t elements = std::max<int64_t>(bytes / 8, 1);
    if (copy_from.num_elements() >= elements && copy_from.rank() == 1) return {};
    copy_from = copy_to = Tensor();
    FUSEC_ASSIGN(copy_from, random_tensor(device, {elements}));
    FUSEC_ASSIGN(copy_to, make_tensor(device, DType::f32, {elements}));
    return {};
  }

  Result<double> time(const Stopwatch::Work& work) {
    return watch.time_us([&](void* stream) { return flush(stream); }, work);
  }
};

Result<std::unique_ptr<GpuBaseline>> GpuBaseline::make(const Options& options, Compile compile) {
  FUSEC_ASSIGN(const Device device, parse_device(options.device));
  FUSEC_ASSIGN(Stopwatch watch, Stopwatch::make(device.ordinal));
  auto impl = std::make_unique<Impl>(std::move(watch));
  impl->options = options;
  impl->compile = compile;
  impl->options.cuda_graph = false;
  impl->device = device;
  return std::unique_ptr<GpuBaseline>(new GpuBaseline(std::move(impl)));
}

Status GpuBaseline::prepare() { return impl_->prepare(); }

Result<GpuPaired> GpuBaseline::time(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                    int64_t bytes, const Budget& budget) {
  using Clock = std::chrono::steady_clock;
  FUSEC_TRY(impl_->reserve(bytes));
  const int64_t elements = std::max<int64_t>(bytes / 8, 1);
  const Tensor from = Tensor::borrow(DType::f32, {elements}, impl_->copy_from.data(), {}, impl_->device);
  Tensor to = Tensor::borrow(DType::f32, {elements}, impl_->copy_to.data(), {}, impl_->device);
  std::optional<Session> copier;
  if (impl_->copier) {
    FUSEC_ASSIGN(copier, Session::create(*impl_->copier));
  }
  std::vector<Stopwatch::Work> works = {
      [&](void* stream) { return session.run_async(inputs, outputs, stream); },
      [&](void* stream) { return impl_->watch.copy(from, to, 4 * elements, stream); },
  };
  if (copier)
    works.push_back([&](void* stream) { return copier->run_async(std::span(&from, 1), std::span(&to, 1), stream); });
  std::vector<std::vector<double>> us(works.size());
  const Clock::time_point start = Clock::now();
  const auto enough = [&](int64_t rounds) {
    if (budget.runs > 0) return rounds >= budget.runs;
    return rounds >= kYardstickRounds && std::chrono::duration<double>(Clock::now() - start).count() > budget.seconds;
  };
  for (int64_t round = -budget.warmup; round < 0 || !enough(round); ++round) {
    for (std::size_t w = 0; w < works.size(); ++w) {
      FUSEC_ASSIGN(const double one, impl_->time(works[w]));
      if (round >= 0) us[w].push_back(one);
    }
  }
  GpuPaired out;
  out.us = us[0];
  out.copies = {{"memcpy", median(us[1])}};
  if (copier) out.copies.push_back({"kernel", median(us[2])});
  return out;
}

Result<double> GpuBaseline::copy_us(int64_t bytes) {
  FUSEC_TRY(impl_->reserve(bytes));
  std::vector<double> us;
  for (int64_t round = 0; round < 2 * kYardstickRounds; ++round) {
    FUSEC_ASSIGN(const double one, impl_->time([&](void* stream) {
      return impl_->watch.copy(impl_->copy_from, impl_->copy_to, bytes / 8 * 4, stream);
    }));
    us.push_back(one);
  }
  return median(us);
}

Result<double> GpuBaseline::wall_copy_us(int64_t bytes) {
  FUSEC_TRY(impl_->reserve(bytes));
  Status failed;
  const Call call = [&] {
    Status status = impl_->watch.run(
        [&](void* stream) { return impl_->watch.copy(impl_->copy_from, impl_->copy_to, bytes / 8 * 4, stream); });
    if (!status.ok()) failed = std::move(status);
  };
  const double us = median(time_runs(call, {0, kWallRuns, 2}));
  FUSEC_TRY(failed);
  return us;
}

Result<HostTime> GpuBaseline::host_us(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  std::vector<double> first, queued;
  for (int i = 0; i < kHostRounds; ++i) {
    FUSEC_TRY(impl_->watch.run([&](void* stream) -> Status {
      for (int run = 0; run <= kHostQueued; ++run) {
        Status status;
        const double us = time_us([&] { status = session.run_async(inputs, outputs, stream); });
        FUSEC_TRY(status);
        if (i >= kHostWarmup) (run == 0 ? first : queued).push_back(us);
      }
      return {};
    }));
  }
  return HostTime{median(queued), median(first)};
}

double GpuBaseline::read_gb_per_s() const { return impl_->read_gb_per_s; }
const std::vector<std::string>& GpuBaseline::notes() const { return impl_->notes; }
#else
struct GpuBaseline::Impl {
  std::vector<std::string> notes;
};
Result<std::unique_ptr<GpuBaseline>> GpuBaseline::make(const Options&, Compile) { return gpu_status(); }
Status GpuBaseline::prepare() { return gpu_status(); }
Result<GpuPaired> GpuBaseline::time(Session&, std::span<const Tensor>, std::span<Tensor>, int64_t, const Budget&) {
  return gpu_status();
}
Result<double> GpuBaseline::copy_us(int64_t) { return gpu_status(); }
Result<double> GpuBaseline::wall_copy_us(int64_t) { return gpu_status(); }
Result<HostTime> GpuBaseline::host_us(Session&, std::span<const Tensor>, std::span<Tensor>) { return gpu_status(); }
double GpuBaseline::read_gb_per_s() const { return 0; }
const std::vector<std::string>& GpuBaseline::notes() const { return impl_->notes; }
#endif

GpuBaseline::GpuBaseline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuBaseline::~GpuBaseline() = default;

}  // namespace fusec::tool
