// SPDX-License-Identifier: Apache-2.0
// Walks kernels: visitors for nested blocks, loops, index expressions, operands and definitions of every statement
// kind, and small helpers on kernels. A new statement kind must be added to each visitor.

#include "ir/kernel/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "ir/ops/cast.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

template <class T, class Like>
using CopyConst = std::conditional_t<std::is_const_v<Like>, const T, T>;

template <class B, class F>
void walk(B& block, const F& f) {
  for (auto& stmt : block) {
    f(stmt);
    for (auto* nested : nested_blocks(stmt)) walk(*nested, f);
  }
}

template <class S>
auto nested(S& stmt) {
  std::vector<CopyConst<Block, S>*> blocks;
  std::visit(
      Overloaded{[&](CopyConst<Loop, S>& s) { blocks = {&s.body}; }, [&](CopyConst<If, S>& s) { blocks = {&s.body}; },
                 [&](CopyConst<Choose, S>& s) { blocks = {&s.body}; },
                 [&](CopyConst<Reduce, S>& s) { blocks = {&s.body}; },
                 [&](CopyConst<Scan, S>& s) {
                   blocks = {&s.body, &s.then};
                 },
                 [](auto&) {}},
      stmt.v);
  return blocks;
}

template <class List, class F>
void for_each_item(List& list, const F& f) {
  for (auto& item : list) f(item);
}

template <class S, class F>
void visit_heads(S& stmt, const F& f) {
  std::visit(
      Overloaded{[&](CopyConst<Loop, S>& s) { f(s.head); }, [&](CopyConst<Reduce, S>& s) { for_each_item(s.loops, f); },
                 [&](CopyConst<Scan, S>& s) { f(s.loop); }, [&](CopyConst<Choose, S>& s) { f(s.head); }, [](auto&) {}},
      stmt.v);
}

template <class S, class F>
void visit_exprs(S& stmt, const F& f) {
  std::visit(
      Overloaded{[&](CopyConst<Loop, S>& s) { f(s.head.extent); },
                 [&](CopyConst<If, S>& s) { for_each_item(s.condition, f); },
                 [&](CopyConst<Choose, S>& s) { f(s.head.extent), f(s.number); },
                 [&](CopyConst<IndexValue, S>& s) { f(s.value); }, [&](CopyConst<Shuffle, S>& s) { f(s.lane); },
                 [&](CopyConst<Ballot, S>& s) { for_each_item(s.condition, f); },
                 [&](CopyConst<Load, S>& s) { for_each_item(s.index, f), for_each_item(s.guard, f); },
                 [&](CopyConst<Store, S>& s) { for_each_item(s.index, f), for_each_item(s.guard, f); },
                 [&](CopyConst<Prefetch, S>& s) { for_each_item(s.index, f); },
                 [&](CopyConst<Reduce, S>& s) {
                   for (auto& head : s.loops) f(head.extent);
                   for_each_item(s.guard, f);
                 },
                 [&](CopyConst<Scan, S>& s) { f(s.loop.extent); },
                 [&](CopyConst<CopyAsync, S>& s) {
                   for_each_item(s.dst_index, f), for_each_item(s.src_index, f), for_each_item(s.extents, f);
                   for_each_item(s.guard, f);
                 },
                 [&](CopyConst<Mma, S>& s) { for_each_item(s.a_index, f), for_each_item(s.b_index, f), f(s.lane); },
                 [&](CopyConst<TileProduct, S>& s) {
                   for_each_item(s.sums_index, f), for_each_item(s.a_index, f), for_each_item(s.b_index, f);
                   f(s.a_pitch), f(s.b_pitch), f(s.rows), f(s.columns), f(s.terms), f(s.thread);
                 },
                 [](auto&) {}},
      stmt.v);
}

template <class S, class F>
void visit_operands(S& stmt, const F& f) {
  std::visit(
      Overloaded{[&](CopyConst<Let, S>& s) { for_each_item(s.args, f); }, [&](CopyConst<Store, S>& s) { f(s.value); },
                 [&](CopyConst<Reduce, S>& s) { for_each_item(s.yield, f); },
                 [&](CopyConst<Scan, S>& s) { f(s.yield); },
                 [&](CopyConst<Shuffle, S>& s) {
                   f(s.value);
                   f(s.mask);
                 },
                 [&](CopyConst<Mma, S>& s) { f(s.c); }, [&](CopyConst<Ballot, S>& s) { f(s.mask); },
                 [&](CopyConst<Sync, S>& s) { f(s.mask); }, [](auto&) {}},
      stmt.v);
}

std::array<char, 8> get_bytes(const Constant& c) {
  std::array<char, 8> bytes{};
  if (is_float(c.dtype)) {
    store_double(c.dtype, bytes.data(), c.f);
  } else {
    store_int(c.dtype, bytes.data(), c.i);
  }
  return bytes;
}

}  // namespace

bool Constant::operator==(const Constant& o) const { return dtype == o.dtype && get_bytes(*this) == get_bytes(o); }

