// SPDX-License-Identifier: Apache-2.0
// What the commands print: tables, numbers and JSON on stdout; progress and warnings on stderr.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fusec/shape.h"
#include "fusec/status.h"

namespace fusec::tool {

using Json = nlohmann::ordered_json;  // keys in the order they were written

void print(const Json& json);
void print_text(const std::string& text);  // with one newline at its end

// Columns as wide as their widest cell; columns of numbers are flush right. The first row is the header.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string bytes_text(int64_t bytes);                  // "1.5 MB"
std::string shape_text(const std::vector<int64_t>& s);  // "[1, 3, 224, 224]"
std::string shortened(const std::string& text, std::size_t width);

// How this process writes, once for all: --quiet and --color (auto, always, never; else invalid_argument).
Status set_terminal(bool quiet, const std::string& color);

enum class Color : uint8_t { red, green, bold };
// The text as it is, where `stream` is to have no colours: with auto where it is no terminal, or NO_COLOR is set.
std::string colored(const std::string& text, Color color, std::FILE* stream);

// "fusec: TEXT" on stderr, unless --quiet.
void warn(const std::string& text);

// While alive for more than a second, and stderr is a terminal: one line there that says what is going on, with the
// seconds that have passed, or with a bar where steps are counted.
class Progress {
 public:
  // A thread writes the line every second.
  explicit Progress(std::string what);
  // Without a thread, for processes that fork: step() writes the line.
  struct Steps {};
  explicit Progress(Steps) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `all` are over, and `what` begins.
  void step(std::size_t done, std::size_t all, const std::string& what);

 private:
  void tick();
  void show();  // with the mutex held
  double seconds() const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string what_;
  std::size_t steps_done_ = 0, steps_ = 0;  // 0: not counted
  bool shown_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace fusec::tool
