// SPDX-License-Identifier: Apache-2.0
// Parses the text form of graphs. It accepts untrusted text: sizes are limited, every type is checked against
// infer_type, and errors carry line and column.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "ir/ops/random.h"
#include "ir/support/check.h"
#include "ir/text/graph_text.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr int64_t kMaxRandomElements = int64_t{1} << 28;  // 1 GiB of f32

std::optional<Op> find_op(std::string_view name) {
  if (const auto op = find_scalar_op(name)) return Op(*op);
  if (const auto op = find_tensor_op(name)) return Op(*op);
  return std::nullopt;
}

class GraphParser {
 public:
  GraphParser(std::string_view text, const ConstantTable& constants) : lexer_(text), constants_(constants) {}

  Result<Graph> parse() {
    FUSEC_TRY(lexer_.expect_word("graph"));
    FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::global, "the name of the graph, as @main"));
    graph_.name = std::move(name.text);
    FUSEC_TRY(parse_inputs());
    FUSEC_ASSIGN(graph_.limits, parse_limits(lexer_));
    FUSEC_TRY(lexer_.expect("{"));
    while (lexer_.peek().kind == TokenKind::value) FUSEC_TRY(parse_node());
    FUSEC_TRY(parse_return());
    FUSEC_TRY(lexer_.expect("}"));
    if (lexer_.peek().kind != TokenKind::end) return lexer_.expected("the end of the text");
    return std::move(graph_);
  }

 private:
  // %0 and %"0" are different values.
  using Name = std::pair<bool, std::string>;
  static Name parse_name(const Token& token) {
    const bool numbered = !token.quoted && token.text[0] >= '0' && token.text[0] <= '9';
    return {numbered, token.text};
  }

  Status define(const Token& token, ValueId value) {
    if (names_.emplace(parse_name(token), value).second) return {};
    return lexer_.error_at(token.begin, fmt::format("{} is defined twice", spelled(token)));
  }

  std::string spelled(const Token& token) const {
    return std::string(lexer_.source().substr(token.begin, token.end - token.begin));
  }

  Result<ValueId> use() {
    FUSEC_ASSIGN(const Token token, lexer_.expect(TokenKind::value, "a value, as %0"));
    const auto it = names_.find(parse_name(token));
    if (it == names_.end()) return lexer_.error_at(token.begin, fmt::format("{} is not defined", spelled(token)));
    return it->second;
  }

  Status parse_inputs() {
    FUSEC_TRY(lexer_.expect("("));
    if (lexer_.accept(")")) return {};
    do {
      FUSEC_ASSIGN(Token token, lexer_.expect(TokenKind::value, "an input, as %x: f32[N]"));
      FUSEC_TRY(lexer_.expect(":"));
      FUSEC_ASSIGN(Type type, lexer_.type());
      if (parse_name(token).first) return lexer_.error_at(token.begin, "a number as the name of an input needs quotes");
      FUSEC_TRY(define(token, add_input(graph_, token.text, std::move(type))));
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  Status parse_node() {
    const Token name = lexer_.next();
    FUSEC_TRY(lexer_.expect("="));
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const Token word, lexer_.expect(TokenKind::ident, "the name of an op"));
    const std::optional<Op> op = find_op(word.text);
    if (!op) return lexer_.error_at(begin, fmt::format("there is no op '{}'", word.text));
    const bool constant = *op == Op(TensorOp::constant);
    FUSEC_ASSIGN(const ValueId value, constant ? parse_constant() : parse_operation(*op, begin));
    FUSEC_ASSIGN(graph_.nodes[graph_.values[value].producer].origin, parse_origin());
    return define(name, value);
  }

  Result<std::string> parse_origin() {
    auto origin = unescaped(lexer_.trailing_comment());
    if (origin.ok()) return origin;
    return std::string(lexer_.trailing_comment());
  }

  Result<ValueId> parse_operation(Op op, std::size_t begin) {
    std::vector<ValueId> operands;
    std::vector<Type> types;
    if (lexer_.peek().kind == TokenKind::value) {
      do {
        FUSEC_ASSIGN(const ValueId operand, use());
        operands.push_back(operand);
        types.push_back(graph_.type(operand));
      } while (lexer_.accept(","));
    }
    FUSEC_ASSIGN(Attrs attrs, parse_attrs(lexer_, op));
    auto inferred = infer_type(op, types, attrs);
    if (!inferred.ok()) return lexer_.error_at(begin, inferred.status());
    FUSEC_TRY(lexer_.expect(":"));
    const std::size_t type_begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const Type type, lexer_.type());
    if (type != *inferred) {
      return lexer_.error_at(type_begin,
                             fmt::format("{} gives {} here, not {}", op.name(), to_string(*inferred), to_string(type)));
    }
    return add_node(graph_, op, std::move(operands), std::move(attrs));
  }

  Result<ValueId> parse_constant() {
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const Type type, lexer_.type());
    std::vector<int64_t> shape;
    for (const Dim& d : type.shape) shape.push_back(d.is_const() ? d.value() : -1);
    const int64_t count = element_count(shape);
    if (count < 0) return lexer_.error_at(begin, fmt::format("a constant cannot be {}", to_string(type)));
    if (lexer_.peek().kind == TokenKind::hash) return parse_named(type.dtype, std::move(shape), count);
    FUSEC_TRY(lexer_.expect("{"));
    FUSEC_ASSIGN(Tensor data, lexer_.accept_word("random") ? parse_random(type.dtype, std::move(shape), count)
                                                           : parse_elements(type.dtype, std::move(shape), count));
    FUSEC_TRY(lexer_.expect("}"));
    return add_constant(graph_, std::move(data));
  }

  // -1 for a negative extent, or for more elements than a text may declare.
  static int64_t element_count(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) {
      if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > kMaxElements) return -1;
    }
    return count;
  }

  Result<Tensor> parse_random(DType dtype, std::vector<int64_t> shape, int64_t count) {
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const int64_t seed, lexer_.integer());
    if (count > kMaxRandomElements) return lexer_.error_at(begin, "too many random elements");
    auto data = random_tensor(dtype, std::move(shape), static_cast<uint64_t>(seed));
    if (!data.ok()) return lexer_.error_at(begin, data.status());
    return data;
  }

  // Counts the elements before allocating memory for the shape that the text declares.
  Result<Tensor> parse_elements(DType dtype, std::vector<int64_t> shape, int64_t count) {
    std::vector<char> bytes;
    while (!lexer_.peek().is("}")) {
      char element[8] = {};
      FUSEC_TRY(parse_literal(lexer_, dtype, element));
      bytes.insert(bytes.end(), element, element + size_of(dtype));
      if (!lexer_.accept(",")) break;
    }
    const auto given = static_cast<int64_t>(bytes.size() / size_of(dtype));
    if (given != count)
      return lexer_.error(fmt::format("the shape takes {} elements, the braces hold {}", count, given));
    auto data = Tensor::make(dtype, std::move(shape));
    if (!data.ok()) return lexer_.error_at(lexer_.peek().begin, data.status());
    std::copy(bytes.begin(), bytes.end(), data->as<char>());
    return data;
  }

  Result<ValueId> parse_named(DType dtype, std::vector<int64_t> shape, int64_t count) {
    const Token token = lexer_.next();
    uint64_t hash = 0;
    const char* last = token.text.data() + token.text.size();
    const auto [end, fault] = std::from_chars(token.text.data(), last, hash, 16);
    if (end != last || fault != std::errc())
      return lexer_.error_at(token.begin, "a hash is up to 16 hexadecimal digits");
    const auto it = constants_.find(hash);
    if (it == constants_.end()) return lexer_.error_at(token.begin, "the bytes of this constant are not at hand");
    const auto owner = std::make_shared<Tensor>(it->second);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    if (!owner->is_contiguous() || bytes != owner->bytes()) {
      return lexer_.error_at(token.begin, fmt::format("this constant has {} bytes, not {}", owner->bytes(), bytes));
    }
    return add_constant(graph_, Tensor::share(dtype, std::move(shape), owner->data(), owner));
  }

  Status parse_return() {
    FUSEC_TRY(lexer_.expect_word("return"));
    if (lexer_.peek().is("}")) return {};
    do {
      FUSEC_ASSIGN(const ValueId value, use());
      FUSEC_TRY(lexer_.expect_word("as"));
      FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::string, "the name of the output, as \"y\""));
      const auto& names = graph_.output_names;
      if (std::find(names.begin(), names.end(), name.text) != names.end()) {
        return lexer_.error_at(name.begin, "two outputs have this name");
      }
      add_output(graph_, value, std::move(name.text));
    } while (lexer_.accept(","));
    return {};
  }

  Lexer lexer_;
  const ConstantTable& constants_;
  Graph graph_;
  std::map<Name, ValueId> names_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const ConstantTable& constants) {
  return guarded([&] { return GraphParser(text, constants).parse(); }, {.overflow = StatusCode::invalid_model});
}

}  // namespace fusec::ir
