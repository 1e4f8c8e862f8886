// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace fusec::tool {

void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

// Names come from models and may hold any bytes.
void print(const Json& json) { print_text(json.dump(2, ' ', false, Json::error_handler_t::replace)); }

std::string Table::str() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool number = !row[i].empty() && row[i][0] >= '0' && row[i][0] <= '9';
      const std::string gap = i == 0 ? "" : "  ";
      line += gap + (number ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]));
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string shape_text(const std::vector<int64_t>& s) {
  std::string out = "[";
  for (std::size_t i = 0; i < s.size(); ++i) out += (i ? ", " : "") + std::to_string(s[i]);
  return out + "]";
}

std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { tick(); });
}

void Progress::tick() {
  const auto start = std::chrono::steady_clock::now();
  bool shown = false;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "\r%s, %.0f s ", what_.c_str(), passed.count());
    std::fflush(stderr);
    shown = true;
  }
  if (shown) std::fprintf(stderr, "\r%*s\r", static_cast<int>(what_.size()) + 12, "");
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

}  // namespace fusec::tool
