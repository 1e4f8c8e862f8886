// SPDX-License-Identifier: Apache-2.0
// Lower: replaces extents, strides and buffer sizes of a nest by launch arguments with divisibility facts, so that one
// kernel serves many shapes. Short, inner and reduced loops keep constant extents.

#include <algorithm>
#include <cstdlib>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

using ir::Kernel;

namespace {

// Loops shorter than this keep a constant extent, because the writer unrolls or masks them best when it knows them.
constexpr int64_t kShortLoop = 64;
// The largest power of two whose divisibility of an extent is worth knowing: the widest vector loop.
constexpr int64_t kMaxDivisor = 64;

class ExtentAbstraction {
 public:
  explicit ExtentAbstraction(LoopNest& nest)
      : nest_(nest), kernel_(nest.kernel), symbols_(static_cast<uint32_t>(nest.kernel.extents.size())) {}

  // The values of the arguments.
  std::vector<Dim> run() {
    collect_vars(kernel_.body);
    plain_ = is_plain();
    for (Stmt& stmt : kernel_.body) collect_kept(stmt);
    for (Stmt& stmt : kernel_.body) outer_heads(stmt);
    name_extents();
    for_each_stmt(kernel_.body, [&](Stmt& stmt) { for_each_index(stmt, [&](IndexExpr& d) { d = rewrite(d); }); });
    for (ir::Buffer& buffer : kernel_.buffers)
      if (buffer.space == ir::Space::reg)
        for (IndexExpr& d : buffer.shape) d = rewrite(d);
    collect_extents();
    for (size_t i = 0; i < kernel_.params.size(); ++i) size_of_param(kernel_.params[i], nest_.params[i]);
    std::vector<Dim> launch;
    for (const IndexExpr& value : launch_) launch.push_back(named(kernel_, value));
    if (symbols_ > 0) drop_symbols();
    return launch;
  }

 private:
  // Until here the model's symbols are extents, too, in front of the arguments.
  void drop_symbols() {
    const auto moved = [&](ir::ExtentId id) { return ir::ExtentId{id.index - symbols_}; };
    const auto move = [&](IndexExpr& e) {
      e = e.substitute([&](ir::SymbolId symbol) -> std::optional<IndexExpr> {
        const auto extent = symbol.extent();
        return extent ? std::optional(IndexExpr::symbol(moved(*extent))) : std::nullopt;
      });
    };
    for_each_stmt(kernel_.body, [&](Stmt& stmt) { for_each_index(stmt, move); });
    for (ir::Buffer& buffer : kernel_.buffers) {
      for (IndexExpr& e : buffer.shape) move(e);
      for (IndexExpr& e : buffer.strides) move(e);
    }
    ir::IdVector<ir::ExtentId, std::string> arguments;
    std::map<ir::ExtentId, int64_t> facts;
    for (uint32_t i = symbols_; i < kernel_.extents.size(); ++i) arguments.push_back(kernel_.extents[ir::ExtentId{i}]);
    for (const auto& [extent, divisor] : kernel_.divisible) facts[moved(extent)] = divisor;
    kernel_.extents = std::move(arguments);
    kernel_.divisible = std::move(facts);
  }

  // Only the extents of the outermost loops become arguments; reduced and inner loops keep constants.
  void outer_heads(Stmt& stmt) {
    auto* loop = std::get_if<ir::Loop>(&stmt.v);
    const bool flat = loop != nullptr && (loop->body.size() != 1 || !std::holds_alternative<ir::Loop>(loop->body[0].v));
    while (loop != nullptr) {
      const IndexExpr value = loop->head.extent;
      const bool suits =
          !value.is_const() || (plain_ && value.value() >= kShortLoop && (flat || value.value() % kMaxDivisor == 0));
      if (suits) loop->head.extent = parameter_for(value);
      if (loop->body.size() != 1) return;
      loop = std::get_if<ir::Loop>(&loop->body[0].v);
    }
  }

  // Names divisors before their multiples. A row whose loops are merged in one phase and not in another then has one
  // length in both.
  void name_extents() {
    std::vector<IndexExpr> open;
    for_each_head(kernel_.body, [&](const LoopHead& head) {
      const IndexExpr& d = head.extent;
      const auto symbol = d.as_symbol();
      if (d.is_const() || uses_local(d) || (symbol && is_argument(*symbol))) return;
      if (std::find(open.begin(), open.end(), d) == open.end()) open.push_back(d);
    });
    while (!open.empty()) {
      const auto has_divisor = [&](const IndexExpr& d) {
        return std::any_of(open.begin(), open.end(), [&](const IndexExpr& o) { return !(o == d) && d.exact_div(o); });
      };
      auto next = std::find_if_not(open.begin(), open.end(), has_divisor);
      if (next == open.end()) next = open.begin();
      rewrite_value(*next, false);
      open.erase(next);
    }
  }

