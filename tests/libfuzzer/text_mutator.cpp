// SPDX-License-Identifier: Apache-2.0
#include "tests/libfuzzer/text_mutator.h"

#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/libfuzzer/fail.h"

namespace fusec::libfuzzer {
namespace {

constexpr const char* kWords[] = {"0",
                                  "1",
                                  "-1",
                                  "2",
                                  "7",
                                  "65",
                                  "4096",
                                  "2147483648",
                                  "4611686018427387904",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "99999999999999999999",
                                  "nan",
                                  "-inf",
                                  "1e999",
                                  "N",
                                  "f32",
                                  "bf16",
                                  "i64",
                                  "bool",
                                  "f32.4",
                                  "%x",
                                  "floordiv",
                                  "mod",
                                  "min",
                                  "max",
                                  "lane"};

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '%'; }

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (is_letter(text[at]) && end < text.size() && is_letter(text[end])) ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

void change(std::vector<std::string>& parts, bool are_words, std::minstd_rand& random) {
  if (parts.empty()) return;
  const std::size_t i = random() % parts.size(), j = random() % parts.size();
  switch (random() % 5) {
    case 0:
      return std::swap(parts[i], parts[j]);
    case 1:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    case 2:
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(i), std::string(parts[j]));
      return;
    default:
      parts[i] = are_words && random() % 2 == 0 ? kWords[random() % std::size(kWords)] : std::string(parts[j]);
  }
}

}  // namespace

size_t mutate_text(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 8 == 0 || size == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::minstd_rand random(seed / 8);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool are_words = random() % 4 != 0;
  std::vector<std::string> parts = are_words ? split_words(text) : split_lines(text);
  for (std::size_t n = 1 + random() % 3; n > 0; --n) change(parts, are_words, random);
  std::string out;
  for (const std::string& part : parts) out += part;
  if (out.empty() || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}

}  // namespace fusec::libfuzzer
