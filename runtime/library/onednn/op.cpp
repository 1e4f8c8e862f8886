// SPDX-License-Identifier: Apache-2.0
// A bound oneDNN call: executes its primitives with the addresses of this run, then moves and trailing epilogues. It
// also packs weights at bind. Concurrent runs use separate memory objects. A move copies a dense channels-last result
// into a strided slice, split over threads by rows like the convolution.

#include "runtime/library/onednn/op.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/library/plain/finish.h"

namespace fusec::runtime::onednn {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Memory objects hold the address that was set last, so every concurrent run needs its own.
struct RunState {
  dnnl::stream stream;
  std::vector<dnnl::memory> memories;              // of all arguments, in order
  std::vector<std::vector<dnnl_exec_arg_t>> args;  // by stage

  RunState(const dnnl::engine& engine, const ExecutionPlan& execution_plan) : stream(engine) {
    for (const PlanStep& step : execution_plan.steps) {
      args.emplace_back();
      for (const PrimitiveArg& primitive_arg : step.primitive_args) {
        memories.push_back(primitive_arg.fixed ? *primitive_arg.fixed
                                               : dnnl::memory(primitive_arg.desc, engine, DNNL_MEMORY_NONE));
        args.back().push_back({primitive_arg.id, memories.back().get()});
      }
    }
  }
};

// Idle run states. Concurrent runs create further ones, which are then kept.
class RunStates {
 public:
  RunStates(const dnnl::engine& engine, const ExecutionPlan& execution_plan)
      : engine_(engine), recipe_(execution_plan) {
    put(make());
  }

  std::unique_ptr<RunState> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<RunState> state = std::move(idle_.back());
        idle_.pop_back();
        return state;
      }
    }
    return make();
  }
  void put(std::unique_ptr<RunState> state) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(state));
  }

 private:
  std::unique_ptr<RunState> make() const { return std::make_unique<RunState>(engine_, recipe_); }

  dnnl::engine engine_;
  const ExecutionPlan& recipe_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RunState>> idle_;
};

void* address(const PrimitiveArg& primitive_arg, const ExecutionPlan& execution_plan, void* const* args,
              void* workspace) {
  char* base = static_cast<char*>(workspace);
  switch (primitive_arg.source) {
    case ArgSource::arg:
      return args[primitive_arg.arg];
    case ArgSource::temporary:
      return base + primitive_arg.offset;
    case ArgSource::scratchpad:
      return base + execution_plan.temporaries;
    case ArgSource::fixed:
      break;
  }
  return nullptr;
}

dnnl_status_t execute(const ExecutionPlan& execution_plan, RunState& state, void* const* args, void* workspace) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < execution_plan.steps.size(); ++i) {
    const PlanStep& step = execution_plan.steps[i];
    for (const PrimitiveArg& primitive_arg : step.primitive_args) {
      dnnl_memory_t memory = state.memories[next++].get();
      if (primitive_arg.source == ArgSource::fixed) continue;
      const dnnl_status_t set =
          dnnl_memory_set_data_handle(memory, address(primitive_arg, execution_plan, args, workspace));
      if (set != dnnl_success) return set;
    }
    const std::vector<dnnl_exec_arg_t>& given = state.args[i];
    const dnnl_status_t done =
        dnnl_primitive_execute(step.primitive.get(), state.stream.get(), static_cast<int>(given.size()), given.data());
    if (done != dnnl_success) return done;
  }
  return dnnl_stream_wait(state.stream.get());
}

class OneDnnOp : public LibraryOp {
 public:
  OneDnnOp(const dnnl::engine& engine, Built built, std::size_t args, int threads)
      : built_(std::move(built)), args_(args), threads_(threads), states_(engine, built_.execution_plan) {
    if (built_.alias >= 0) in_place_states_.emplace(engine, built_.in_place);
  }

  Status run(void* const* args, void* workspace, const ExecContext&) const override {
    // Primitives are made for the number of threads given at bind.
    const ThreadCount threads(threads_);
    const bool in_place = built_.alias >= 0 && args[built_.alias] == args[args_ - 1];
    const ExecutionPlan& execution_plan = in_place ? built_.in_place : built_.execution_plan;
    RunStates& states = in_place ? *in_place_states_ : states_;
    std::unique_ptr<RunState> state = states.take();
    const dnnl_status_t done = execute(execution_plan, *state, args, workspace);
    states.put(std::move(state));
    if (done != dnnl_success) {
      return Status(done == dnnl_out_of_memory ? StatusCode::out_of_memory : StatusCode::device,
                    "oneDNN failed to run " + execution_plan.implementation);
    }
    if (built_.move) onednn::run(*built_.move, args, workspace, threads_);
    if (built_.trailing) finish(args, workspace);
    return {};
  }

  std::size_t workspace_bytes() const override {
    return std::max(bytes(built_.execution_plan), built_.alias >= 0 ? bytes(built_.in_place) : 0);
  }
  std::vector<int> may_alias() const override {
    return built_.alias >= 0 ? std::vector<int>{built_.alias} : std::vector<int>{};
  }
  std::string implementation() const override {
    return "onednn " + built_.execution_plan.implementation + (built_.trailing ? " + loops" : "");
  }
  std::size_t packed_bytes() const override {
    std::size_t sum = 0;
    for (const PlanStep& step : built_.execution_plan.steps) {
      for (const PrimitiveArg& primitive_arg : step.primitive_args)
        sum += primitive_arg.fixed ? primitive_arg.desc.get_size() : 0;
    }
    return sum;
  }