int64_t copied_bytes(const Kernel& kernel, const CopyAsync& copy) {
  if (copy.extents.size() != 1 || !copy.extents[0].is_const()) return 0;
  const int64_t bytes = copy.extents[0].value() * static_cast<int64_t>(size_of(kernel.buffers[copy.dst].dtype));
  return bytes == 4 || bytes == 8 || bytes == 16 ? bytes : 0;
}

std::vector<IndexExpr> element_of_a(const Mma& mma, const IndexExpr& row, const IndexExpr& term) {
  std::vector<IndexExpr> index = mma.a_index;
  IndexExpr &line = index[index.size() - 2], &place = index.back();
  if (mma.windows) {
    line += floordiv(term, mma.windows->width);
    place += row * mma.windows->step + mod(term, mma.windows->width);
  } else {
    line += row;
    place += term;
  }
  return index;
}

std::vector<IndexExpr> element_of_b(const Mma& mma, const IndexExpr& row, const IndexExpr& term) {
  std::vector<IndexExpr> index = mma.b_index;
  index[index.size() - 2] += row;
  index.back() += term;
  return index;
}

int tuple_size(Combiner combiner) {
  switch (combiner) {
    case Combiner::argmax:
    case Combiner::argmin:
    case Combiner::argmax_last:
    case Combiner::argmin_last:
    case Combiner::max_sum:
      return 2;
    case Combiner::welford:
      return 3;
    default:
      return 1;
  }
}

const char* to_string(Combiner combiner) {
  constexpr const char* kNames[] = {"add",    "mul",    "max",         "min",         "and",     "or",
                                    "argmax", "argmin", "argmax_last", "argmin_last", "welford", "max_sum"};
  return kNames[static_cast<std::size_t>(combiner)];
}

BufferId add_buffer(Kernel& kernel, Buffer buffer) {
  const bool parameter = buffer.space == Space::in || buffer.space == Space::out;
  const BufferId id = kernel.buffers.push_back(std::move(buffer));
  if (parameter) kernel.params.push_back(id);
  return id;
}

bool on_half_bits(const Let& let) {
  if (let.op == ScalarOp::abs || let.op == ScalarOp::neg) return true;
  const auto* zero = let.op == ScalarOp::max ? std::get_if<Constant>(&let.args[1]) : nullptr;
  return zero != nullptr && zero->f == 0 && !std::signbit(zero->f);
}

DType dtype_of(const Kernel& kernel, const Operand& operand) {
  if (const auto* reg = std::get_if<RegId>(&operand)) return kernel.regs[*reg].dtype;
  return std::get<Constant>(operand).dtype;
}

bool is_lowered(const Kernel& kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(), [](const Stmt& stmt) {
    const auto* loop = std::get_if<Loop>(&stmt.v);
    return loop != nullptr && loop->threads > 0;
  });
}

bool has_tile_product(const Block& block) {
  bool found = false;
  for_each_stmt(block, [&](const Stmt& stmt) { found |= std::holds_alternative<TileProduct>(stmt.v); });
  return found;
}

const Loop& innermost_grid(const Loop& outermost) {
  const Loop* at = &outermost;
  for (;;) {
    const auto* inner = at->body.size() == 1 ? std::get_if<Loop>(&at->body[0].v) : nullptr;
    if (inner == nullptr || inner->head.tag != LoopTag::grid) return *at;
    at = inner;
  }
}
Loop& innermost_grid(Loop& outermost) { return const_cast<Loop&>(innermost_grid(static_cast<const Loop&>(outermost))); }

bool touches_scratch(const Kernel& kernel, const Stmt& stmt) {
  const auto is_scratch = [&](BufferId id) { return kernel.buffers[id].space == Space::scratch; };
  if (const auto* load = std::get_if<Load>(&stmt.v)) return is_scratch(load->buffer);
  if (const auto* store = std::get_if<Store>(&stmt.v)) return is_scratch(store->buffer);
  const std::vector<const Block*> inside = nested_blocks(stmt);
  return std::any_of(inside.begin(), inside.end(), [&](const Block* block) {
    return std::any_of(block->begin(), block->end(), [&](const Stmt& s) { return touches_scratch(kernel, s); });
  });
}

bool may_alias(const Kernel& kernel, BufferId id) {
  return std::any_of(kernel.may_alias.begin(), kernel.may_alias.end(),
                     [&](const auto& pair) { return pair.first == id || pair.second == id; });
}

RegId add_reg(Kernel& kernel, DType dtype, int width) { return kernel.regs.push_back({dtype, width}); }

void for_each_stmt(const Block& block, const std::function<void(const Stmt&)>& f) { walk(block, f); }
void for_each_stmt(Block& block, const std::function<void(Stmt&)>& f) { walk(block, f); }

std::vector<Block*> nested_blocks(Stmt& stmt) { return nested(stmt); }
std::vector<const Block*> nested_blocks(const Stmt& stmt) { return nested(stmt); }

