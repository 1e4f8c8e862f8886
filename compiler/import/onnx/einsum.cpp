// SPDX-License-Identifier: Apache-2.0
// Parses Einsum equations in the import stage, checks them against the ranks of the operands, and expands ellipses to
// one label per axis.

#include "compiler/import/onnx/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/import/onnx/error.h"
#include "ir/support/characters.h"

namespace fusec::importer {

namespace {

constexpr int kEllipsis = 256;

// Parses a term; an ellipsis becomes one label kEllipsis.
Labels parse_term(std::string_view term) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (ir::is_letter(term[i])) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "...") {
      if (std::count(labels.begin(), labels.end(), kEllipsis) > 0)
        fail_invalid(fmt::format("equation: the term '{}' has two ellipses", short_name(term)));
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      fail_invalid(fmt::format("equation: the term '{}' has, at {}, neither a letter nor '...'", short_name(term), i));
    }
  }
  return labels;
}

// Replaces kEllipsis by `count` labels.
Labels expand(const Labels& labels, int64_t count) {
  Labels out;
  for (int label : labels) {
    if (label != kEllipsis) out.push_back(label);
    for (int64_t i = count; label == kEllipsis && i-- > 0;) out.push_back(kEllipsis + static_cast<int>(i));
  }
  return out;
}

Labels parse_operand(std::string_view term, int64_t rank) {
  Labels labels = parse_term(term);
  bool open = std::count(labels.begin(), labels.end(), kEllipsis) > 0;
  int64_t named = static_cast<int64_t>(labels.size()) - (open ? 1 : 0);
  if (open ? named > rank : named != rank)
    fail_invalid(
        fmt::format("equation: the term '{}' names {} axes of an operand that has {}", short_name(term), named, rank));
  return expand(labels, rank - named);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> terms;
  for (std::size_t comma; (comma = text.find(',')) != std::string_view::npos; text.remove_prefix(comma + 1))
    terms.push_back(text.substr(0, comma));
  terms.push_back(text);
  return terms;
}

std::map<int, int> count_labels(const std::vector<Labels>& operands) {
  std::map<int, int> counts;
  for (const Labels& labels : operands)
    for (int label : labels) ++counts[label];
  return counts;
}

// The result of an equation without '->': the ellipsis, then the letters that occur once, in the order of their codes.
Labels implicit_result(const std::map<int, int>& counts, int64_t ellipsis) {
  Labels labels = expand({kEllipsis}, ellipsis);
  for (auto [label, count] : counts) {
    if (label < kEllipsis && count == 1) labels.push_back(label);
  }
  return labels;
}

Labels explicit_result(std::string_view term, const std::map<int, int>& counts, int64_t ellipsis) {
  Labels parsed = parse_term(term), labels = expand(parsed, ellipsis);
  if (ellipsis > 0 && std::count(parsed.begin(), parsed.end(), kEllipsis) == 0)
    fail_invalid("equation: the operands have axes under '...', the result has no '...'");
  for (int label : labels) {
    if (!counts.contains(label))
      fail_invalid(fmt::format("equation: {} of the result is in no operand", label_name(label)));
    if (std::count(labels.begin(), labels.end(), label) > 1)
      fail_invalid(fmt::format("equation: {} is twice in the result", label_name(label)));
  }
  return labels;
}

}  // namespace

std::string label_name(int label) {
  return label < kEllipsis ? fmt::format("label '{}'", static_cast<char>(label)) : "an axis of '...'";
}

Equation parse_equation(const std::string& text, const std::vector<int64_t>& ranks) {
  std::string compact = text;
  std::erase(compact, ' ');
  std::size_t arrow = compact.find("->");
  std::vector<std::string_view> terms = split(std::string_view(compact).substr(0, arrow));
  if (terms.size() != ranks.size())
    fail_invalid(fmt::format("equation: {} terms for {} operands", terms.size(), ranks.size()));
  Equation equation;
  for (std::size_t i = 0; i < terms.size(); ++i) equation.operands.push_back(parse_operand(terms[i], ranks[i]));
  std::map<int, int> counts = count_labels(equation.operands);
  auto letters = std::distance(counts.begin(), counts.lower_bound(kEllipsis));
  int64_t ellipsis = static_cast<int64_t>(counts.size()) - letters;
  bool is_explicit = arrow != std::string::npos;
  equation.result = is_explicit ? explicit_result(std::string_view(compact).substr(arrow + 2), counts, ellipsis)
                                : implicit_result(counts, ellipsis);
  return equation;
}

}  // namespace fusec::importer