 private:
  static std::size_t bytes(const ExecutionPlan& execution_plan) {
    return execution_plan.temporaries + execution_plan.scratchpad;
  }

  void finish(void* const* args, void* workspace) const {
    void* extended[kMaxArgs + 1];
    std::copy(args, args + args_, extended);
    if (built_.trailing->from_temporary) extended[args_] = static_cast<char*>(workspace) + built_.trailing->offset;
    plain::transform(built_.trailing->from, built_.trailing->to, built_.trailing->posts, extended, threads_);
  }

 public:
  static constexpr std::size_t kMaxArgs = 32;

 private:
  Built built_;
  std::size_t args_;
  int threads_;
  mutable RunStates states_;
  mutable std::optional<RunStates> in_place_states_;
};

}  // namespace

std::size_t ExecutionPlan::reserve(std::size_t bytes) {
  return std::exchange(temporaries, temporaries + round_up(bytes));
}

void ExecutionPlan::add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratch,
                        std::vector<PrimitiveArg> primitive_args) {
  if (const std::size_t bytes = scratch.get_size()) {
    primitive_args.push_back({DNNL_ARG_SCRATCHPAD, scratch, ArgSource::scratchpad, -1, 0, nullptr});
    scratchpad = std::max(scratchpad, round_up(bytes));
  }
  steps.push_back({primitive, std::move(primitive_args)});
}

void ExecutionPlan::add_reorder(const dnnl::engine& engine, const PrimitiveArg& from, const PrimitiveArg& to) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc pd(engine, from.desc, engine, to.desc, attr);
  PrimitiveArg source = from, target = to;
  source.id = DNNL_ARG_FROM;
  target.id = DNNL_ARG_TO;
  add(dnnl::reorder(pd), pd.scratchpad_desc(), {source, target});
}

std::shared_ptr<const dnnl::memory> PackedWeights::get(const dnnl::engine& engine, const void* data,
                                                       const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const std::lock_guard lock(mutex_);
  std::vector<Entry>& entries = entries_[data];
  for (const Entry& entry : entries) {
    if (entry.from == from && entry.packed->get_desc() == to) return entry.packed;
  }
  // The source is never written; oneDNN's API lacks const.
  dnnl::memory source(from, engine, const_cast<void*>(data));
  std::shared_ptr<const dnnl::memory> packed;
  if (from == to) {
    packed = std::make_shared<const dnnl::memory>(source);
  } else {
    packed = make(engine, to);
    dnnl::memory target = *packed;
    dnnl::stream stream(engine);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  }
  entries.push_back({from, std::move(packed)});
  return entries.back().packed;
}

std::shared_ptr<const dnnl::memory> PackedWeights::make(const dnnl::engine& engine, const dnnl::memory::desc& desc) {
  constexpr std::size_t kPiece = std::size_t{32} << 20;  // memory that is not touched costs only address space
  const std::size_t bytes = round_up(desc.get_size());
  if (!piece_ || used_ + bytes > static_cast<std::size_t>(piece_->bytes())) {
    Result<AlignedBuffer> fresh = AlignedBuffer::make(static_cast<int64_t>(std::max(bytes, kPiece)));
    if (!fresh.ok()) throw dnnl::error(dnnl_out_of_memory, "no memory for packed weights");
    piece_ = std::make_shared<AlignedBuffer>(std::move(fresh).value());
    used_ = 0;
  }
  std::byte* data = piece_->data() + std::exchange(used_, used_ + bytes);
  struct Held {
    std::shared_ptr<AlignedBuffer> piece;
    dnnl::memory memory;
  };
  const auto held = std::make_shared<const Held>(Held{piece_, dnnl::memory(desc, engine, data)});
  return {held, &held->memory};
}

std::unique_ptr<LibraryOp> make_op(const dnnl::engine& engine, Built built, const LibraryCall& call) {
  if (call.args.size() > OneDnnOp::kMaxArgs) return nullptr;
  return std::make_unique<OneDnnOp>(engine, std::move(built), call.args.size(), std::max(call.threads, 1));
}

std::optional<Move> move_to(const CallOperand& out, std::size_t offset) {
  const std::size_t rank = out.dims.size();
  if (rank > 4 || (out.strides[1] != 1 && out.dims[1] > 1)) return std::nullopt;
  const auto element = static_cast<int64_t>(size_of(out.dtype));
  Move move{offset, out.arg, out.dims[0], 1, out.dims[rank - 1], out.dims[1] * element};
  move.image = out.strides[0] * element;
  move.step = out.strides[rank - 1] * element;
  if (rank == 4) {
    move.height = out.dims[2];
    move.row = out.strides[2] * element;
  }
  return move;
}

void run(const Move& move, void* const* args, void* workspace, int threads) {
  const char* source = static_cast<const char*>(workspace) + move.offset;
  char* target = static_cast<char*>(args[move.arg]);
  parallel_for(threads, move.images * move.height, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const char* from = source + row * move.width * move.run_bytes;
      char* to = target + row / move.height * move.image + row % move.height * move.row;
      for (int64_t w = 0; w < move.width; ++w) {
        std::memcpy(to + w * move.step, from + w * move.run_bytes, static_cast<std::size_t>(move.run_bytes));
      }
    }
  });
}

}  // namespace fusec::runtime::onednn
