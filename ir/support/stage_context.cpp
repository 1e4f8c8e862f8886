// SPDX-License-Identifier: Apache-2.0
// Checks the time limit of a compile and writes the dumps of its stages. It only compares clocks and asks the
// caller; the stages decide where to check. Without a dump folder, the text is not even produced.

#include "ir/support/stage_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace fusec::ir {

bool Progress::cancels(const char* stage, double done) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return true;
  done = std::clamp(done, 0.0, 1.0);
  done_ = stage_ == stage ? std::max(done_, done) : done;
  stage_ = stage;
  cancelled_ = on_progress_(stage, done_);
  return cancelled_;
}

Deadline::Deadline(std::optional<double> seconds, const std::atomic<bool>* cancelled)
    : seconds_(seconds), start_(Clock::now()), cancelled_(cancelled) {}

Deadline::Deadline(const Options& options) : Deadline(options.compile_seconds) {
  if (options.on_progress) progress_ = std::make_shared<Progress>(options.on_progress);
}

Deadline Deadline::progress_alone(const Options& options) {
  Deadline told(options);
  told.seconds_.reset();
  return told;
}

Status Deadline::check(const char* stage, double done) const {
  if ((cancelled_ != nullptr && *cancelled_) || (progress_ != nullptr && progress_->cancels(stage, done)))
    return Status(StatusCode::cancelled, fmt::format("the call was cancelled in stage {}", stage));
  const std::chrono::duration<double> passed = Clock::now() - start_;
  if (!seconds_ || passed.count() < *seconds_) return {};
  return Status(StatusCode::invalid_argument,
                fmt::format("the compile took longer than its limit of {} s and was ended in stage {}; raise "
                            "Options::compile_seconds (--compile-limit), or leave it out",
                            *seconds_, stage));
}

Status dump(const std::string& dir, const std::string& name, const std::function<std::string()>& text) {
  if (dir.empty()) return {};
  const std::string path = dir + "/" + name;
  std::ofstream file(path);
  file << text() << std::flush;
  if (!file)
    return Status(StatusCode::invalid_argument, "the dump '" + path + "' cannot be written; does the folder exist?");
  return {};
}

}  // namespace fusec::ir
