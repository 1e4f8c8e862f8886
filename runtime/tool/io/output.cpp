// SPDX-License-Identifier: Apache-2.0
// Prints tables, JSON and text on stdout and a progress line on stderr. The progress line appears after a second and
// only on a terminal.

#include "runtime/tool/io/output.h"

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

namespace {

bool is_number(const std::string& cell) {
  const std::size_t at = cell.find_first_not_of('-');
  return at != std::string::npos && cell[at] >= '0' && cell[at] <= '9';
}

struct Column {
  std::size_t width = 0;
  bool numbers = true;
};

}  // namespace

std::string Table::str() const {
  std::vector<Column> columns;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    columns.resize(std::max(columns.size(), rows_[r].size()));
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      columns[i].width = std::max(columns[i].width, cell.size());
      if (r > 0 && cell != "-") columns[i].numbers = columns[i].numbers && is_number(cell);
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(columns[i].width - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (columns[i].numbers ? gap + row[i] : row[i] + gap);
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