  template <class F>
  static void for_each_head(const Block& block, const F& f) {
    for_each_stmt(block, [&](const Stmt& stmt) { ir::for_each_head(stmt, f); });
  }

  // Collects the constant extents of inner loops. A stride of such a value is the row's length, not an argument that
  // happens to be as large.
  void collect_kept(Stmt& stmt) {
    const auto* loop = std::get_if<ir::Loop>(&stmt.v);
    while (loop != nullptr && loop->body.size() == 1 && std::holds_alternative<ir::Loop>(loop->body[0].v))
      loop = &std::get<ir::Loop>(loop->body[0].v);
    if (loop == nullptr) return;
    for_each_head(loop->body, [&](const LoopHead& head) {
      if (head.extent.is_const()) kept_.insert(head.extent.value());
    });
  }

  bool is_kept(const IndexExpr& d) const { return d.is_const() && kept_.contains(d.value()); }

  IndexExpr parameter_for(const IndexExpr& value) {
    auto it = arguments_.find(value);
    if (it != arguments_.end()) return IndexExpr::symbol(it->second);
    const ir::ExtentId argument = kernel_.extents.push_back("n" + std::to_string(launch_.size()));
    arguments_[value] = argument;
    launch_.push_back(value);
    int64_t divisor = 1;
    const int64_t known = known_divisor(nest_, named(kernel_, value));
    while (divisor < kMaxDivisor && known % (divisor * 2) == 0) divisor *= 2;
    if (divisor > 1) kernel_.divisible[argument] = divisor;
    return IndexExpr::symbol(argument);
  }

  void collect_vars(const Block& block) {
    for_each_head(block, [&](const LoopHead& head) { vars_.push_back(head.var); });
    std::sort(vars_.begin(), vars_.end());
    vars_.erase(std::unique(vars_.begin(), vars_.end()), vars_.end());
  }

  void collect_extents() {
    for_each_head(kernel_.body, [&](const LoopHead& head) {
      auto [it, fresh] = extents_.emplace(head.var, head.extent);
      if (!fresh && proves_nonneg(head.extent - it->second, {})) it->second = head.extent;
    });
  }

  IndexExpr rewrite(const IndexExpr& d) {
    if (is_kept(d)) return d;
    if (const auto name = d.as_symbol(); name && is_argument(*name)) return d;
    if (auto it = arguments_.find(d); it != arguments_.end()) return IndexExpr::symbol(it->second);
    const auto affine = affine_in(d, vars_);
    if (!affine) return rewrite_symbols(d);
    IndexExpr result = rewrite_value(affine->rest, false);
    for (const auto& [var, coefficient] : affine->coefficients)
      result += rewrite_value(coefficient, true) * IndexExpr::symbol(var);
    return result;
  }

