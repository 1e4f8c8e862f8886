// SPDX-License-Identifier: Apache-2.0
// Parses the definition and gradient expressions of the op table into trees, once per process, and evaluates them.
// Emitters expand definitions from these trees; a syntax error in the table is a failed FUSEC_CHECK.

#include <charconv>
#include <string>

#include "ir/ops/op.h"
#include "ir/ops/reference.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace {

// sum: product (('+'|'-') product)*; product: factor (('*'|'/') factor)*; factor: number, name, name '(' sums ')', '('
// sum ')'.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  DefNode parse() {
    DefNode node = sum();
    FUSEC_CHECK(peek() == '\0') << where();
    return node;
  }

 private:
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

  DefNode number() {
    DefNode node;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), node.number);
    FUSEC_CHECK(error == std::errc()) << where();
    at_ = static_cast<std::size_t>(end - text_.data());
    return node;
  }

  DefNode name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
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
      break;
  }
  double args[3] = {0, 0, 0};
  for (std::size_t i = 0; i < node.args.size(); ++i) args[i] = eval_definition(node.args[i], in);
  return eval_scalar(node.op, args[0], args[1], args[2]);
}

}  // namespace fusec::ir
