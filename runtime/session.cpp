// SPDX-License-Identifier: Apache-2.0
#include "fusec/session.h"

#include <algorithm>
#include <utility>

#include "runtime/executor.h"
#include "runtime/guard.h"
#include "runtime/state.h"
#include "runtime/strided_copy.h"

namespace fusec {
namespace {

using runtime::AlignedBuffer;
using runtime::BoundIo;
using runtime::Frame;
using runtime::Plan;

constexpr std::size_t kFrames = 16;  // sets of shapes kept ready, as many as the Engine keeps Plans

std::string text(const TensorShape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

Status mismatch(const char* kind, const BoundIo& io, const Tensor& given) {
  return Status(StatusCode::invalid_argument, std::string(kind) + " '" + io.name + "' must be " + to_string(io.dtype) +
                                                  text(io.shape) + ", given is " + to_string(given.dtype()) +
                                                  text(given.shape()));
}

bool is_unset(const Tensor& t) { return t.data() == nullptr && t.rank() == 0; }

bool is_aligned(const void* data, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0;
}

// The bytes that a tensor's elements span, as [first, second).
std::pair<uintptr_t, uintptr_t> span_of(const Tensor& t) {
  const auto base = reinterpret_cast<uintptr_t>(t.data());
  const auto element = static_cast<int64_t>(size_of(t.dtype()));
  if (t.num_elements() == 0) return {base, base};
  int64_t low = 0, high = element;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    int64_t& end = t.strides()[i] < 0 ? low : high;
    end += (t.shape()[i] - 1) * t.strides()[i] * element;
  }
  return {base + static_cast<uintptr_t>(low), base + static_cast<uintptr_t>(high)};
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto [a_low, a_high] = span_of(a);
  const auto [b_low, b_high] = span_of(b);
  return a_low < b_high && b_low < a_high && a_low < a_high && b_low < b_high;
}

// Whether some input is still read once this output, which shares its memory, has been written.
bool spoils_an_input(const Plan& plan, std::span<const Tensor> inputs, const Tensor& output, uint32_t o) {
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (plan.inputs[i].last < plan.outputs[o].first || !overlap(inputs[i], output)) continue;
    const bool in_place = std::any_of(plan.in_place.begin(), plan.in_place.end(),
                                      [&](const runtime::InPlaceIo& p) { return p.input == i && p.output == o; });
    if (!in_place || inputs[i].data() != output.data()) return true;
  }
  return false;
}

Result<void*> staging(AlignedBuffer& buffer, const Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.bytes());
  if (buffer.bytes() < bytes) {
    FUSEC_ASSIGN(buffer, AlignedBuffer::make(bytes));
  }
  return static_cast<void*>(buffer.data());
}

}  // namespace

struct Session::Impl {
  struct Ready {
    std::vector<int64_t> key;  // ranks and extents of all inputs
    runtime::PlanPtr plan;
    std::unique_ptr<Frame> frame;  // null after the arena has moved
    uint64_t used = 0;
  };

  explicit Impl(const Engine& e) : engine(e) {
    const ir::Program& program = engine.state()->program();
    in.resize(program.inputs.size());
    out.resize(program.outputs.size());
    in_staging.resize(in.size());
    out_staging.resize(out.size());
    noted.resize(in.size() + out.size());
    row_major.reserve(16);
  }

  Result<Ready*> ready(std::span<const Tensor> inputs);
  Result<Ready*> make_ready(std::span<const TensorShape> shapes);
  Status make_frame(Ready& entry);
  Status check_inputs(std::span<const Tensor> inputs) const;
  Status take_inputs(const Plan& plan, std::span<const Tensor> inputs);
  Status take_output(const Plan& plan, std::span<const Tensor> inputs, Tensor& output, uint32_t o);
  void give_outputs(std::span<Tensor> outputs);
  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us = nullptr);
  std::span<const int64_t> row_major_strides(const TensorShape& shape);
  void note(std::size_t slot, const char* kind, const BoundIo& io, const char* why);

  Engine engine;
  runtime::RunMemory memory;
  std::vector<Ready> entries;
  uint64_t clock = 0;
  std::vector<int64_t> key, row_major;
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<AlignedBuffer> in_staging, out_staging;
  std::vector<bool> noted;
  std::vector<Tensor> bound_inputs, bound_outputs;
  SessionStats stats;
};

