// SPDX-License-Identifier: Apache-2.0
// Parses the definitions, gradients and formulas of the op tables into trees, once per process, and evaluates them.
// Emitters expand definitions and formulas from these trees; a syntax error in a table is a failed FUSEC_CHECK.

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string>

#include "ir/ops/op.h"
#include "ir/ops/reference.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace {

// formula: (name '=' sum ';')* sum; sum: product (('+'|'-') product)*; product: factor (('*'|'/') factor)*; factor:
// number, name, name '(' sums ')', '(' sum ')'.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  DefNode parse() {
    DefNode node = sum();
    FUSEC_CHECK(peek() == '\0') << where();
    return node;
  }

  Formula parse_steps() {
    Formula steps;
    for (;;) {
      const std::size_t begin = at_;
      peek();
      const std::string_view step = take_word();
      const bool is_named = !step.empty() && take('=');
      if (!is_named) at_ = begin;
      steps.push_back(sum());
      if (!is_named) break;
      FUSEC_CHECK(take(';')) << where();
      steps_[step] = {static_cast<int>(steps.size()) - 1, steps.back().is_bits};
    }
    FUSEC_CHECK(peek() == '\0') << where();
    return steps;
  }

 private:
  struct Step {
    int number = 0;
    bool is_bits = false;
  };

  std::string where() const { return "in '" + std::string(text_) + "' at " + std::to_string(at_); }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  static DefNode call(ScalarOp op, std::vector<DefNode> args) {
    DefNode node;
    node.kind = DefNode::Kind::op;
    node.op = op;
    const bool takes_bits = std::any_of(args.begin(), args.end(), [](const DefNode& arg) { return arg.is_bits; });
    for (DefNode& arg : args) arg.is_bits |= takes_bits && arg.kind == DefNode::Kind::number;
    node.is_bits = op == ScalarOp::to_bits || (takes_bits && info(op).typing <= Typing::int_);
    node.args = std::move(args);
    return node;
  }

  DefNode sum() {
    DefNode left = product();
    while (peek() == '+' || peek() == '-') {
      const ScalarOp op = take('+') ? ScalarOp::add : (take('-'), ScalarOp::sub);
      DefNode right = product();
      left = call(op, {std::move(left), std::move(right)});
    }
    return left;
  }

  DefNode product() {
    DefNode left = factor();
    while (peek() == '*' || peek() == '/') {
      const ScalarOp op = take('*') ? ScalarOp::mul : (take('/'), ScalarOp::div);
      DefNode right = factor();
      left = call(op, {std::move(left), std::move(right)});
    }
    return left;
  }

  DefNode factor() {
    if (take('(')) {
      DefNode node = sum();
      FUSEC_CHECK(take(')')) << where();
      return node;
    }
    const char c = peek();
    return (c >= '0' && c <= '9') || c == '-' ? number() : name();
  }

  // Decimal, or hexadecimal with 0x.
  DefNode number() {
    DefNode node;
    const bool minus = take('-');
    const bool is_hex = text_.substr(at_).starts_with("0x");
    const char* const begin = text_.data() + at_ + (is_hex ? 2 : 0);
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), node.number,
                                              is_hex ? std::chars_format::hex : std::chars_format::general);
    FUSEC_CHECK(error == std::errc()) << where();
    at_ = static_cast<std::size_t>(end - text_.data());
    if (minus) node.number = -node.number;
    return node;
  }

  std::string_view take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  DefNode name() {
    const std::string_view word = take_word();
    if (peek() != '(') return leaf(word);
    const std::optional<ScalarOp> op = find_scalar_op(word);
    FUSEC_CHECK(op.has_value()) << "unknown op '" << word << "' " << where();
    std::vector<DefNode> args;
    while (take('(') || take(',')) args.push_back(sum());
    FUSEC_CHECK(take(')')) << where();
    FUSEC_CHECK(static_cast<int>(args.size()) == info(*op).arity) << "operands of '" << word << "' " << where();
    return call(*op, std::move(args));
  }

  DefNode leaf(std::string_view word) {
    DefNode node;
    if (const auto step = steps_.find(word); step != steps_.end()) {
      node.kind = DefNode::Kind::step;
      node.operand = step->second.number;
      node.is_bits = step->second.is_bits;
      return node;
    }
    if (word == "infinity" || word == "nan") {
      node.number = word == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
      return node;
    }
    if (word == "y" || word == "dy") {
      node.kind = word == "y" ? DefNode::Kind::y : DefNode::Kind::dy;
      return node;
    }
    FUSEC_CHECK(word == "a" || word == "b" || word == "c") << "unknown operand '" << word << "' " << where();
    node.kind = DefNode::Kind::operand;
    node.operand = word[0] - 'a';
    return node;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::map<std::string_view, Step> steps_;  // the last of each name
};

std::vector<std::optional<DefNode>> parse_gradients(std::string_view text) {
  std::vector<std::optional<DefNode>> out;
  if (text.empty()) return out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const bool blank = item.find_first_not_of(' ') == std::string_view::npos;
    out.push_back(blank ? std::nullopt : std::optional(parse_definition(item)));
    begin = end + 1;
  }
  return out;
}

}  // namespace

DefNode parse_definition(std::string_view text) { return Parser(text).parse(); }

const DefNode& definition(ScalarOp op) {
  static const std::vector<DefNode> trees = [] {
    std::vector<DefNode> all;
    for (const ScalarOpInfo& row : all_scalar_ops()) {
      all.push_back(row.is_definition ? parse_definition(row.definition) : DefNode());
    }
    return all;
  }();
  FUSEC_CHECK(info(op).is_definition) << info(op).name << " is a primitive";
  return trees[static_cast<std::size_t>(op)];
}

Formula parse_formula(std::string_view text) { return Parser(text).parse_steps(); }

const Formula* gpu_formula(ScalarOp op, DType type) {
  static const std::map<std::pair<ScalarOp, DType>, Formula> all = {
#define GPU_FORMULA(name, dtype, steps) {{ScalarOp::name, DType::dtype}, parse_formula(steps)},
#include "ir/ops/gpu_formulas.def"
#define GPU_FORMULA(name, dtype, steps) {{ScalarOp::name, DType::dtype}, parse_formula(steps)},
#include "ir/ops/gpu_formulas_f64.def"
  };
  const auto found = all.find({op, type == DType::bf16 ? DType::f16 : type});
  return found == all.end() ? nullptr : &found->second;
}

const std::vector<std::optional<DefNode>>& gradients(ScalarOp op) {
  static const std::vector<std::vector<std::optional<DefNode>>> trees = [] {
    std::vector<std::vector<std::optional<DefNode>>> all;
    for (const ScalarOpInfo& row : all_scalar_ops()) all.push_back(parse_gradients(row.gradient));
    return all;
  }();
  return trees[static_cast<std::size_t>(op)];
}

double eval_definition(const DefNode& node, const DefInputs& in) {
  switch (node.kind) {
    case DefNode::Kind::operand:
      return in.operands[node.operand];
    case DefNode::Kind::number:
      return node.number;
    case DefNode::Kind::y:
      return in.y;
    case DefNode::Kind::dy:
      return in.dy;
    case DefNode::Kind::op:
    case DefNode::Kind::step:
      break;
  }
  FUSEC_CHECK(node.kind == DefNode::Kind::op) << "a step of a formula in a definition";
  double args[3] = {0, 0, 0};
  for (std::size_t i = 0; i < node.args.size(); ++i) args[i] = eval_definition(node.args[i], in);
  return eval_scalar(node.op, args[0], args[1], args[2]);
}

}  // namespace fusec::ir
