// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/json.h"

#include <cctype>

#include "bindings/onnxruntime/api.h"

namespace fusec::ort {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::vector<JsonObject> list() {
    std::vector<JsonObject> objects;
    expect('[');
    while (!accept(']')) {
      objects.push_back(object());
      accept(',');
    }
    return objects;
  }

  std::vector<std::string> values() {
    std::vector<std::string> values;
    expect('[');
    while (!accept(']')) {
      values.push_back(value());
      accept(',');
    }
    return values;
  }

 private:
  JsonObject object() {
    JsonObject members;
    expect('{');
    while (!accept('}')) {
      std::string key = text();
      expect(':');
      members[std::move(key)] = value();
      accept(',');
    }
    return members;
  }

  std::string value() { return peek() == '"' ? text() : peek() == '[' ? list_text() : word(); }

  // A list without lists inside, and without brackets in its texts.
  std::string list_text() {
    std::string out;
    do out += next();
    while (out.back() != ']');
    return out;
  }

  std::string text() {
    expect('"');
    std::string out;
    for (char c = next(); c != '"'; c = next()) out += c == '\\' ? escaped() : c;
    return out;
  }

  // The C interface writes \", \\ and \u00XX alone.
  char escaped() {
    const char c = next();
    if (c != 'u') return c;
    int code = 0;
    for (int i = 0; i < 4; ++i) {
      const char digit = next();
      code = code * 16 + (std::isdigit(static_cast<unsigned char>(digit)) != 0 ? digit - '0' : (digit | 32) - 'a' + 10);
    }
    return static_cast<char>(code);
  }

  std::string word() {
    std::string out;
    while (peek() != ',' && peek() != '}' && peek() != ']') out += next();
    return out;
  }

  char peek() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (rest_.empty()) fail();
    return rest_.front();
  }
  char next() {
    if (rest_.empty()) fail();
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }
  bool accept(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  [[noreturn]] static void fail() {
    throw Failure(ErrorCode::ep_fail, "fusec: the provider and libfusec-c are of different versions");
  }

  std::string_view rest_;
};

}  // namespace

std::vector<JsonObject> read_json_list(std::string_view text) { return Reader(text).list(); }
std::vector<std::string> read_json_values(std::string_view text) { return Reader(text).values(); }

}  // namespace fusec::ort
