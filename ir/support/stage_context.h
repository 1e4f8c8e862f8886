// SPDX-License-Identifier: Apache-2.0
// What the stages of one compile share beside their inputs: the time limit and the caller's wish to cancel, which they
// check between passes, regions and kernels, and Options::dump_dir, to which they write text for inspection.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "fusec/options.h"
#include "fusec/status.h"

namespace fusec::ir {

// Options::on_progress, which one thread at a time calls. Once it has cancelled, it is called no more.
class Progress {
 public:
  explicit Progress(std::function<bool(const char*, double)> on_progress) : on_progress_(std::move(on_progress)) {}
  // What is told of a stage never becomes less.
  bool cancels(const char* stage, double done);

 private:
  const std::function<bool(const char*, double)> on_progress_;
  std::mutex mutex_;
  std::string stage_;
  double done_ = 0;
  bool cancelled_ = false;
};

class Deadline {
 public:
  Deadline() = default;  // no limit
  // Starts now and ends after Options::compile_seconds; unset: no limit.
  explicit Deadline(std::optional<double> seconds, const std::atomic<bool>* cancelled = nullptr);
  // With Options::on_progress, too.
  explicit Deadline(const Options& options);
  // With that and no limit.
  static Deadline progress_alone(const Options& options);
  // Tells how much of the stage is done, 0 to 1. invalid_argument, with the limit, `stage` and a remedy, if the time is
  // over; cancelled, if `cancelled` is set or Options::on_progress asks for it.
  Status check(const char* stage, double done = 0) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> seconds_;
  Clock::time_point start_;
  const std::atomic<bool>* cancelled_ = nullptr;
  std::shared_ptr<Progress> progress_;  // null: nobody is told
};

// Writes text() to the file `name` in the folder `dir`. Does nothing if `dir` is empty. invalid_argument: the file
// cannot be written.
Status dump(const std::string& dir, const std::string& name, const std::function<std::string()>& text);

}  // namespace fusec::ir
