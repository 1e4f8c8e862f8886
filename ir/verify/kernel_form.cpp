// SPDX-License-Identifier: Apache-2.0
// Checks the form of kernels: declarations, scopes, the symbols of index expressions, and how loops nest.

#include "ir/verify/kernel_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>

#include "ir/kernel/mailbox.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

bool is_number(std::string_view text) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && fault == std::errc() && end == text.data() + text.size() && value > 0;
}

bool is_layout(const std::string& name) {
  if (name.empty() || name == kMailbox) return true;
  constexpr std::string_view kPitch = "pitch ";
  return name.starts_with(kPitch) && is_number(std::string_view(name).substr(kPitch.size()));
}

bool looks_like_register(const std::string& name) {
  return name.size() > 1 && name[0] == 'v' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void FormCheck::run() {
  declarations();
  defined_.resize(k_.regs.size());
  known_regs_.resize(k_.regs.size());
  bool grid = false;
  for (const Stmt& s : k_.body) grid |= is_grid(s);
  for (const Stmt& s : k_.body) {
    const auto* loop = std::get_if<Loop>(&s.v);
    if (lowered_ && loop != nullptr && loop->threads == 0) find(s, "has no threads, but the kernel is lowered");
    if (grid && !is_grid(s) && !std::holds_alternative<Alloc>(s.v)) find(s, "stands beside grid loops");
  }
  block(k_.body);
}

void FormCheck::declarations() {
  std::set<std::string> names(k_.extents.begin(), k_.extents.end());
  if (names.size() != k_.extents.size()) find("an extent is named twice");
  for (const std::string& e : k_.extents) {
    if (e == systematic_name(kLane) || looks_like_register(e)) find(fmt::format("{} is no name for an extent", e));
  }
  for (const auto& [extent, factor] : k_.divisible) {
    if (!k_.extents.contains(extent) || factor < 1)
      find(fmt::format("the fact on {} is of no extent", name_of(k_, extent)));
  }
  for (const BufferId id : k_.params) {
    if (!k_.buffers.contains(id)) return find("a parameter has no buffer");
    const Space space = k_.buffers[id].space;
    if (space != Space::in && space != Space::out)
      find(fmt::format("parameter {} is neither in nor out", k_.buffers[id].name));
    declare(id);
  }
  for (const auto& [in, out] : k_.may_alias) alias(in, out);
}

void FormCheck::declare(BufferId id) {
  const Buffer& b = k_.buffers[id];
  if (!buffers_.insert(id.index).second || !buffer_names_.insert(b.name).second) {
    find(fmt::format("buffer {} is declared twice", b.name));
  }
  scope_.buffers.push_back(id);
  std::set<SymbolId> symbols;
  for (const IndexExpr& d : b.shape) d.collect_symbols(symbols);
  for (const IndexExpr& d : b.strides) d.collect_symbols(symbols);
  for (const SymbolId s : symbols) {
    if (!is_extent(s)) find(fmt::format("{} in the shape of {} is no extent", name_of(k_, s), b.name));
  }
  const bool parameter = b.space == Space::in || b.space == Space::out;
  if (!b.strides.empty() && (!parameter || b.strides.size() != b.shape.size())) {
    find(fmt::format("strides of {} do not fit", b.name));
  }
  if (b.alignment < 0 || (b.alignment > 0 && !std::has_single_bit(static_cast<unsigned>(b.alignment)))) {
    find(fmt::format("the alignment of {} is no power of two", b.name));
  }
  if (!is_layout(b.layout)) find(fmt::format("{} has the unknown layout '{}'", b.name, b.layout));
}

void FormCheck::alias(BufferId in, BufferId out) {
  const bool known = k_.buffers.contains(in) && k_.buffers.contains(out) && k_.buffers[in].space == Space::in &&
                     k_.buffers[out].space == Space::out;
  if (!known) return find("alias takes an in and an out parameter");
  const Buffer &a = k_.buffers[in], &b = k_.buffers[out];
  if (a.dtype != b.dtype || a.shape != b.shape || a.strides != b.strides) {
    find(fmt::format("{} may not alias {}: dtype, shape or strides differ", a.name, b.name));
  }
}

void FormCheck::find(const Stmt& s, std::string_view what) {
  out_.push_back(fmt::format("'{}' {}", print_stmt(k_, s), what));
}

void FormCheck::block(const Block& body) {
  const Scope outer = std::exchange(scope_, {});
  statements(body);
  leave(outer);
}

void FormCheck::statements(const Block& body) {
  for (const Stmt& s : body) stmt(s);
}

void FormCheck::leave(const Scope& outer) {
  for (const RegId r : scope_.regs) defined_[r] = false;
  for (const BufferId b : scope_.buffers) buffers_.erase(b.index);
  scope_ = outer;
}

void FormCheck::stmt(const Stmt& s) {
  std::visit([&](const auto& own) { check(own, s); }, s.v);
}

bool FormCheck::define(RegId r, const Stmt& s) {
  if (!k_.regs.contains(r)) return find(s, "defines a register that is not declared"), false;
  if (known_regs_[r]) return find(s, fmt::format("defines {} a second time", reg_name(r))), false;
  if (k_.regs[r].width < 1) find(s, "has a width below 1");
  known_regs_[r] = defined_[r] = true;
  scope_.regs.push_back(r);
  return true;
}

bool FormCheck::usable(const Operand& o, const Stmt& s) {
  const RegId* r = std::get_if<RegId>(&o);
  if (r == nullptr) return true;
  if (k_.regs.contains(*r) && defined_[*r]) return true;
  find(s, fmt::format("uses {}, which is not defined there", reg_name(*r)));
  return false;
}

DType FormCheck::dtype(const Operand& o) const {
  if (const Constant* c = std::get_if<Constant>(&o)) return c->dtype;
  return k_.regs[std::get<RegId>(o)].dtype;
}

void FormCheck::width(const Operand& o, int width, const Stmt& s) {
  const int own = width_of(k_, o);
  if (own != 1 && own != width) find(s, fmt::format("has an operand of width {} beside width {}", own, width));
}

void FormCheck::dim(const IndexExpr& d, int width, const Stmt& s) {
  std::set<SymbolId> symbols;
  d.collect_symbols(symbols);
  for (const SymbolId id : symbols) symbol(id, width, s);
}

void FormCheck::dims(const std::vector<IndexExpr>& list, int width, const Stmt& s) {
  for (const IndexExpr& d : list) dim(d, width, s);
}

void FormCheck::symbol(SymbolId id, int width, const Stmt& s) {
  if (id == kLane) {
    if (width == 1) find(s, "uses lane, but has width 1");
    return;
  }
  if (id == kThread) {
    if (!lowered_) find(s, "uses t, the number of a thread, but the kernel is not lowered");
    return;
  }
  if (is_extent(id) || (id.var() && loops_.count(*id.var()))) return;
  const std::string name = name_of(k_, id);
  const auto reg = id.reg();
  if (!reg || !k_.regs.contains(*reg) || !defined_[*reg]) {
    return find(s, fmt::format("uses {}, which is no extent, loop variable or register there", name));
  }
  if (!is_int(k_.regs[*reg].dtype)) find(s, fmt::format("has {} in an index, which is no integer", name));
  const int own = k_.regs[*reg].width;
  if (own != 1 && own != width)
    find(s, fmt::format("has {} of width {} in an index, beside width {}", name, own, width));
}

bool FormCheck::known(BufferId b, const Stmt& s) {
  if (k_.buffers.contains(b) && buffers_.count(b.index)) return true;
  find(s, "uses a buffer that is not declared there");
  return false;
}

bool FormCheck::element(BufferId b, const std::vector<IndexExpr>& index, int width, const Stmt& s) {
  if (!known(b, s)) return false;
  const Buffer& buffer = k_.buffers[b];
  dims(index, width, s);
  if (index.size() == buffer.shape.size()) return true;
  find(s, fmt::format("has {} indices for {}, which has {} axes", index.size(), buffer.name, buffer.shape.size()));
  return false;
}

bool FormCheck::is_grid(const Stmt& s) {
  const Loop* loop = std::get_if<Loop>(&s.v);
  return loop != nullptr && loop->head.tag == LoopTag::grid;
}

void FormCheck::enter(const LoopHead& head, const Stmt& s) {
  dim(head.extent, 1, s);
  enter(head.var, s);
  if (head.tag == LoopTag::unroll && !head.extent.is_const()) find(s, "unrolls a loop of unknown extent");
  if (lowered_ && (head.tag == LoopTag::block || head.tag == LoopTag::cluster))
    find(s, fmt::format("has a {} loop, but the kernel is lowered", to_string(head.tag)));
  const bool nested = head.tag != LoopTag::cluster || !inside(LoopTag::block);
  if (!nested) find(s, fmt::format("has {} {} inside of a block loop", to_string(head.tag), name_of(k_, head.var)));
  tags_.push_back(head.tag);
}

void FormCheck::enter(VarId var, const Stmt& s) {
  const std::string name = name_of(k_, var);
  const bool clash = name == systematic_name(kLane) || (lowered_ && name == systematic_name(kThread)) ||
                     looks_like_register(name) || name.empty() ||
                     std::find(k_.extents.begin(), k_.extents.end(), name) != k_.extents.end();
  const bool own = k_.vars.contains(var) && vars_.insert(var).second && var_names_.insert(name).second;
  if (clash || !own) find(s, fmt::format("has the loop variable {}, which is taken", name));
  loops_.insert(var);
}

void FormCheck::exit(const LoopHead& head) {
  loops_.erase(head.var);
  tags_.pop_back();
}

void FormCheck::check(const Loop& loop, const Stmt& s) {
  if (loop.threads != 0 && (loop.head.tag != LoopTag::grid || !tags_.empty()))
    find(s, "has threads, but is no outermost grid loop");
  cluster(loop, s);
  if (loop.tasks) passes_ = &innermost_grid(loop);
  if (loop.head.tag == LoopTag::grid) grid(loop, s);
  if (loop.tasks) tasks(loop, s);
  if (loop.boundary != PhaseBoundary::launches && (loop.head.tag != LoopTag::grid || !tags_.empty())) {
    find(s, "has a boundary, but is no outermost grid loop");
  }
  enter(loop.head, s);
  if (loop.head.tag == LoopTag::grid) grid_loops_.insert(loop.head.var);
  const bool outer = std::exchange(splits_warp_, splits_warp_ || loop.head.extent.uses(kThread));
  block(loop.body);
  splits_warp_ = outer;
  exit(loop.head);
  if (loop.tasks) passes_ = nullptr;
}

void FormCheck::tasks(const Loop& loop, const Stmt& s) {
  if (loop.head.tag != LoopTag::grid || !tags_.empty()) return find(s, "has tasks, but is no outermost grid loop");
  if (loop.cluster != 1) find(s, "has tasks for clusters");
  if (loop.tasks->ahead < 0) find(s, "has tasks that follow what comes after them");
  IndexExpr rows = 1;
  const Loop* at = &loop;
  std::set<SymbolId> around;
  for (;; at = std::get_if<Loop>(&at->body[0].v)) {
    rows *= at->head.extent;
    around.insert(at->head.var);
    if (at == &innermost_grid(loop)) break;
  }
  const bool two = at->body.size() == 2 && is_pass(at->body[0]) && is_pass(at->body[1]);
  if (!two) return find(s, "has tasks, but not two passes of one grid loop");
  const IndexExpr& first = std::get<Loop>(at->body[0].v).head.extent;
  if (!(first == std::get<Loop>(at->body[1].v).head.extent)) find(s, "has passes of different numbers of tasks");
  std::set<SymbolId> used;
  first.collect_symbols(used);
  for (const SymbolId var : around)
    if (used.contains(var)) find(s, "has rows of different numbers of tasks");
  if (!known(loop.tasks->counters, s)) return;
  const Buffer& counters = k_.buffers[loop.tasks->counters];
  const bool fits = counters.space == Space::scratch && counters.dtype == DType::i32 && counters.shape.size() == 1 &&
                    with_facts(counters.shape[0] - 1 - rows, k_).is(0);
  if (!fits) find(s, fmt::format("needs scratch of i32 for one more than its rows, unlike {}", counters.name));
  for_each_stmt(loop.body, [&](const Stmt& inner) {
    const auto* load = std::get_if<Load>(&inner.v);
    const auto* store = std::get_if<Store>(&inner.v);
    if ((load && load->buffer == loop.tasks->counters) || (store && store->buffer == loop.tasks->counters))
      find(inner, "touches the counters of its tasks");
  });
}

bool FormCheck::is_pass(const Stmt& s) {
  const auto* loop = std::get_if<Loop>(&s.v);
  return is_grid(s) && std::none_of(loop->body.begin(), loop->body.end(), is_grid);
}

void FormCheck::cluster(const Loop& loop, const Stmt& s) {
  if (!tags_.empty()) return;
  cluster_ = loop.cluster, threads_ = loop.threads;
  const bool even = loop.cluster == 1 || (loop.cluster > 1 && loop.threads % (32 * loop.cluster) == 0);
  if (!even) find(s, "does not give every block of a cluster as many whole warps");
}

void FormCheck::grid(const Loop& loop, const Stmt& s) {
  const bool outermost = std::all_of(tags_.begin(), tags_.end(), [](LoopTag t) { return t == LoopTag::grid; });
  if (!outermost) find(s, "is a grid loop inside of another loop");
  const bool nests = std::any_of(loop.body.begin(), loop.body.end(), is_grid);
  if (nests && loop.body.size() > 1 && &loop != passes_) find(s, "does not nest grid loops perfectly");
}

}  // namespace fusec::ir
