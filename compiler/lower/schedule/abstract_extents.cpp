// SPDX-License-Identifier: Apache-2.0
// Lower: replaces extents, strides and buffer sizes of a nest by launch arguments with divisibility facts, so that one
// kernel serves many shapes. Short, inner and reduced loops keep constant extents.

#include <algorithm>
#include <cstdlib>
#include <set>

#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

using ir::Block;
using ir::Kernel;
using ir::LoopHead;
using ir::Stmt;

namespace {

// Loops shorter than this keep a constant extent, because the writer unrolls or masks them best when it knows them.
constexpr int64_t kShortLoop = 64;
// The largest power of two whose divisibility of an extent is worth knowing: the widest vector loop.
constexpr int64_t kMaxDivisor = 64;

class Parametrizer {
 public:
  Parametrizer(Nest& nest, std::vector<Dim>& launch) : nest_(nest), kernel_(nest.kernel), launch_(launch) {}

  void run() {
    collect_vars(kernel_.body);
    plain_ = is_plain();
    for (Stmt& stmt : kernel_.body) collect_kept(stmt);
    for (Stmt& stmt : kernel_.body) outer_heads(stmt);
    name_extents();
    for_each_stmt(kernel_.body, [&](Stmt& stmt) { for_each_dim(stmt, [&](Dim& d) { d = rewrite(d); }); });
    for (ir::Buffer& buffer : kernel_.buffers)
      if (buffer.space == ir::Space::reg)
        for (Dim& d : buffer.shape) d = rewrite(d);
    collect_extents();
    for (size_t i = 0; i < kernel_.params.size(); ++i) size_of_param(kernel_.params[i], nest_.params[i]);
  }

