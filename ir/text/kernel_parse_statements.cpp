// SPDX-License-Identifier: Apache-2.0
// Parses the statements of a kernel's text, with their registers and operands. Nesting is limited, because the text is
// not trusted; all rules but names and grammar are left to ir/verify.

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "ir/ops/cast.h"
#include "ir/text/kernel_parser.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

constexpr uint32_t kMaxRegs = 1u << 20;
constexpr int kMaxWidth = 1024;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxClusterBlocks = 8;
constexpr int kMaxDepth = 100;  // of nested blocks: hostile text must not exhaust the stack

// The part of a word after "prefix."; nullopt if it does not begin with that.
std::optional<std::string_view> after(std::string_view word, std::string_view prefix) {
  if (word.substr(0, prefix.size()) != prefix || word.size() <= prefix.size() || word[prefix.size()] != '.') {
    return std::nullopt;
  }
  return word.substr(prefix.size() + 1);
}

}  // namespace

std::optional<RegId> KernelParser::parse_reg(const std::string& name) {
  if (name.size() < 2 || name[0] != 'v') return std::nullopt;
  const auto index = decimal(std::string_view(name).substr(1));
  const bool plain = index && *index >= 0 && *index < kMaxRegs && name == reg_name({static_cast<uint32_t>(*index)});
  if (!plain) return std::nullopt;
  return RegId{static_cast<uint32_t>(*index)};
}

std::optional<RegId> KernelParser::parse_reg(const Token& token) {
  return token.kind == TokenKind::ident ? parse_reg(token.text) : std::nullopt;
}

