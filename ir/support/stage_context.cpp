// SPDX-License-Identifier: Apache-2.0
// Checks the time limit of a compile and writes the dumps of its stages. It only compares clocks; the stages decide
// where to check. Without a dump folder, the text is not even produced.

#include "ir/support/stage_context.h"

#include <fmt/format.h>

#include <fstream>

namespace fusec::ir {

Deadline::Deadline(std::optional<double> seconds, const std::atomic<bool>* cancelled)
    : seconds_(seconds), start_(Clock::now()), cancelled_(cancelled) {}

Status Deadline::check(const char* stage) const {
  if (cancelled_ != nullptr && *cancelled_)
    return Status(StatusCode::invalid_argument, fmt::format("the compile was ended in stage {}", stage));
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