  // Whether every access is an unguarded sum of strides. Then constant extents can become arguments, too.
  bool is_plain() {
    bool plain = kernel_.body.size() == 1;  // segments fit together by constants
    for_each_stmt(kernel_.body, [&](Stmt& stmt) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && (!load->guard.empty() || load->clamp != 0)) plain = false;
      for_each_index(stmt, [&](IndexExpr& d) { plain = plain && affine_in(d, vars_).has_value(); });
    });
    return plain;
  }

  // Expresses an extent or stride in terms of the arguments: as one of them, as a product of some and a number, or as a
  // number. A symbolic value that is none of these becomes an argument of its own.
  IndexExpr rewrite_value(const IndexExpr& value, bool is_stride) {
    if (value.is_const() && (!is_stride || value.value() < kShortLoop || is_kept(value))) return value;
    if (uses_local(value)) return rewrite_symbols(value);
    if (auto product = as_product(value)) return *product;
    if (value.is_const()) return value;
    // Arguments are extents, so they must be at least 0.
    if (proves_nonneg(value, {})) return parameter_for(value);
    if (proves_nonneg(-value, {})) return -parameter_for(-value);
    return rewrite_symbols(value);
  }

  // The factorization with the smallest number: for 802816, 256 * 3136 is a stride of rows, while 49 * 128 * 128 is a
  // coincidence.
  struct Product {
    IndexExpr arguments;
    int64_t number = 1;
  };

  std::optional<Product> best_product(const IndexExpr& value, int depth) const {
    if (auto it = arguments_.find(value); it != arguments_.end()) return Product{IndexExpr::symbol(it->second), 1};
    std::optional<Product> best;
    if (value.is_const()) best = {1, value.value()};
    if (depth == 3) return best;
    for (const auto& [argument, id] : arguments_) {
      if (argument.is(0) || argument.is(1)) continue;
      const auto quotient = value.exact_div(argument);
      if (!quotient) continue;
      const auto rest = best_product(*quotient, depth + 1);
      if (rest && (!best || std::abs(rest->number) < std::abs(best->number)))
        best = {rest->arguments * IndexExpr::symbol(id), rest->number};
    }
    return best;
  }

  std::optional<IndexExpr> as_product(const IndexExpr& value) const {
    const auto product = best_product(value, 0);
    return product ? std::optional(product->arguments * product->number) : std::nullopt;
  }

  static bool is_local(ir::SymbolId s) { return !s.extent(); }

  static bool uses_local(const IndexExpr& d) {
    std::set<ir::SymbolId> symbols;
    d.collect_symbols(symbols);
    return std::any_of(symbols.begin(), symbols.end(), is_local);
  }

  IndexExpr rewrite_symbols(const IndexExpr& d) {
    return d.substitute([&](ir::SymbolId s) -> std::optional<IndexExpr> {
      if (is_local(s) || is_argument(s)) return std::nullopt;
      return parameter_for(IndexExpr::symbol(s));
    });
  }

  bool is_argument(ir::SymbolId s) const { return s.extent() && s.index >= symbols_; }

  // Sets the size of a flat parameter in terms of the arguments to the span of its accesses. Guarded accesses may go
  // beyond it, so they leave the span unknown.
  void size_of_param(ir::BufferId id, const ParamSource& source) {
    ir::Buffer& buffer = kernel_.buffers[id];
    if (buffer.shape.size() != 1 || !buffer.strides.empty()) {
      for (IndexExpr& d : buffer.shape) d = rewrite_value(d, false);
      for (IndexExpr& d : buffer.strides) d = rewrite_value(d, true);
      return;
    }
    std::optional<IndexExpr> span;
    bool known = true;
    const auto note = [&](ir::BufferId b, const IndexExpr& index, bool guarded) {
      if (b != id) return;
      const auto affine = affine_in(index, vars_);
      if (guarded || !affine) return void(known = false);
      IndexExpr last = affine->rest;
      for (const auto& [var, coefficient] : affine->coefficients) {
        if (proves_nonneg(-coefficient, {})) continue;  // largest at the loop's start
        if (!proves_nonneg(coefficient, {})) known = false;
        last += coefficient * (extents_.at(var) - 1);
      }
      if (span && !(last + 1 == *span)) {
        if (proves_nonneg(last + 1 - *span, {}))
          span = last + 1;
        else if (!proves_nonneg(*span - last - 1, {}))
          known = false;
        return;
      }
      span = last + 1;
    };
    for_each_stmt(kernel_.body, [&](Stmt& stmt) {
      if (const auto* load = std::get_if<ir::Load>(&stmt.v)) note(load->buffer, load->index[0], !load->guard.empty());
      if (const auto* store = std::get_if<ir::Store>(&stmt.v))
        note(store->buffer, store->index[0], !store->guard.empty());
    });
    buffer.shape = {known && span ? *span : rewrite_value(index_expr(nest_, source.elements), false)};
  }

  LoopNest& nest_;
  Kernel& kernel_;
  const uint32_t symbols_;         // the number of extents that are symbols of the model
  std::vector<IndexExpr> launch_;  // the values of the arguments, in terms of these
  std::map<IndexExpr, ir::ExtentId> arguments_;
  std::vector<ir::SymbolId> vars_;
  std::map<ir::SymbolId, IndexExpr> extents_;  // of loops, in terms of the arguments
  std::set<int64_t> kept_;
  bool plain_ = false;
};

}  // namespace

std::vector<Dim> abstract_extents(LoopNest& nest) { return ExtentAbstraction(nest).run(); }

}  // namespace fusec::compiler