std::span<const int64_t> Session::Impl::row_major_strides(const TensorShape& shape) {
  row_major.resize(shape.size());
  int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    row_major[i] = stride;
    stride *= shape[i];
  }
  return row_major;
}

void Session::Impl::note(std::size_t slot, const char* kind, const BoundIo& io, const char* why) {
  ++stats.staged_copies;
  if (noted[slot]) return;
  noted[slot] = true;
  stats.notes.push_back(std::string(kind) + " '" + io.name + "' is copied at each run: " + why);
}

Status Session::Impl::check_inputs(std::span<const Tensor> inputs) const {
  const std::vector<TensorInfo>& infos = engine.inputs();
  if (inputs.size() != infos.size()) {
    return Status(StatusCode::invalid_argument, "the model has " + std::to_string(infos.size()) +
                                                    " inputs, given are " + std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != infos[i].dtype) {
      return Status(StatusCode::invalid_argument, "input '" + infos[i].name + "' must be " + to_string(infos[i].dtype) +
                                                      ", given is " + to_string(inputs[i].dtype()));
    }
    if (inputs[i].data() == nullptr && inputs[i].num_elements() > 0) {
      return Status(StatusCode::invalid_argument, "input '" + infos[i].name + "' has no memory");
    }
  }
  return {};
}

Status Session::Impl::make_frame(Ready& entry) {
  FUSEC_ASSIGN(const bool moved, memory.reserve(*entry.plan));
  if (moved) {
    for (Ready& other : entries) other.frame.reset();
  }
  if (!entry.frame) entry.frame = std::make_unique<Frame>(entry.plan, memory);
  return {};
}

Result<Session::Impl::Ready*> Session::Impl::make_ready(std::span<const TensorShape> shapes) {
  FUSEC_ASSIGN(runtime::PlanPtr plan, engine.state()->plan(shapes));
  Ready entry;
  for (const TensorShape& shape : shapes) {
    entry.key.push_back(static_cast<int64_t>(shape.size()));
    entry.key.insert(entry.key.end(), shape.begin(), shape.end());
  }
  auto at = std::find_if(entries.begin(), entries.end(), [&](const Ready& r) { return r.key == entry.key; });
  if (at == entries.end() && entries.size() >= kFrames) {
    at = std::min_element(entries.begin(), entries.end(),
                          [](const Ready& a, const Ready& b) { return a.used < b.used; });
    *at = Ready();
  }
  if (at == entries.end()) at = entries.emplace(entries.end());
  if (!at->plan) {
    at->key = std::move(entry.key);
    at->plan = std::move(plan);
  }
  at->used = ++clock;
  const Status status = make_frame(*at);
  if (!status.ok()) {
    entries.erase(at);
    return status;
  }
  return &*at;
}

Result<Session::Impl::Ready*> Session::Impl::ready(std::span<const Tensor> inputs) {
  key.clear();
  for (const Tensor& t : inputs) {
    key.push_back(t.rank());
    key.insert(key.end(), t.shape().begin(), t.shape().end());
  }
  for (Ready& entry : entries) {
    if (entry.key != key) continue;
    entry.used = ++clock;
    if (!entry.frame) FUSEC_TRY(make_frame(entry));
    return &entry;
  }
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  return make_ready(shapes);
}

Status Session::Impl::take_inputs(const Plan& plan, std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    in[i] = t.data();
    const bool aligned = is_aligned(t.data(), plan.inputs[i].alignment), contiguous = t.is_contiguous();
    if ((aligned && contiguous) || t.num_elements() == 0) continue;
    FUSEC_ASSIGN(void* staged, staging(in_staging[i], t));
    runtime::strided_copy(staged, row_major_strides(t.shape()), t.data(), t.strides(), t.shape(),
                          static_cast<int64_t>(size_of(t.dtype())));
    in[i] = staged;
    note(i, "input", plan.inputs[i], contiguous ? "it is not aligned" : "it is not row-major");
  }
  return {};
}

