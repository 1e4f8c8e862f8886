// SPDX-License-Identifier: Apache-2.0
// Parses the text form of programs, which packages contain. It checks ids and the numbers of arguments; constants are
// left to the caller. The text may be untrusted.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "ir/text/lexer.h"
#include "ir/text/program_text.h"

namespace fusec::ir {
namespace {

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : lexer_(text) {}

  Result<Program> parse() {
    FUSEC_TRY(head());
    while (lexer_.peek().kind == TokenKind::value) FUSEC_TRY(alloc());
    while (lexer_.accept_word("slot")) FUSEC_TRY(slot());
    while (lexer_.accept_word("note")) {
      FUSEC_ASSIGN(Token note, lexer_.expect(TokenKind::string, "a note in quotes"));
      program_.notes.push_back(std::move(note.text));
    }
    while (lexer_.peek().is_word("kernel")) FUSEC_TRY(kernel());
    FUSEC_TRY(lexer_.expect("}"));
    if (lexer_.peek().kind != TokenKind::end) return lexer_.expected("the end of the text");
    FUSEC_TRY(check_launches());
    return std::move(program_);
  }

 private:
  Status head() {
    FUSEC_TRY(lexer_.expect_word("program"));
    FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::global, "the name of the program, as @main"));
    program_.name = std::move(name.text);
    FUSEC_TRY(tensors(program_.input_names, program_.input_types));
    FUSEC_TRY(lexer_.expect("->"));
    FUSEC_TRY(tensors(program_.output_names, program_.output_types));
    program_.inputs.resize(program_.input_types.size(), kNone);
    program_.outputs.resize(program_.output_types.size(), kNone);
    if (lexer_.accept_word("symbols")) FUSEC_TRY(symbols());
    FUSEC_ASSIGN(program_.limits, parse_limits(lexer_));
    FUSEC_TRY(lexer_.expect_word("ops"));
    FUSEC_ASSIGN(program_.imported_ops, lexer_.integer());
    return lexer_.expect("{");
  }

  // "(%x: f32[N, 128], ...)"
  Status tensors(std::vector<std::string>& names, std::vector<Type>& types) {
    FUSEC_TRY(lexer_.expect("("));
    if (lexer_.accept(")")) return {};
    do {
      FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::value, "a tensor, as %x: f32[N]"));
      FUSEC_TRY(lexer_.expect(":"));
      FUSEC_ASSIGN(Type type, lexer_.type());
      names.push_back(std::move(name.text));
      types.push_back(std::move(type));
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  Status symbols() {
    FUSEC_TRY(lexer_.expect("("));
    do {
      FUSEC_ASSIGN(Token name, lexer_.expect(TokenKind::ident, "the name of a symbol"));
      program_.symbols.push_back(std::move(name.text));
    } while (lexer_.accept(","));
    return lexer_.expect(")");
  }

  // The number after a prefix: 12 for "a12" or "k12".
  static std::optional<uint32_t> numbered(std::string_view text, char prefix) {
    uint32_t index = 0;
    if (text.size() < 2 || text[0] != prefix) return std::nullopt;
    const auto [end, fault] = std::from_chars(text.data() + 1, text.data() + text.size(), index);
    if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return index;
  }

  Status alloc() {
    const Token name = lexer_.next();
    if (numbered(name.text, 'a') != program_.allocs.size()) {
      return lexer_.error_at(name.begin, fmt::format("expected allocation %a{}", program_.allocs.size()));
    }
    FUSEC_TRY(lexer_.expect(":"));
    Allocation a;
    const Token kind = lexer_.next();
    static constexpr std::string_view kKinds[] = {"input", "output", "constant", "temporary"};
    const auto at = std::find(std::begin(kKinds), std::end(kKinds), kind.text);
    if (at == std::end(kKinds)) return lexer_.error_at(kind.begin, "expected input, output, constant or temporary");
    a.kind = static_cast<AllocKind>(at - std::begin(kKinds));
    if (a.kind != AllocKind::temporary) {
      FUSEC_ASSIGN(a.ordinal, ordinal());
    }
    if (lexer_.peek().kind == TokenKind::string) a.name = lexer_.next().text;
    FUSEC_ASSIGN(a.dtype, lexer_.dtype());
    FUSEC_ASSIGN(a.elements, lexer_.expression());
    const AllocId id = program_.allocs.push_back(std::move(a));
    return place(id, kind);
  }

  Result<uint32_t> ordinal() {
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const int64_t value, lexer_.integer());
    if (value < 0 || value > UINT32_MAX) return lexer_.error_at(begin, "a position is not negative and fits 32 bits");
    return static_cast<uint32_t>(value);
  }

  // Records which allocation an input or output is.
  Status place(AllocId id, const Token& kind) {
    const Allocation& a = program_.allocs[id];
    if (a.kind != AllocKind::input && a.kind != AllocKind::output) return {};
    std::vector<AllocId>& list = a.kind == AllocKind::input ? program_.inputs : program_.outputs;
    if (a.ordinal >= list.size()) {
      return lexer_.error_at(kind.begin, fmt::format("the program has no {} {}", kind.text, a.ordinal));
    }
    list[a.ordinal] = id;
    return {};
  }

  Status slot() {
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const int64_t index, lexer_.integer());
    if (index != static_cast<int64_t>(program_.slots.size())) {
      return lexer_.error_at(begin, fmt::format("expected slot {}", program_.slots.size()));
    }
    FUSEC_TRY(lexer_.expect("{"));
    Slot s;
    while (!lexer_.accept("}")) {
      FUSEC_ASSIGN(Variant v, variant());
      s.variants.push_back(std::move(v));
    }
    program_.slots.push_back(std::move(s));
    return {};
  }

  Result<Variant> variant() {
    Variant v;
    if (!lexer_.accept_word("otherwise")) {
      FUSEC_TRY(lexer_.expect_word("when"));
      do {
        FUSEC_ASSIGN(Dim d, lexer_.expression());
        v.when.push_back(std::move(d));
      } while (lexer_.accept(","));
    }
    FUSEC_TRY(lexer_.expect("{"));
    while (lexer_.accept_word("candidate")) {
      if (lexer_.accept_word("picked")) v.picked = static_cast<int>(v.candidates.size());
      FUSEC_ASSIGN(Candidate c, candidate());
      v.candidates.push_back(std::move(c));
    }
    FUSEC_TRY(lexer_.expect("}"));
    return v;
  }

  Result<std::string> comment() const { return unescaped(lexer_.trailing_comment()); }

  Result<Candidate> candidate() {
    Candidate c;
    FUSEC_ASSIGN(c.predicted_us, parse_float(lexer_));
    FUSEC_TRY(lexer_.expect_word("us"));
    FUSEC_TRY(lexer_.expect("{"));
    FUSEC_ASSIGN(c.why, comment());
    while (!lexer_.accept("}")) {
      FUSEC_ASSIGN(Step s, step());
      c.steps.push_back(std::move(s));
    }
    return c;
  }

  Result<Step> step() {
    Step s;
    if (lexer_.accept_word("launch")) {
      FUSEC_ASSIGN(s.v, launch());
    } else if (lexer_.accept_word("call")) {
      FUSEC_ASSIGN(s.v, call());
    } else {
      return lexer_.expected("launch, call or '}'");
    }
    FUSEC_ASSIGN(s.origin, comment());
    return s;
  }

  Result<KernelStep> launch() {
    const Token name = lexer_.next();
    const auto index = numbered(name.text, 'k');
    if (!index) return lexer_.error_at(name.begin, "expected a kernel, as k0");
    KernelStep s;
    s.kernel = KernelId{*index};
    FUSEC_ASSIGN(s.args, views());
    if (!lexer_.accept_word("extents")) return s;
    FUSEC_TRY(lexer_.expect("("));
    do {
      FUSEC_ASSIGN(Dim d, lexer_.expression());
      s.extents.push_back(std::move(d));
    } while (lexer_.accept(","));
    FUSEC_TRY(lexer_.expect(")"));
    return s;
  }

  Result<LibraryStep> call() {
    LibraryStep s;
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "the name of an op"));
    const auto op = find_tensor_op(name.text);
    if (!op) return lexer_.error_at(name.begin, fmt::format("there is no tensor op '{}'", name.text));
    s.op = *op;
    FUSEC_ASSIGN(s.attrs, parse_attrs(lexer_, s.op));
    FUSEC_ASSIGN(s.compute, lexer_.dtype());
    FUSEC_ASSIGN(s.args, views());
    if (lexer_.accept_word("bias")) {
      FUSEC_ASSIGN(s.bias, argument(s));
    }
    if (!lexer_.accept_word("then")) return s;
    do {
      FUSEC_ASSIGN(Epilogue e, epilogue(s));
      s.epilogues.push_back(e);
    } while (lexer_.accept(","));
    return s;
  }

  Result<int> argument(const LibraryStep& s) {
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(const int64_t index, lexer_.integer());
    if (index < 0 || index >= static_cast<int64_t>(s.args.size())) {
      return lexer_.error_at(begin, fmt::format("the call has no argument {}", index));
    }
    return static_cast<int>(index);
  }

  Result<Epilogue> epilogue(const LibraryStep& s) {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::ident, "a scalar op"));
    const auto op = find_scalar_op(name.text);
    if (!op) return lexer_.error_at(name.begin, fmt::format("there is no scalar op '{}'", name.text));
    Epilogue e;
    e.op = *op;
    if (lexer_.peek().kind == TokenKind::number) {
      FUSEC_ASSIGN(e.operand, argument(s));
    }
    if (!lexer_.accept_word("alpha")) return e;
    FUSEC_ASSIGN(e.alpha, parse_float(lexer_));
    FUSEC_TRY(lexer_.expect_word("beta"));
    FUSEC_ASSIGN(e.beta, parse_float(lexer_));
    return e;
  }

  Result<std::vector<View>> views() {
    std::vector<View> list;
    FUSEC_TRY(lexer_.expect("("));
    if (lexer_.accept(")")) return list;
    do {
      FUSEC_ASSIGN(View v, view());
      list.push_back(std::move(v));
    } while (lexer_.accept(","));
    FUSEC_TRY(lexer_.expect(")"));
    return list;
  }

  // Parses "%a3 + 4*N [N, 64] strides [128, 1]".
  Result<View> view() {
    FUSEC_ASSIGN(const Token name, lexer_.expect(TokenKind::value, "a view, as %a0 [N, 4]"));
    const auto index = numbered(name.text, 'a');
    if (!index || *index >= program_.allocs.size()) return lexer_.error_at(name.begin, "there is no such allocation");
    View v;
    v.alloc = AllocId{*index};
    if (lexer_.accept("+")) {
      FUSEC_ASSIGN(v.offset, lexer_.expression());
    }
    FUSEC_ASSIGN(v.shape, lexer_.shape());
    v.strides = contiguous_strides(v.shape);
    if (!lexer_.accept_word("strides")) return v;
    const std::size_t begin = lexer_.peek().begin;
    FUSEC_ASSIGN(v.strides, lexer_.shape());
    if (v.strides.size() != v.shape.size()) return lexer_.error_at(begin, "one stride per axis is expected");
    return v;
  }

  // Parses from "kernel" to the brace that closes its body.
  Status kernel() {
    const std::size_t begin = lexer_.peek().begin;
    std::size_t end = begin;
    int depth = 0;
    do {
      const Token token = lexer_.next();
      const bool modulus = token.kind == TokenKind::bad && lexer_.source()[token.begin] == '%';  // in a fact: n % 4
      if (token.kind == TokenKind::end || (token.kind == TokenKind::bad && !modulus)) {
        return lexer_.error_at(begin, "this kernel has no end");
      }
      depth += token.is("{") ? 1 : token.is("}") ? -1 : 0;
      end = token.end;
    } while (depth > 0 || lexer_.source()[end - 1] != '}');
    Result<Kernel> kernel = parse_kernel(lexer_.source().substr(begin, end - begin));
    if (!kernel.ok()) return kernel.status().with_note(fmt::format("in kernel k{}", program_.kernels.size()));
    program_.kernels.push_back(*std::move(kernel));
    return {};
  }

  // Kernels come after the launches that name them, so launches are checked at the end.
  Status check_launches() const {
    for (const std::vector<AllocId>* list : {&program_.inputs, &program_.outputs}) {
      if (std::find(list->begin(), list->end(), kNone) != list->end()) {
        return Status(StatusCode::invalid_model, "an input or output of the program has no allocation");
      }
    }
    for (const Slot& slot : program_.slots) {
      for (const Variant& variant : slot.variants) {
        for (const Candidate& candidate : variant.candidates) {
          for (const Step& step : candidate.steps) FUSEC_TRY(check(step));
        }
      }
    }
    return {};
  }

  Status check(const Step& step) const {
    const auto* launch = std::get_if<KernelStep>(&step.v);
    if (launch == nullptr) return {};
    if (launch->kernel.index >= program_.kernels.size()) {
      return Status(StatusCode::invalid_model, fmt::format("there is no kernel k{}", launch->kernel.index));
    }
    const Kernel& kernel = program_.kernels[launch->kernel];
    const auto is_scratch = [](const Buffer& b) { return b.space == Space::scratch; };
    const auto scratch =
        static_cast<std::size_t>(std::count_if(kernel.buffers.begin(), kernel.buffers.end(), is_scratch));
    if (launch->args.size() == kernel.params.size() + scratch && launch->extents.size() == kernel.extents.size())
      return {};
    return Status(StatusCode::invalid_model,
                  fmt::format("a launch of k{} with {} views and {} extents; it takes {} and {}", launch->kernel.index,
                              launch->args.size(), launch->extents.size(), kernel.params.size() + scratch,
                              kernel.extents.size()));
  }

  static constexpr AllocId kNone{UINT32_MAX};
  Lexer lexer_;
  Program program_;
};

}  // namespace

Result<Program> parse_program(std::string_view text) {
  return guarded([&] { return ProgramParser(text).parse(); }, {.overflow = StatusCode::invalid_model});
}

}  // namespace fusec::ir