void for_each_head(Stmt& stmt, const std::function<void(LoopHead&)>& f) { visit_heads(stmt, f); }
void for_each_head(const Stmt& stmt, const std::function<void(const LoopHead&)>& f) { visit_heads(stmt, f); }

void for_each_index(Stmt& stmt, const std::function<void(IndexExpr&)>& f) { visit_exprs(stmt, f); }
void for_each_index(const Stmt& stmt, const std::function<void(const IndexExpr&)>& f) { visit_exprs(stmt, f); }

void for_each_operand(Stmt& stmt, const std::function<void(Operand&)>& f) { visit_operands(stmt, f); }
void for_each_operand(const Stmt& stmt, const std::function<void(const Operand&)>& f) { visit_operands(stmt, f); }

std::vector<RegId> defined(const Stmt& stmt) {
  return std::visit(
      Overloaded{[](const Let& s) { return std::vector{s.dst}; },
                 [](const IndexValue& s) { return std::vector{s.dst}; },
                 [](const Load& s) { return std::vector{s.dst}; }, [](const Reduce& s) { return s.dst; },
                 [](const Scan& s) { return std::vector{s.dst}; }, [](const Shuffle& s) { return std::vector{s.dst}; },
                 [](const Mma& s) { return std::vector{s.dst}; }, [](const Ballot& s) { return std::vector{s.dst}; },
                 [](const auto&) { return std::vector<RegId>(); }},
      stmt.v);
}

int width_of(const Kernel& kernel, const Operand& operand) {
  const RegId* reg = std::get_if<RegId>(&operand);
  return reg != nullptr && kernel.regs.contains(*reg) ? kernel.regs[*reg].width : 1;
}

int width_of(const Kernel& kernel, const Stmt& stmt) {
  if (const auto* store = std::get_if<Store>(&stmt.v)) return width_of(kernel, store->value);
  if (const auto* reduce = std::get_if<Reduce>(&stmt.v)) {
    int width = 1;
    for (const Operand& y : reduce->yield) width = std::max(width, width_of(kernel, y));
    return width;
  }
  const std::vector<RegId> results = defined(stmt);
  return results.empty() ? 1 : width_of(kernel, Operand(results[0]));
}

VarId add_var(Kernel& kernel) { return kernel.vars.push_back("i" + std::to_string(kernel.vars.size())); }

IndexRanges compute_ranges(const std::vector<LoopHead>& loops) {
  IndexRanges ranges;
  for (const LoopHead& loop : loops) ranges[loop.var] = {IndexExpr(0), loop.extent - 1};
  return ranges;
}

IndexRanges compute_ranges(const std::vector<LoopHead>& loops, int width) {
  IndexRanges ranges = compute_ranges(loops);
  ranges[kLane] = {IndexExpr(0), IndexExpr(width - 1)};
  return ranges;
}

namespace {

// x where e is fn(x, number).
std::optional<IndexExpr> other_argument(const IndexExpr& e, IndexExpr::Fn fn, int64_t number) {
  const std::vector<IndexExpr::Term> terms = e.terms();
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].atoms.size() != 1 || terms[0].atoms[0].fn != fn)
    return std::nullopt;
  const std::vector<IndexExpr>& args = terms[0].atoms[0].args;
  return args[0].is(number) ? std::optional(args[1]) : args[1].is(number) ? std::optional(args[0]) : std::nullopt;
}

}  // namespace

LoopCount find_loop_count(const IndexExpr& extent) {
  const IndexExpr count = other_argument(extent, IndexExpr::Fn::max, 0).value_or(extent);
  const std::optional<IndexExpr> inner = other_argument(count, IndexExpr::Fn::min, 1);
  return {inner.value_or(count), inner.has_value()};
}

IndexExpr with_facts(const IndexExpr& e, const Kernel& kernel) {
  if (kernel.divisible.empty()) return e;
  return e.substitute([&](SymbolId symbol) -> std::optional<IndexExpr> {
    const auto extent = symbol.extent();
    const auto fact = extent ? kernel.divisible.find(*extent) : kernel.divisible.end();
    if (fact == kernel.divisible.end() || fact->second <= 1) return std::nullopt;
    return fact->second * IndexExpr::symbol(derived(symbol, 1));
  });
}

std::string name_of(const Kernel& kernel, SymbolId symbol) {
  if (const auto var = symbol.var(); var && kernel.vars.contains(*var)) return kernel.vars[*var];
  if (const auto extent = symbol.extent()) {
    if (kernel.extents.contains(*extent)) return kernel.extents[*extent];
    const ExtentId whole{extent->index % kDerived};  // of with_facts
    if (kernel.extents.contains(whole)) return kernel.extents[whole] + "_part";
  }
  return systematic_name(symbol);
}

Dim named(const Kernel& kernel, const IndexExpr& e) {
  return to_dim(e, [&](SymbolId symbol) { return Dim::symbol(name_of(kernel, symbol)); });
}

}  // namespace fusec::ir
