// SPDX-License-Identifier: Apache-2.0
// Prints tables, JSON and text on stdout, and warnings and a progress line on stderr. The progress line appears after a
// second and only on a terminal.

#include "runtime/tool/io/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace fusec::tool {
namespace {

enum class ColorMode : uint8_t { automatic, always, never };

// Of this process, which has one stdout and one stderr.
struct Terminal {
  bool quiet = false;
  ColorMode color = ColorMode::automatic;
};
Terminal terminal;

bool has_colors(std::FILE* stream) {
  if (terminal.color != ColorMode::automatic) return terminal.color == ColorMode::always;
  const char* const no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == 0) && isatty(fileno(stream)) != 0;
}

}  // namespace

Status set_terminal(bool quiet, const std::string& color) {
  if (color != "auto" && color != "always" && color != "never")
    return Status(StatusCode::invalid_argument, fmt::format("--color {} is not one of auto, always, never", color));
  terminal.quiet = quiet;
  terminal.color = color == "auto" ? ColorMode::automatic : color == "always" ? ColorMode::always : ColorMode::never;
  return {};
}

std::string colored(const std::string& text, Color color, std::FILE* stream) {
  constexpr const char* kCodes[] = {"31", "32", "1"};
  if (text.empty() || !has_colors(stream)) return text;
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<std::size_t>(color)], text);
}

void warn(const std::string& text) {
  if (!terminal.quiet) fmt::print(stderr, "fusec: {}\n", text);
}

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

// Cells that say whether something is well.
std::string mark_verdict(const std::string& cell) {
  if (cell == "FAILED" || cell == "SLOWER" || cell == "failed" || cell == "wrong")
    return colored(cell, Color::red, stdout);
  return cell == "ok" || cell == "faster" ? colored(cell, Color::green, stdout) : cell;
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
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const auto& row = rows_[r];
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(columns[i].width - row[i].size(), ' ');
      const std::string cell = r == 0 ? row[i] : mark_verdict(row[i]);
      line += (i == 0 ? "" : "  ") + (columns[i].numbers ? gap + cell : cell + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 ? colored(line, Color::bold, stdout) : line) + "\n";
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

namespace {

constexpr std::size_t kBar = 24;
constexpr int kProgressWidth = 78;

bool shows_progress() { return !terminal.quiet && isatty(STDERR_FILENO) != 0; }

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (shows_progress()) thread_ = std::thread([this] { tick(); });
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::show() {
  std::string line = shortened(what_, 60) + fmt::format(", {:.0f} s", seconds());
  if (steps_ > 0) {
    const std::size_t filled = kBar * steps_done_ / steps_;
    line = fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'), std::string(kBar - filled, '.'), steps_done_,
                       steps_, shortened(what_, 40));
  }
  fmt::print(stderr, "\r{:<{}}", line, kProgressWidth);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::step(std::size_t done, std::size_t all, const std::string& what) {
  const std::lock_guard lock(mutex_);
  steps_done_ = std::min(done, all), steps_ = all, what_ = what;
  if (shows_progress() && seconds() > 1) show();
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) show();
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (shown_) fmt::print(stderr, "\r{:{}}\r", "", kProgressWidth);
}

}  // namespace fusec::tool