 private:
  // Only the extents of the outermost loops become arguments; reduced and inner loops keep constants.
  void outer_heads(Stmt& stmt) {
    auto* loop = std::get_if<ir::Loop>(&stmt.v);
    const bool flat = loop != nullptr && (loop->body.size() != 1 || !std::holds_alternative<ir::Loop>(loop->body[0].v));
    while (loop != nullptr) {
      const Dim value = loop->head.extent;
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
    std::vector<Dim> open;
    for_each_head(kernel_.body, [&](const LoopHead& head) {
      const Dim& d = head.extent;
      const auto symbol = d.as_symbol();
      if (d.is_const() || uses_local(d) || (symbol && is_argument(*symbol))) return;
      if (std::find(open.begin(), open.end(), d) == open.end()) open.push_back(d);
    });
    while (!open.empty()) {
      const auto has_divisor = [&](const Dim& d) {
        return std::any_of(open.begin(), open.end(), [&](const Dim& o) { return !(o == d) && d.exact_div(o); });
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

  bool is_kept(const Dim& d) const { return d.is_const() && kept_.contains(d.value()); }

  Dim parameter_for(const Dim& value) {
    auto it = names_.find(value);
    if (it != names_.end()) return Dim::symbol(it->second);
    const std::string name = "n" + std::to_string(launch_.size());
    names_[value] = name;
    launch_.push_back(value);
    kernel_.extents.push_back(name);
    int64_t divisor = 1;
    const int64_t known = value.known_divisor();
    while (divisor < kMaxDivisor && known % (divisor * 2) == 0) divisor *= 2;
    if (divisor > 1) kernel_.divisible[name] = divisor;
    return Dim::symbol(name);
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

  Dim rewrite(const Dim& d) {
    if (is_kept(d)) return d;
    if (const auto name = d.as_symbol(); name && is_argument(*name)) return d;
    if (auto it = names_.find(d); it != names_.end()) return Dim::symbol(it->second);
    const auto affine = affine_in(d, vars_);
    if (!affine) return rewrite_symbols(d);
    Dim result = rewrite_value(affine->rest, false);
    for (const auto& [var, coefficient] : affine->coefficients)
      result += rewrite_value(coefficient, true) * Dim::symbol(var);
    return result;
  }

  // Whether every access is an unguarded sum of strides. Then constant extents can become arguments, too.
  bool is_plain() {
    bool plain = kernel_.body.size() == 1;  // segments fit together by constants
    for_each_stmt(kernel_.body, [&](Stmt& stmt) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && (!load->guard.empty() || load->clamp != 0)) plain = false;
      for_each_dim(stmt, [&](Dim& d) { plain = plain && affine_in(d, vars_).has_value(); });
    });
    return plain;
  }

  // Expresses an extent or stride in terms of the arguments: as one of them, as a product of some and a number, or as a
  // number. A symbolic value that is none of these becomes an argument of its own.
  Dim rewrite_value(const Dim& value, bool is_stride) {
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
    Dim arguments;
    int64_t number = 1;
  };

  std::optional<Product> best_product(const Dim& value, int depth) const {
    if (auto it = names_.find(value); it != names_.end()) return Product{Dim::symbol(it->second), 1};
    std::optional<Product> best;
    if (value.is_const()) best = {1, value.value()};
    if (depth == 3) return best;
    for (const auto& [argument, name] : names_) {
      if (argument.is(0) || argument.is(1)) continue;
      const auto quotient = value.exact_div(argument);
      if (!quotient) continue;
      const auto rest = best_product(*quotient, depth + 1);
      if (rest && (!best || std::abs(rest->number) < std::abs(best->number)))
        best = {rest->arguments * Dim::symbol(name), rest->number};
    }
    return best;
  }

  std::optional<Dim> as_product(const Dim& value) const {
    const auto product = best_product(value, 0);
    return product ? std::optional(product->arguments * product->number) : std::nullopt;
  }

  // Registers are local names, not model symbols.
  static bool is_register(const std::string& s) {
    return s.size() > 1 && s[0] == 'v' && s.find_first_not_of("0123456789", 1) == std::string::npos;
  }

  bool is_local(const std::string& s) const {
    return is_register(s) || s == ir::kLane || std::binary_search(vars_.begin(), vars_.end(), s);
  }

  bool uses_local(const Dim& d) const {
    std::set<std::string> symbols;
    d.collect_symbols(symbols);
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return is_local(s); });
  }

  Dim rewrite_symbols(const Dim& d) {
    return d.substitute([&](const std::string& s) -> std::optional<Dim> {
      if (is_local(s) || is_argument(s)) return std::nullopt;
      return parameter_for(Dim::symbol(s));
    });
  }

  bool is_argument(const std::string& s) const {
    return std::find(kernel_.extents.begin(), kernel_.extents.end(), s) != kernel_.extents.end();
  }

  // Sets the size of a flat parameter in terms of the arguments to the span of its accesses. Guarded accesses may go
  // beyond it, so they leave the span unknown.
  void size_of_param(ir::BufferId id, const ParamSource& source) {
    ir::Buffer& buffer = kernel_.buffers[id];
    if (buffer.shape.size() != 1 || !buffer.strides.empty()) {
      for (Dim& d : buffer.shape) d = rewrite_value(d, false);
      for (Dim& d : buffer.strides) d = rewrite_value(d, true);
      return;
    }
    std::optional<Dim> span;
    bool known = true;
    const auto note = [&](ir::BufferId b, const Dim& index, bool guarded) {
      if (b != id) return;
      const auto affine = affine_in(index, vars_);
      if (guarded || !affine) return void(known = false);
      Dim last = affine->rest;
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
    buffer.shape = {known && span ? *span : rewrite_value(source.elements, false)};
  }

  Nest& nest_;
  Kernel& kernel_;
  std::vector<Dim>& launch_;
  std::map<Dim, std::string> names_;
  std::vector<std::string> vars_;
  std::map<std::string, Dim> extents_;  // of loops, in terms of the arguments
  std::set<int64_t> kept_;
  bool plain_ = false;
};

}  // namespace

void abstract_extents(Nest& nest, std::vector<Dim>& launch) { Parametrizer(nest, launch).run(); }

}  // namespace fusec::compiler
