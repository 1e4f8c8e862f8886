// SPDX-License-Identifier: Apache-2.0
// Parses the text form of kernels. It checks names and grammar and accepts untrusted text: sizes and nesting are
// limited. All other rules are left to ir/verify.

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/ops/cast.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

constexpr uint32_t kMaxRegs = 1u << 20;
constexpr int kMaxWidth = 1024;
constexpr int kMaxDepth = 100;  // of nested blocks: hostile text must not exhaust the stack

template <class E>
std::optional<E> find_name(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (text == to_string(static_cast<E>(i))) return static_cast<E>(i);
  }
  return std::nullopt;
}

// The part of a word after "prefix."; nullopt if it does not begin with that.
std::optional<std::string_view> after(std::string_view word, std::string_view prefix) {
  if (word.substr(0, prefix.size()) != prefix || word.size() <= prefix.size() || word[prefix.size()] != '.') {
    return std::nullopt;
  }
  return word.substr(prefix.size() + 1);
}

std::optional<int64_t> decimal(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class KernelParser {
 public:
  explicit KernelParser(std::string_view text) : lexer_(text) {}

  Result<Kernel> parse() {
    FUSEC_TRY(lexer_.expect_word("kernel"));
    FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::global, "the name of the kernel, as @softmax"));
    k_.name = std::move(name.text);
    FUSEC_TRY(params());
    FUSEC_TRY(clauses());
    FUSEC_TRY(resolve_head());
    FUSEC_ASSIGN(k_.body, block());
    if (lexer_.peek().kind != TokenKind::end) return lexer_.expected("the end of the text");
    return std::move(k_);
  }

 private:
  // The shape and strides of a buffer, with the place of their text.
  struct ShapeText {
    BufferId buffer;
    std::size_t at;
    Shape shape, strides;
  };

  // Head of the kernel.

  Status params() {
    FUSEC_TRY(lexer_.expect("("));
    if (lexer_.accept(")")) return {};
    do {
      FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::value, "a parameter, as %x: in f32[n]"));
      FUSEC_TRY(declaration(name, true));
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  // Parses ": in f32[n] strides [2] align 64 layout "pitch 65"" after the name.
  Status declaration(const Token& name, bool parameter) {
    FUSEC_TRY(lexer_.expect(":"));
    Buffer b;
    b.name = name.text;
    const Token word = lexer_.next();
    const auto space = find_name<Space>(word.kind == TokenKind::ident ? word.text : "", 5);
    const bool fits = space && (*space == Space::in || *space == Space::out) == parameter;
    if (!fits) return error(word, parameter ? "expected in or out" : "expected reg, shared or scratch");
    b.space = *space;
    FUSEC_ASSIGN(b.dtype, lexer_.dtype());
    const std::size_t at = lexer_.peek().begin;
    ShapeText shapes{BufferId(), at, {}, {}};
    FUSEC_ASSIGN(shapes.shape, lexer_.shape());
    if (lexer_.accept_word("strides")) {
      FUSEC_ASSIGN(shapes.strides, lexer_.shape());
    }
    if (lexer_.accept_word("align")) {
      FUSEC_ASSIGN(const int64_t bytes, lexer_.integer());
      if (bytes < 1 || bytes > 1 << 20) return lexer_.error("an alignment is 1 ... 2^20 bytes");
      b.alignment = static_cast<int>(bytes);
    }
    if (lexer_.accept_word("layout")) {
      FUSEC_ASSIGN(Token layout, lexer_.expect(TokenKind::string, "the name of a layout, as \"pitch 65\""));
      b.layout = std::move(layout.text);
    }
    if (buffers_.count(b.name)) return error(name, fmt::format("buffer {} is declared twice", b.name));
    const std::string key = b.name;
    shapes.buffer = buffers_[key] = add_buffer(k_, std::move(b));
    if (!parameter) return resolve(shapes);
    shapes_.push_back(std::move(shapes));
    return {};
  }

  Status clauses() {
    bool stated = false;
    while (!lexer_.peek().is("{")) {
      if (lexer_.accept_word("extents")) {
        stated = true;
        FUSEC_TRY(extents());
      } else if (lexer_.accept_word("facts")) {
        FUSEC_TRY(facts());
      } else if (lexer_.accept_word("alias")) {
        FUSEC_TRY(alias());
      } else {
        return lexer_.expected("extents, facts, alias or '{'");
      }
    }
    if (stated) return {};
    std::vector<Shape> shapes;
    for (const ShapeText& s : shapes_) shapes.push_back(s.shape), shapes.push_back(s.strides);
    for (const std::string& name : implied_extents(shapes)) add_extent(name);
    return {};
  }

  void add_extent(const std::string& name) { symbols_.emplace(name, k_.extents.push_back(name)); }

  // Parameters and facts may mention extents that are stated after them.
  Status resolve_head() {
    for (const ShapeText& s : shapes_) FUSEC_TRY(resolve(s));
    for (const auto& [name, factor] : facts_) {
      const auto it = symbols_.find(name.text);
      const auto extent = it == symbols_.end() ? std::nullopt : it->second.extent();
      if (!extent) return error(name, fmt::format("there is no extent {}", name.text));
      k_.divisible[*extent] = factor;
    }
    return {};
  }

  Status resolve(const ShapeText& s) {
    Buffer& b = k_.buffers[s.buffer];
    for (const Dim& d : s.shape) {
      FUSEC_ASSIGN(IndexExpr e, resolve(d, s.at));
      b.shape.push_back(std::move(e));
    }
    for (const Dim& d : s.strides) {
      FUSEC_ASSIGN(IndexExpr e, resolve(d, s.at));
      b.strides.push_back(std::move(e));
    }
    return {};
  }

  // Index expressions.

  std::optional<SymbolId> symbol(const std::string& name) const {
    if (name == systematic_name(kLane)) return kLane;
    if (const auto reg = parse_reg(name)) return *reg;
    const auto it = symbols_.find(name);
    return it == symbols_.end() ? std::nullopt : std::optional(it->second);
  }

  Result<IndexExpr> resolve(const Dim& d, std::size_t at) const {
    std::set<std::string> names;
    d.collect_symbols(names);
    for (const std::string& name : names) {
      if (!symbol(name)) return lexer_.error_at(at, fmt::format("there is no symbol {}", name));
    }
    return index_expr(d, [&](const std::string& name) { return IndexExpr::symbol(*symbol(name)); });
  }

  Result<IndexExpr> expression() {
    const std::size_t at = lexer_.peek().begin;
    FUSEC_ASSIGN(const Dim d, lexer_.expression());
    return resolve(d, at);
  }

  Status extents() {
    FUSEC_TRY(lexer_.expect("("));
    if (lexer_.accept(")")) return {};
    do {
      FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::ident, "the name of an extent"));
      add_extent(name.text);
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  Status facts() {
    FUSEC_TRY(lexer_.expect("("));
    do {
      if (lexer_.accept_word("fits32")) {
        k_.fits32 = true;
        continue;
      }
      FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::ident, "a fact, as n % 4 == 0"));
      FUSEC_ASSIGN(const int64_t factor, modulus());
      for (int i = 0; i < 2; ++i) FUSEC_TRY(lexer_.expect("="));
      FUSEC_ASSIGN(const int64_t rest, lexer_.integer());
      if (rest != 0 || factor < 1) return error(name, "a fact has the form n % 4 == 0");
      facts_.emplace_back(std::move(name), factor);
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  // Parses "% 4". The lexer reads "%4" as a value and a lone "%" as an error.
  Result<int64_t> modulus() {
    const Token token = lexer_.next();
    if (token.begin >= lexer_.source().size() || lexer_.source()[token.begin] != '%')
      return error(token, "expected '%'");
    if (token.kind != TokenKind::value) return lexer_.integer();
    const auto value = decimal(token.text);
    if (!value) return error(token, "expected '%' and an integer");
    return *value;
  }

  Status alias() {
    FUSEC_TRY(lexer_.expect("("));
    FUSEC_ASSIGN(const BufferId in, buffer());
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(const BufferId out, buffer());
    k_.may_alias.emplace_back(in, out);
    return lexer_.expect(")");
  }

  // Pieces of statements.

  Status error(const Token& token, std::string_view message) const { return lexer_.error_at(token.begin, message); }

  Result<BufferId> buffer() {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a buffer"));
    const auto it = buffers_.find(name.text);
    if (it == buffers_.end()) return error(name, fmt::format("there is no buffer {}", name.text));
    return it->second;
  }

  Result<std::vector<IndexExpr>> indices(std::string_view open, std::string_view close) {
    FUSEC_TRY(lexer_.expect(open));
    std::vector<IndexExpr> list;
    if (lexer_.accept(close)) return list;
    do {
      FUSEC_ASSIGN(IndexExpr e, expression());
      list.push_back(std::move(e));
    } while (lexer_.accept(","));
    FUSEC_TRY(lexer_.expect(close));
    return list;
  }

  Result<Guard> guard() {
    if (!lexer_.accept_word("guard")) return Guard();
    return indices("(", ")");
  }

  static std::optional<RegId> parse_reg(const std::string& name) {
    if (name.size() < 2 || name[0] != 'v') return std::nullopt;
    const auto index = decimal(std::string_view(name).substr(1));
    const bool plain = index && *index >= 0 && *index < kMaxRegs && name == reg_name({static_cast<uint32_t>(*index)});
    if (!plain) return std::nullopt;
    return RegId{static_cast<uint32_t>(*index)};
  }
  static std::optional<RegId> parse_reg(const Token& token) {
    return token.kind == TokenKind::ident ? parse_reg(token.text) : std::nullopt;
  }

  bool is_defined(RegId r) const { return r.index < defined_.size() && defined_[r.index]; }

  // "v3: f32.16"
  Result<RegId> definition(const Token& name) {
    const auto reg = parse_reg(name);
    if (!reg) return error(name, "expected a statement or a register, as v0");
    if (is_defined(*reg)) return error(name, fmt::format("{} is defined twice", name.text));
    FUSEC_TRY(lexer_.expect(":"));
    FUSEC_ASSIGN(const Token type, lexer_.expect(TokenKind::ident, "a type, as f32.4"));
    const std::string_view text = type.text;
    const std::size_t dot = std::min(text.find('.'), text.size());
    const auto dtype = parse_dtype(text.substr(0, dot));
    const auto width = dot == text.size() ? std::optional<int64_t>(1) : decimal(text.substr(dot + 1));
    if (!dtype || !width || *width < 1 || *width > kMaxWidth) return error(type, "expected a type, as f32 or f32.4");
    if (k_.regs.size() <= reg->index) k_.regs.resize(reg->index + 1), defined_.resize(reg->index + 1);
    k_.regs[*reg] = {*dtype, static_cast<int>(*width)};
    pending_.push_back(*reg);
    return *reg;
  }

  // A register can be used from the statement after its definition on.
  void define_pending() {
    for (const RegId r : pending_) defined_[r.index] = true;
    pending_.clear();
  }

  Result<RegId> use(const Token& token) const {
    const auto reg = parse_reg(token);
    if (!reg || !is_defined(*reg)) return error(token, fmt::format("{} is not defined", token.text));
    return *reg;
  }

  static Result<Constant> constant(Lexer& lexer, DType implied) {
    Constant c{implied, 0, 0};
    if (const auto dtype = lexer.peek().kind == TokenKind::ident ? parse_dtype(lexer.peek().text) : std::nullopt) {
      c.dtype = *dtype;
      lexer.next();
    }
    char bytes[8] = {};
    FUSEC_TRY(parse_literal(lexer, c.dtype, bytes));
    if (is_float(c.dtype)) {
      c.f = load_double(c.dtype, bytes);
    } else {
      c.i = load_int(c.dtype, bytes);
    }
    return c;
  }

  bool at_constant() const {
    const Token& t = lexer_.peek();
    if (t.kind == TokenKind::number || t.is("-")) return true;
    if (t.kind != TokenKind::ident) return false;
    return t.text == "inf" || t.text == "nan" || t.text == "true" || t.text == "false" || parse_dtype(t.text);
  }

  // The implied dtype of a constant may depend on later operands. `lexer` points at the constant, which is read later.
  struct LateOperand {
    std::optional<RegId> reg;
    Lexer lexer;
  };

  Result<LateOperand> late_operand() {
    LateOperand late{std::nullopt, lexer_};
    if (!at_constant()) {
      FUSEC_ASSIGN(const Token token, lexer_.expect(TokenKind::ident, "a register or a number"));
      FUSEC_ASSIGN(late.reg, use(token));
      return late;
    }
    if (lexer_.peek().kind == TokenKind::ident && parse_dtype(lexer_.peek().text)) lexer_.next();
    lexer_.accept("-");
    const bool may_have_bits = lexer_.next().is_word("nan");
    if (may_have_bits && lexer_.accept("(")) {
      lexer_.next();
      FUSEC_TRY(lexer_.expect(")"));
    }
    return late;
  }

  static Result<Operand> resolve(LateOperand& late, DType implied) {
    if (late.reg) return Operand(*late.reg);
    FUSEC_ASSIGN(Constant c, constant(late.lexer, implied));
    return Operand(c);
  }

  Result<Operand> operand(DType implied) {
    FUSEC_ASSIGN(LateOperand late, late_operand());
    return resolve(late, implied);
  }

  // Parses "block i0 in 256" after the tag.
  Result<LoopHead> loop_head(LoopTag tag) {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a loop variable"));
    FUSEC_TRY(lexer_.expect_word("in"));
    FUSEC_ASSIGN(IndexExpr extent, expression());
    const VarId var = k_.vars.push_back(name.text);
    symbols_.insert_or_assign(name.text, var);
    return LoopHead{tag, var, std::move(extent)};
  }

  std::optional<LoopTag> at_loop() const {
    return lexer_.peek().kind == TokenKind::ident ? find_name<LoopTag>(lexer_.peek().text, 5) : std::nullopt;
  }

  // Statements.

  Result<Block> block() {
    FUSEC_TRY(lexer_.expect("{"));
    FUSEC_ASSIGN(Block body, statements());
    FUSEC_TRY(lexer_.expect("}"));
    return body;
  }

  // Parses statements up to a closing brace or a yield.
  Result<Block> statements() {
    if (++depth_ > kMaxDepth) return lexer_.error("nested too deep");
    Block body;
    while (!lexer_.peek().is("}") && !lexer_.peek().is_word("yield")) {
      FUSEC_ASSIGN(Stmt s, statement());
      body.push_back(std::move(s));
      define_pending();
    }
    --depth_;
    return body;
  }

  Result<Stmt> statement() {
    const std::optional<LoopTag> tag = at_loop();
    FUSEC_ASSIGN(const Token word, lexer_.expect(TokenKind::ident, "a statement or '}'"));
    if (lexer_.peek().is(":")) return assignment(word);
    if (tag) return loop(*tag);
    if (word.text == "alloc") return alloc();
    if (word.text == "store" || word.text == "store.stream") return store(word);
    if (word.text == "prefetch") return prefetch();
    if (word.text == "transpose") return transpose();
    if (word.text == "copy.async") return copy_async();
    if (word.text == "mma") return mma();
    if (word.text == "sync.warp") return Stmt{Sync{SyncScope::warp}};
    if (word.text == "sync.block") return Stmt{Sync{SyncScope::block}};
    return error(word, fmt::format("there is no statement '{}'", word.text));
  }

  Result<Stmt> assignment(const Token& first) {
    std::vector<RegId> dst;
    FUSEC_ASSIGN(const RegId r, definition(first));
    dst.push_back(r);
    while (lexer_.accept(",")) {
      const Token name = lexer_.next();
      FUSEC_ASSIGN(const RegId more, definition(name));
      dst.push_back(more);
    }
    FUSEC_TRY(lexer_.expect("="));
    FUSEC_ASSIGN(const Token word, lexer_.expect(TokenKind::ident, "an operation"));
    if (const auto combiner = after(word.text, "reduce")) return reduce(word, *combiner, std::move(dst));
    if (dst.size() != 1) return error(word, "only a reduce has several results");
    if (const auto combiner = after(word.text, "scan")) return scan(word, *combiner, dst[0]);
    if (word.text == "load") return load(dst[0]);
    if (word.text == "index") {
      FUSEC_ASSIGN(IndexExpr value, expression());
      return Stmt{IndexValue{dst[0], std::move(value)}};
    }
    return let(word, dst[0]);
  }

  Result<Stmt> let(const Token& word, RegId dst) {
    const auto op = find_scalar_op(word.text);
    if (!op) return error(word, fmt::format("there is no op '{}'", word.text));
    std::vector<LateOperand> late;
    Let let{dst, *op, {}};
    do {
      FUSEC_ASSIGN(LateOperand o, late_operand());
      let.args.push_back(o.reg ? Operand(*o.reg) : Operand(Constant()));
      late.push_back(std::move(o));
    } while (lexer_.accept(","));
    if (late.size() != static_cast<std::size_t>(info(*op).arity)) {
      return error(word, fmt::format("{} takes {} operands, not {}", word.text, info(*op).arity, late.size()));
    }
    for (std::size_t i = 0; i < late.size(); ++i) {
      FUSEC_ASSIGN(let.args[i], resolve(late[i], implied_dtype(k_, let, i)));
    }
    return Stmt{std::move(let)};
  }

  Result<Stmt> load(RegId dst) {
    Load s;
    s.dst = dst;
    s.otherwise.dtype = k_.regs[dst].dtype;
    FUSEC_ASSIGN(s.buffer, buffer());
    FUSEC_ASSIGN(s.index, indices("[", "]"));
    if (lexer_.accept_word("clamp")) {
      FUSEC_TRY(lexer_.expect("("));
      do {
        FUSEC_ASSIGN(const int64_t axis, lexer_.integer());
        if (axis < 0 || axis > 31) return lexer_.error("an axis is 0 ... 31");
        s.clamp |= 1u << axis;
      } while (lexer_.accept(","));
      FUSEC_TRY(lexer_.expect(")"));
    }
    FUSEC_ASSIGN(s.guard, guard());
    if (s.guard.empty()) return Stmt{std::move(s)};
    FUSEC_TRY(lexer_.expect_word("else"));
    FUSEC_ASSIGN(s.otherwise, constant(lexer_, k_.regs[dst].dtype));
    return Stmt{std::move(s)};
  }

  Result<Combiner> combiner(const Token& word, std::string_view name) const {
    const auto found = find_name<Combiner>(name, 12);
    if (!found) return error(word, fmt::format("there is no combiner '{}'", name));
    return *found;
  }

  Result<Stmt> reduce(const Token& word, std::string_view name, std::vector<RegId> dst) {
    Reduce s;
    FUSEC_ASSIGN(s.combiner, combiner(word, name));
    s.dst = std::move(dst);
    const std::vector<RegId> results = std::exchange(pending_, {});
    FUSEC_TRY(lexer_.expect_word("tree"));
    FUSEC_TRY(lexer_.expect("("));
    FUSEC_ASSIGN(s.tree.lanes, lexer_.integer());
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.tree.chunk, lexer_.integer());
    FUSEC_TRY(lexer_.expect(")"));
    if (!lexer_.peek().is("{")) {
      do {
        const auto tag = at_loop();
        if (!tag) return lexer_.expected("a loop, as block i0 in 256");
        lexer_.next();
        FUSEC_ASSIGN(LoopHead head, loop_head(*tag));
        s.loops.push_back(std::move(head));
      } while (lexer_.accept(","));
    }
    FUSEC_TRY(lexer_.expect("{"));
    FUSEC_ASSIGN(s.body, statements());
    FUSEC_TRY(lexer_.expect_word("yield"));
    do {
      const std::size_t i = s.yield.size();
      FUSEC_ASSIGN(Operand o, operand(i < s.dst.size() ? k_.regs[s.dst[i]].dtype : DType::f32));
      s.yield.push_back(std::move(o));
    } while (lexer_.accept(","));
    FUSEC_ASSIGN(s.guard, guard());
    FUSEC_TRY(lexer_.expect("}"));
    pending_ = results;
    return Stmt{std::move(s)};
  }

  Result<Stmt> scan(const Token& word, std::string_view name, RegId dst) {
    Scan s;
    s.dst = dst;
    FUSEC_ASSIGN(s.combiner, combiner(word, name));
    const std::vector<RegId> results = std::exchange(pending_, {});
    s.exclusive = lexer_.accept_word("exclusive");
    s.reverse = lexer_.accept_word("reverse");
    const auto tag = at_loop();
    if (!tag) return lexer_.expected("a loop, as seq i0 in n");
    lexer_.next();
    FUSEC_ASSIGN(s.loop, loop_head(*tag));
    FUSEC_TRY(lexer_.expect("{"));
    FUSEC_ASSIGN(s.body, statements());
    FUSEC_TRY(lexer_.expect_word("yield"));
    FUSEC_ASSIGN(s.yield, operand(k_.regs[dst].dtype));
    FUSEC_TRY(lexer_.expect("}"));
    FUSEC_TRY(lexer_.expect_word("then"));
    pending_ = results;
    define_pending();
    FUSEC_ASSIGN(s.then, block());
    return Stmt{std::move(s)};
  }

  Result<Stmt> loop(LoopTag tag) {
    Loop s;
    FUSEC_ASSIGN(s.head, loop_head(tag));
    if (lexer_.accept_word("boundary")) {
      const Token word = lexer_.next();
      const auto boundary = find_name<PhaseBoundary>(word.text, 3);
      if (!boundary) return error(word, "expected launches, last_block or coop");
      s.boundary = *boundary;
    }
    FUSEC_ASSIGN(s.body, block());
    return Stmt{std::move(s)};
  }

  Result<Stmt> alloc() {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a buffer"));
    FUSEC_TRY(declaration(name, false));
    return Stmt{Alloc{buffers_[name.text]}};
  }

  Result<Stmt> store(const Token& word) {
    Store s;
    s.hint = word.text == "store" ? StoreHint::none : StoreHint::stream;
    FUSEC_ASSIGN(s.buffer, buffer());
    FUSEC_ASSIGN(s.index, indices("[", "]"));
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.value, operand(k_.buffers[s.buffer].dtype));
    FUSEC_ASSIGN(s.guard, guard());
    return Stmt{std::move(s)};
  }

  Result<Stmt> prefetch() {
    Prefetch s;
    FUSEC_ASSIGN(s.buffer, buffer());
    FUSEC_ASSIGN(s.index, indices("[", "]"));
    return Stmt{std::move(s)};
  }

  Result<Stmt> transpose() {
    TransposeTile s;
    FUSEC_ASSIGN(s.dst, buffer());
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.src, buffer());
    return Stmt{s};
  }

  Result<Stmt> copy_async() {
    CopyAsync s;
    FUSEC_ASSIGN(s.dst, buffer());
    FUSEC_ASSIGN(s.dst_index, indices("[", "]"));
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.src, buffer());
    FUSEC_ASSIGN(s.src_index, indices("[", "]"));
    FUSEC_TRY(lexer_.expect_word("box"));
    FUSEC_ASSIGN(s.extents, indices("[", "]"));
    return Stmt{std::move(s)};
  }

  Result<Stmt> mma() {
    Mma s;
    FUSEC_ASSIGN(s.acc, buffer());
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.a, buffer());
    FUSEC_ASSIGN(s.a_index, indices("[", "]"));
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(s.b, buffer());
    FUSEC_ASSIGN(s.b_index, indices("[", "]"));
    return Stmt{std::move(s)};
  }

  Lexer lexer_;
  Kernel k_;
  std::map<std::string, SymbolId> symbols_;  // extents and loop variables by name
  std::vector<ShapeText> shapes_;            // of the parameters
  std::vector<std::pair<Token, int64_t>> facts_;
  std::map<std::string, BufferId> buffers_;
  std::vector<bool> defined_;
  std::vector<RegId> pending_;  // defined by the statement being read
  int depth_ = 0;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text) {
  return guarded([&] { return KernelParser(text).parse(); }, {.overflow = StatusCode::invalid_model});
}

}  // namespace fusec::ir