Result<RegId> KernelParser::definition(const Token& name) {
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

void KernelParser::define_pending() {
  for (const RegId r : pending_) defined_[r.index] = true;
  pending_.clear();
}

Result<RegId> KernelParser::use(const Token& token) const {
  const auto reg = parse_reg(token);
  if (!reg || !is_defined(*reg)) return error(token, fmt::format("{} is not defined", token.text));
  return *reg;
}

Result<Constant> KernelParser::constant(Lexer& lexer, DType implied) {
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

bool KernelParser::at_constant() const {
  const Token& t = lexer_.peek();
  if (t.kind == TokenKind::number || t.is("-")) return true;
  if (t.kind != TokenKind::ident) return false;
  return t.text == "inf" || t.text == "nan" || t.text == "true" || t.text == "false" || parse_dtype(t.text);
}

Result<KernelParser::LateOperand> KernelParser::late_operand() {
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

Result<Operand> KernelParser::resolve(LateOperand& late, DType implied) {
  if (late.reg) return Operand(*late.reg);
  FUSEC_ASSIGN(Constant c, constant(late.lexer, implied));
  return Operand(c);
}

Result<Operand> KernelParser::operand(DType implied) {
  FUSEC_ASSIGN(LateOperand late, late_operand());
  return resolve(late, implied);
}

Result<LoopHead> KernelParser::loop_head(LoopTag tag) {
  FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a loop variable"));
  FUSEC_TRY(lexer_.expect_word("in"));
  FUSEC_ASSIGN(IndexExpr extent, expression());
  const VarId var = k_.vars.push_back(name.text);
  symbols_.insert_or_assign(name.text, var);
  return LoopHead{tag, var, std::move(extent)};
}

std::optional<LoopTag> KernelParser::at_loop() const {
  return lexer_.peek().kind == TokenKind::ident ? find_name<LoopTag>(lexer_.peek().text, 5) : std::nullopt;
}

Result<Block> KernelParser::block() {
  FUSEC_TRY(lexer_.expect("{"));
  FUSEC_ASSIGN(Block body, statements());
  FUSEC_TRY(lexer_.expect("}"));
  return body;
}

Result<Block> KernelParser::statements() {
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

Result<Stmt> KernelParser::statement() {
  const std::optional<LoopTag> tag = at_loop();
  FUSEC_ASSIGN(const Token word, lexer_.expect(TokenKind::ident, "a statement or '}'"));
  if (lexer_.peek().is(":")) return assignment(word);
  if (tag) return loop(*tag);
  if (word.text == "alloc") return alloc();
  if (word.text == "store" || word.text == "store.stream") return store(word);
  if (word.text == "prefetch") return prefetch();
  if (word.text == "transpose") return transpose();
  if (word.text == "tile_product") return tile_product();
  if (word.text == "copy.async") return copy_async();
  if (word.text == "if") return condition();
  if (word.text == "choose") return choice();
  if (word.text == "sync.warp") return sync(SyncScope::warp);
  if (word.text == "sync.block") return sync(SyncScope::block);
  if (word.text == "sync.copies") return sync(SyncScope::copies);
  if (word.text == "sync.cluster") return sync(SyncScope::cluster);
  if (word.text == "sync.arrive") return sync(SyncScope::arrive);
  if (word.text == "sync.wait") return sync(SyncScope::wait);
  return error(word, fmt::format("there is no statement '{}'", word.text));
}

Result<Stmt> KernelParser::assignment(const Token& first) {
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
  if (const auto kind = after(word.text, "shuffle")) return shuffle(word, *kind, dst[0]);
  if (word.text == "ballot") return ballot(dst[0]);
  if (word.text == "mma") return mma(dst[0]);
  if (word.text == "load") return load(dst[0]);
  if (word.text == "index") {
    FUSEC_ASSIGN(IndexExpr value, expression());
    return Stmt{IndexValue{dst[0], std::move(value)}};
  }
  return let(word, dst[0]);
}

Result<Stmt> KernelParser::let(const Token& word, RegId dst) {
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

Result<Stmt> KernelParser::load(RegId dst) {
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

Result<Combiner> KernelParser::combiner(const Token& word, std::string_view name) const {
  const auto found = find_name<Combiner>(name, 12);
  if (!found) return error(word, fmt::format("there is no combiner '{}'", name));
  return *found;
}

Result<Stmt> KernelParser::reduce(const Token& word, std::string_view name, std::vector<RegId> dst) {
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

Result<Stmt> KernelParser::scan(const Token& word, std::string_view name, RegId dst) {
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

Result<Stmt> KernelParser::loop(LoopTag tag) {
  Loop s;
  FUSEC_ASSIGN(s.head, loop_head(tag));
  if (lexer_.accept_word("threads")) {
    FUSEC_TRY(threads(s));
  }
  if (lexer_.accept_word("tasks")) {
    FUSEC_TRY(lexer_.expect("("));
    TaskOrder order;
    FUSEC_ASSIGN(order.counters, buffer());
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(order.ahead, lexer_.integer());
    FUSEC_TRY(lexer_.expect(")"));
    s.tasks = order;
  }
  if (lexer_.accept_word("boundary")) {
    const Token word = lexer_.next();
    const auto boundary = find_name<PhaseBoundary>(word.text, 3);
    if (!boundary) return error(word, "expected launches, last_block or coop");
    s.boundary = *boundary;
  }
  FUSEC_ASSIGN(s.body, block());
  return Stmt{std::move(s)};
}

Status KernelParser::threads(Loop& s) {
  const auto count = [&]() -> Result<int64_t> {
    FUSEC_TRY(lexer_.expect("("));
    FUSEC_ASSIGN(const int64_t value, lexer_.integer());
    FUSEC_TRY(lexer_.expect(")"));
    return value;
  };
  FUSEC_ASSIGN(const int64_t threads, count());
  int64_t blocks = 1;
  if (lexer_.accept_word("cluster")) {
    FUSEC_ASSIGN(blocks, count());
  }
  if (blocks < 1 || blocks > kMaxClusterBlocks)
    return lexer_.error(fmt::format("a cluster has 1 ... {} blocks", kMaxClusterBlocks));
  if (threads < 1 || threads > blocks * kMaxThreads)
    return lexer_.error(fmt::format("a block has 1 ... {} threads", kMaxThreads));
  s.threads = static_cast<int>(threads);
  s.cluster = static_cast<int>(blocks);
  return {};
}

Result<Stmt> KernelParser::alloc() {
  FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a buffer"));
  FUSEC_TRY(declaration(name, false));
  return Stmt{Alloc{buffers_[name.text]}};
}

Result<Stmt> KernelParser::store(const Token& word) {
  Store s;
  s.hint = word.text == "store" ? StoreHint::none : StoreHint::stream;
  FUSEC_ASSIGN(s.buffer, buffer());
  FUSEC_ASSIGN(s.index, indices("[", "]"));
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.value, operand(k_.buffers[s.buffer].dtype));
  FUSEC_ASSIGN(s.guard, guard());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::prefetch() {
  Prefetch s;
  FUSEC_ASSIGN(s.buffer, buffer());
  FUSEC_ASSIGN(s.index, indices("[", "]"));
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::transpose() {
  TransposeTile s;
  FUSEC_ASSIGN(s.dst, buffer());
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.src, buffer());
  return Stmt{s};
}

Result<Stmt> KernelParser::copy_async() {
  CopyAsync s;
  FUSEC_ASSIGN(s.dst, buffer());
  FUSEC_ASSIGN(s.dst_index, indices("[", "]"));
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.src, buffer());
  FUSEC_ASSIGN(s.src_index, indices("[", "]"));
  FUSEC_TRY(lexer_.expect_word("box"));
  FUSEC_ASSIGN(s.extents, indices("[", "]"));
  FUSEC_ASSIGN(s.guard, guard());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::mma(RegId dst) {
  Mma s;
  s.dst = dst;
  FUSEC_ASSIGN(s.c, operand(DType::f32));
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.a, buffer());
  FUSEC_ASSIGN(s.a_index, indices("[", "]"));
  if (lexer_.accept_word("windows")) {
    FUSEC_ASSIGN(const std::vector<IndexExpr> windows, indices("[", "]"));
    if (windows.size() != 2 || !windows[0].is_const() || !windows[1].is_const())
      return lexer_.error("the windows of an mma are [width, step]");
    s.windows = {windows[0].value(), windows[1].value()};
  }
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.b, buffer());
  FUSEC_ASSIGN(s.b_index, indices("[", "]"));
  FUSEC_TRY(lexer_.expect_word("by"));
  FUSEC_ASSIGN(s.lane, expression());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::tile_product() {
  TileProduct s;
  FUSEC_ASSIGN(s.sums, buffer());
  FUSEC_ASSIGN(s.sums_index, indices("[", "]"));
  const auto matrix = [&](BufferId& id, std::vector<IndexExpr>& index, IndexExpr& pitch) -> Status {
    FUSEC_TRY(lexer_.expect(","));
    FUSEC_ASSIGN(id, buffer());
    FUSEC_ASSIGN(index, indices("[", "]"));
    FUSEC_TRY(lexer_.expect_word("pitch"));
    FUSEC_ASSIGN(pitch, expression());
    return {};
  };
  FUSEC_TRY(matrix(s.a, s.a_index, s.a_pitch));
  FUSEC_TRY(matrix(s.b, s.b_index, s.b_pitch));
  FUSEC_TRY(lexer_.expect_word("size"));
  FUSEC_ASSIGN(const std::vector<IndexExpr> size, indices("[", "]"));
  if (size.size() != 3) return lexer_.error("the size of a tile_product is [rows, columns, terms]");
  s.rows = size[0], s.columns = size[1], s.terms = size[2];
  FUSEC_TRY(lexer_.expect_word("by"));
  FUSEC_ASSIGN(s.thread, expression());
  return Stmt{std::move(s)};
}

// --- the lowered form ---

Result<Stmt> KernelParser::condition() {
  If s;
  FUSEC_ASSIGN(s.condition, indices("(", ")"));
  FUSEC_ASSIGN(s.body, block());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::choice() {
  Choose s;
  FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of a buffer"));
  if (buffers_.count(name.text)) return error(name, fmt::format("buffer {} is declared twice", name.text));
  FUSEC_TRY(lexer_.expect_word("of"));
  do {
    FUSEC_ASSIGN(const BufferId b, buffer());
    s.among.push_back(b);
  } while (lexer_.accept(","));
  FUSEC_TRY(lexer_.expect_word("by"));
  FUSEC_ASSIGN(s.head, loop_head(LoopTag::seq));
  FUSEC_TRY(lexer_.expect_word("at"));
  FUSEC_ASSIGN(s.number, expression());
  Buffer chosen = k_.buffers[s.among[0]];
  chosen.name = name.text;
  s.buffer = buffers_[name.text] = k_.buffers.push_back(std::move(chosen));
  FUSEC_ASSIGN(s.body, block());
  return Stmt{std::move(s)};
}

Result<Operand> KernelParser::mask() {
  if (!lexer_.accept_word("mask")) return kAllThreads;
  return operand(DType::u32);
}

Result<Stmt> KernelParser::shuffle(const Token& word, std::string_view name, RegId dst) {
  const auto kind = find_name<ShuffleKind>(name, 2);
  if (!kind) return error(word, "expected shuffle.xor or shuffle.idx");
  Shuffle s;
  s.dst = dst;
  s.kind = *kind;
  FUSEC_ASSIGN(s.value, operand(k_.regs[dst].dtype));
  FUSEC_TRY(lexer_.expect(","));
  FUSEC_ASSIGN(s.lane, expression());
  FUSEC_ASSIGN(s.mask, mask());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::ballot(RegId dst) {
  Ballot s;
  s.dst = dst;
  FUSEC_ASSIGN(s.condition, indices("(", ")"));
  FUSEC_ASSIGN(s.mask, mask());
  return Stmt{std::move(s)};
}

Result<Stmt> KernelParser::sync(SyncScope scope) {
  Sync s{scope, kAllThreads, 0};
  if (scope == SyncScope::copies) {
    FUSEC_ASSIGN(s.left, lexer_.integer());
  }
  FUSEC_ASSIGN(s.mask, mask());
  return Stmt{std::move(s)};
}

}  // namespace fusec::ir
