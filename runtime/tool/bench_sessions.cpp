// SPDX-License-Identifier: Apache-2.0
// Runs several sessions of one engine side by side, for `fusec bench --sessions`: each has a thread and, on a GPU, a
// stream of its own. All begin together, after each has warmed up.

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "fusec/device.h"
#include "runtime/tool/bench_row.h"

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxLaneRuns = 100'000;  // of one session

Result<std::vector<Tensor>> make_host_outputs(const Engine& engine, const std::vector<TensorShape>& shapes) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    FUSEC_ASSIGN(Tensor tensor, Tensor::make(engine.outputs()[i].dtype, shapes[i]));
    out.push_back(std::move(tensor));
  }
  return out;
}

// One session with its tensors and what it measured.
struct Lane {
  std::optional<Session> session;
  std::vector<Tensor> outputs;
  std::vector<double> us;
  Status status;

  Status prepare(const Engine& engine, const std::vector<Tensor>& inputs, const std::vector<TensorShape>& shapes,
                 bool on_host, int64_t warmup) {
    FUSEC_ASSIGN(session, Session::create(engine));
    FUSEC_ASSIGN(outputs, on_host ? make_host_outputs(engine, shapes) : make_outputs(engine, shapes));
    FUSEC_TRY(session->bind_io(inputs, outputs));
    for (int64_t i = 0; i <= warmup; ++i) FUSEC_TRY(session->run_bound());
    return {};
  }

  Status run(const Budget& budget) {
    const Clock::time_point start = Clock::now();
    const auto is_over = [&] {
      if (budget.runs > 0) return us.size() >= static_cast<std::size_t>(budget.runs);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      return us.size() >= kMaxLaneRuns || (seconds >= budget.seconds && us.size() >= 3);
    };
    while (!is_over()) {
      Status ran;
      us.push_back(time_us([&] { ran = session->run_bound(); }));
      FUSEC_TRY(ran);
    }
    return {};
  }
};

}  // namespace

Result<SessionTimes> time_sessions(const Engine& engine, const std::vector<Tensor>& inputs,
                                   const std::vector<TensorShape>& outputs, bool on_host, const BenchFlags& flags) {
  std::vector<Lane> lanes(static_cast<std::size_t>(flags.sessions));
  for (Lane& lane : lanes) FUSEC_TRY(lane.prepare(engine, inputs, outputs, on_host, flags.warmup));
  std::latch begin(flags.sessions + 1);
  std::vector<std::thread> threads;
  for (Lane& lane : lanes) {
    threads.emplace_back([&lane, &begin, &flags] {
      begin.arrive_and_wait();
      lane.status = lane.run(flags.budget());
    });
  }
  begin.arrive_and_wait();
  const Clock::time_point start = Clock::now();
  for (std::thread& thread : threads) thread.join();
  SessionTimes times;
  times.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (Lane& lane : lanes) {
    FUSEC_TRY(lane.status);
    times.us.insert(times.us.end(), lane.us.begin(), lane.us.end());
  }
  return times;
}

}  // namespace fusec::tool