Status Session::Impl::take_output(const Plan& plan, std::span<const Tensor> inputs, Tensor& t, uint32_t o) {
  const BoundIo& io = plan.outputs[o];
  if (is_unset(t)) {
    FUSEC_ASSIGN(t, Tensor::make(io.dtype, io.shape));
  }
  if (t.dtype() != io.dtype || t.shape() != io.shape) return mismatch("output", io, t);
  out[o] = t.data();
  if (t.num_elements() == 0) return {};
  if (t.data() == nullptr) return Status(StatusCode::invalid_argument, "output '" + io.name + "' has no memory");
  const bool aligned = is_aligned(t.data(), io.alignment), contiguous = t.is_contiguous();
  if (aligned && contiguous && !spoils_an_input(plan, inputs, t, o)) return {};
  FUSEC_ASSIGN(out[o], staging(out_staging[o], t));
  note(in.size() + o, "output", io,
       !contiguous ? "it is not row-major"
       : !aligned  ? "it is not aligned"
                   : "an input that lies there is read later");
  return {};
}

void Session::Impl::give_outputs(std::span<Tensor> outputs) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    Tensor& t = outputs[o];
    if (out[o] == t.data()) continue;
    runtime::strided_copy(t.data(), t.strides(), out[o], row_major_strides(t.shape()), t.shape(),
                          static_cast<int64_t>(size_of(t.dtype())));
  }
}

Status Session::Impl::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) {
  FUSEC_TRY(check_inputs(inputs));
  if (outputs.size() != out.size()) {
    return Status(StatusCode::invalid_argument, "the model has " + std::to_string(out.size()) + " outputs, given are " +
                                                    std::to_string(outputs.size()));
  }
  FUSEC_ASSIGN(Ready* const entry, ready(inputs));
  FUSEC_TRY(take_inputs(*entry->plan, inputs));
  for (uint32_t o = 0; o < outputs.size(); ++o) FUSEC_TRY(take_output(*entry->plan, inputs, outputs[o], o));
  FUSEC_TRY(entry->frame->run(in, out, step_us));
  give_outputs(outputs);
  ++stats.runs;
  return {};
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Engine& engine) {
  return runtime::guarded([&]() -> Result<Session> { return Session(std::make_unique<Impl>(engine)); });
}

Status Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  return runtime::guarded([&] { return impl_->run(inputs, outputs); });
}

Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs) {
  return runtime::guarded([&]() -> Result<std::vector<Tensor>> {
    std::vector<Tensor> outputs(impl_->out.size());
    FUSEC_TRY(impl_->run(inputs, outputs));
    return outputs;
  });
}

Status Session::bind_io(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return runtime::guarded([&]() -> Status {
    FUSEC_TRY(impl_->check_inputs(inputs));
    if (outputs.size() != impl_->out.size()) return Status(StatusCode::invalid_argument, "wrong number of outputs");
    std::vector<Tensor> in(inputs.begin(), inputs.end()), out(outputs.begin(), outputs.end());
    FUSEC_ASSIGN(Impl::Ready* const entry, impl_->ready(in));
    for (uint32_t o = 0; o < out.size(); ++o) FUSEC_TRY(impl_->take_output(*entry->plan, in, out[o], o));
    impl_->bound_inputs = std::move(in);
    impl_->bound_outputs = std::move(out);
    return {};
  });
}

Status Session::run_bound() {
  return runtime::guarded([&] { return impl_->run(impl_->bound_inputs, impl_->bound_outputs); });
}

Status Session::prepare(std::span<const TensorShape> input_shapes) {
  return runtime::guarded([&] { return impl_->make_ready(input_shapes).status(); });
}

Result<std::vector<TensorShape>> Session::output_shapes(std::span<const TensorShape> input_shapes) const {
  return impl_->engine.output_shapes(input_shapes);
}

Result<PlanStats> Session::profile(std::span<const Tensor> inputs) {
  return runtime::guarded([&]() -> Result<PlanStats> {
    FUSEC_TRY(impl_->check_inputs(inputs));
    FUSEC_ASSIGN(Impl::Ready* const entry, impl_->ready(inputs));
    PlanStats stats = runtime::describe(*entry->plan);
    std::vector<double> us(stats.steps.size());
    std::vector<Tensor> outputs(impl_->out.size());
    FUSEC_TRY(impl_->run(inputs, outputs, us.data()));
    for (std::size_t i = 0; i < us.size(); ++i) stats.steps[i].us = us[i];
    return stats;
  });
}

SessionStats Session::stats() const {
  SessionStats stats = impl_->stats;
  stats.prepared = static_cast<int64_t>(impl_->entries.size());
  stats.arena_bytes = impl_->memory.arena.bytes();
  return stats;
}

const Engine& Session::engine() const { return impl_->engine; }

}  // namespace fusec
