// SPDX-License-Identifier: Apache-2.0
// What the commands print: tables, numbers and JSON on stdout; progress on stderr.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fusec/shape.h"

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

// While alive for more than a second, and stderr is a terminal: one line there that says what is going on.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void tick();
  std::string what_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace fusec::tool
