// SPDX-License-Identifier: Apache-2.0
// The parser of kernel text, shared by the files that read a kernel's head and its statements. It checks names and
// grammar and accepts untrusted text: sizes and nesting are limited.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/kernel/kernel.h"
#include "ir/text/lexer.h"

namespace fusec::ir {

// The number that the whole text states; nullopt if it states none.
std::optional<int64_t> decimal(std::string_view text);

// The enumerator whose name is `text`, of `count` enumerators.
template <class E>
std::optional<E> find_name(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (text == to_string(static_cast<E>(i))) return static_cast<E>(i);
  }
  return std::nullopt;
}

class KernelParser {
 public:
  explicit KernelParser(std::string_view text) : lexer_(text) {}

  Result<Kernel> parse();

 private:
  // The shape and strides of a buffer, with the place of their text.
  struct ShapeText {
    BufferId buffer;
    std::size_t at;
    Shape shape, strides;
  };

  // Head of the kernel.

  Status params();

  // Parses ": in f32[n] strides [2] align 64 layout "pitch 65"" after the name.
  Status declaration(const Token& name, bool parameter);
  Status clauses();
  void add_extent(const std::string& name) { symbols_.emplace(name, k_.extents.push_back(name)); }

  // Parameters and facts may mention extents that are stated after them.
  Status resolve_head();
  Status resolve(const ShapeText& s);

  // Index expressions.

  std::optional<SymbolId> symbol(const std::string& name) const;
  Result<IndexExpr> resolve(const Dim& d, std::size_t at) const;
  Result<IndexExpr> expression();
  Status extents();
  Status facts();

  // Parses "% 4". The lexer reads "%4" as a value and a lone "%" as an error.
  Result<int64_t> modulus();
  Status alias();

  // Pieces of statements.

  Status error(const Token& token, std::string_view message) const { return lexer_.error_at(token.begin, message); }

  Result<BufferId> buffer();
  Result<std::vector<IndexExpr>> indices(std::string_view open, std::string_view close);
  Result<Guard> guard();
  static std::optional<RegId> parse_reg(const std::string& name);
  static std::optional<RegId> parse_reg(const Token& token);
  bool is_defined(RegId r) const { return r.index < defined_.size() && defined_[r.index]; }

  // "v3: f32.16"
  Result<RegId> definition(const Token& name);

  // A register can be used from the statement after its definition on.
  void define_pending();
  Result<RegId> use(const Token& token) const;
  static Result<Constant> constant(Lexer& lexer, DType implied);
  bool at_constant() const;

  // The implied dtype of a constant may depend on later operands. `lexer` points at the constant, which is read later.
  struct LateOperand {
    std::optional<RegId> reg;
    Lexer lexer;
  };

  Result<LateOperand> late_operand();
  static Result<Operand> resolve(LateOperand& late, DType implied);
  Result<Operand> operand(DType implied);

  // Parses "block i0 in 256" after the tag.
  Result<LoopHead> loop_head(LoopTag tag);
  std::optional<LoopTag> at_loop() const;

  // Statements.

  Result<Block> block();

  // Parses statements up to a closing brace or a yield.
  Result<Block> statements();
  Result<Stmt> statement();
  Result<Stmt> assignment(const Token& first);
  Result<Stmt> let(const Token& word, RegId dst);
  Result<Stmt> load(RegId dst);
  Result<Combiner> combiner(const Token& word, std::string_view name) const;
  Result<Stmt> reduce(const Token& word, std::string_view name, std::vector<RegId> dst);
  Result<Stmt> scan(const Token& word, std::string_view name, RegId dst);
  Result<Stmt> loop(LoopTag tag);
  Status threads(Loop& loop);
  Result<Stmt> alloc();
  Result<Stmt> store(const Token& word);
  Result<Stmt> prefetch();
  Result<Stmt> transpose();
  Result<Stmt> copy_async();
  Result<Stmt> mma(RegId dst);
  Result<Stmt> tile_product();
  Result<Stmt> condition();
  Result<Stmt> choice();
  Result<Stmt> shuffle(const Token& word, std::string_view name, RegId dst);
  Result<Stmt> ballot(RegId dst);
  Result<Stmt> sync(SyncScope scope);
  Result<Operand> mask();

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

}  // namespace fusec::ir
