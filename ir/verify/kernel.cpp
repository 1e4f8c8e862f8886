// SPDX-License-Identifier: Apache-2.0
// Verifies the form of kernels (scopes, dtypes, widths, nesting) and runs the range, phase and race checks on kernels
// of valid form. Only tests and fuzzers call it, on kernels from lower and from text; it changes nothing.

#include "ir/verify/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>

#include "ir/kernel/mailbox.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel_access.h"

namespace fusec::ir {
namespace {

constexpr int64_t kMaxTreeLanes = 1 << 16;

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

// Checks everything except ranges, races and phases.
class FormCheck {
 public:
  FormCheck(const Kernel& kernel, std::vector<std::string>& out)
      : k_(kernel), lowered_(is_lowered(kernel)), out_(out) {}

  void run() {
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

 private:
  // The definitions that go out of scope with the innermost block.
  struct Scope {
    std::vector<RegId> regs;
    std::vector<BufferId> buffers;
  };

  // Declarations.

  void declarations() {
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

  void declare(BufferId id) {
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

  void alias(BufferId in, BufferId out) {
    const bool known = k_.buffers.contains(in) && k_.buffers.contains(out) && k_.buffers[in].space == Space::in &&
                       k_.buffers[out].space == Space::out;
    if (!known) return find("alias takes an in and an out parameter");
    const Buffer &a = k_.buffers[in], &b = k_.buffers[out];
    if (a.dtype != b.dtype || a.shape != b.shape || a.strides != b.strides) {
      find(fmt::format("{} may not alias {}: dtype, shape or strides differ", a.name, b.name));
    }
  }

  // Scopes.

  void find(std::string message) { out_.push_back(std::move(message)); }
  void find(const Stmt& s, std::string_view what) { out_.push_back(fmt::format("'{}' {}", print_stmt(k_, s), what)); }

  void block(const Block& body) {
    const Scope outer = std::exchange(scope_, {});
    statements(body);
    leave(outer);
  }
  void statements(const Block& body) {
    for (const Stmt& s : body) stmt(s);
  }
  void leave(const Scope& outer) {
    for (const RegId r : scope_.regs) defined_[r] = false;
    for (const BufferId b : scope_.buffers) buffers_.erase(b.index);
    scope_ = outer;
  }

  void stmt(const Stmt& s) {
    std::visit([&](const auto& own) { check(own, s); }, s.v);
  }

  bool define(RegId r, const Stmt& s) {
    if (!k_.regs.contains(r)) return find(s, "defines a register that is not declared"), false;
    if (known_regs_[r]) return find(s, fmt::format("defines {} a second time", reg_name(r))), false;
    if (k_.regs[r].width < 1) find(s, "has a width below 1");
    known_regs_[r] = defined_[r] = true;
    scope_.regs.push_back(r);
    return true;
  }

  bool usable(const Operand& o, const Stmt& s) {
    const RegId* r = std::get_if<RegId>(&o);
    if (r == nullptr) return true;
    if (k_.regs.contains(*r) && defined_[*r]) return true;
    find(s, fmt::format("uses {}, which is not defined there", reg_name(*r)));
    return false;
  }

  DType dtype(const Operand& o) const {
    if (const Constant* c = std::get_if<Constant>(&o)) return c->dtype;
    return k_.regs[std::get<RegId>(o)].dtype;
  }

  void width(const Operand& o, int width, const Stmt& s) {
    const int own = width_of(k_, o);
    if (own != 1 && own != width) find(s, fmt::format("has an operand of width {} beside width {}", own, width));
  }

  // Checks the symbols of an index expression: extents, loop variables, lane, integer registers.
  void dim(const IndexExpr& d, int width, const Stmt& s) {
    std::set<SymbolId> symbols;
    d.collect_symbols(symbols);
    for (const SymbolId id : symbols) symbol(id, width, s);
  }
  void dims(const std::vector<IndexExpr>& list, int width, const Stmt& s) {
    for (const IndexExpr& d : list) dim(d, width, s);
  }

  bool is_extent(SymbolId id) const { return id.extent() && k_.extents.contains(*id.extent()); }

  void symbol(SymbolId id, int width, const Stmt& s) {
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

  bool known(BufferId b, const Stmt& s) {
    if (k_.buffers.contains(b) && buffers_.count(b.index)) return true;
    find(s, "uses a buffer that is not declared there");
    return false;
  }

  bool element(BufferId b, const std::vector<IndexExpr>& index, int width, const Stmt& s) {
    if (!known(b, s)) return false;
    const Buffer& buffer = k_.buffers[b];
    dims(index, width, s);
    if (index.size() == buffer.shape.size()) return true;
    find(s, fmt::format("has {} indices for {}, which has {} axes", index.size(), buffer.name, buffer.shape.size()));
    return false;
  }

  // Loops.

  static bool is_grid(const Stmt& s) {
    const Loop* loop = std::get_if<Loop>(&s.v);
    return loop != nullptr && loop->head.tag == LoopTag::grid;
  }

  void enter(const LoopHead& head, const Stmt& s) {
    dim(head.extent, 1, s);
    enter(head.var, s);
    if (head.tag == LoopTag::unroll && !head.extent.is_const()) find(s, "unrolls a loop of unknown extent");
    if (lowered_ && (head.tag == LoopTag::block || head.tag == LoopTag::cluster))
      find(s, fmt::format("has a {} loop, but the kernel is lowered", to_string(head.tag)));
    const bool nested = head.tag != LoopTag::cluster || !inside(LoopTag::block);
    if (!nested) find(s, fmt::format("has {} {} inside of a block loop", to_string(head.tag), name_of(k_, head.var)));
    tags_.push_back(head.tag);
  }
  void enter(VarId var, const Stmt& s) {
    const std::string name = name_of(k_, var);
    const bool clash = name == systematic_name(kLane) || (lowered_ && name == systematic_name(kThread)) ||
                       looks_like_register(name) || name.empty() ||
                       std::find(k_.extents.begin(), k_.extents.end(), name) != k_.extents.end();
    const bool own = k_.vars.contains(var) && vars_.insert(var).second && var_names_.insert(name).second;
    if (clash || !own) find(s, fmt::format("has the loop variable {}, which is taken", name));
    loops_.insert(var);
  }
  void exit(const LoopHead& head) {
    loops_.erase(head.var);
    tags_.pop_back();
  }
  bool inside(LoopTag tag) const { return std::find(tags_.begin(), tags_.end(), tag) != tags_.end(); }

  void check(const Loop& loop, const Stmt& s) {
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

  // What no other loop has, and what lets a launch find the task that follows a number, and the counter of its row.
  void tasks(const Loop& loop, const Stmt& s) {
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
  static bool is_pass(const Stmt& s) {
    const auto* loop = std::get_if<Loop>(&s.v);
    return is_grid(s) && std::none_of(loop->body.begin(), loop->body.end(), is_grid);
  }

  void cluster(const Loop& loop, const Stmt& s) {
    if (!tags_.empty()) return;
    cluster_ = loop.cluster, threads_ = loop.threads;
    const bool even = loop.cluster == 1 || (loop.cluster > 1 && loop.threads % (32 * loop.cluster) == 0);
    if (!even) find(s, "does not give every block of a cluster as many whole warps");
  }

  void grid(const Loop& loop, const Stmt& s) {
    const bool outermost = std::all_of(tags_.begin(), tags_.end(), [](LoopTag t) { return t == LoopTag::grid; });
    if (!outermost) find(s, "is a grid loop inside of another loop");
    const bool nests = std::any_of(loop.body.begin(), loop.body.end(), is_grid);
    if (nests && loop.body.size() > 1 && &loop != passes_) find(s, "does not nest grid loops perfectly");
  }

  // Statements.

  void check(const Alloc& a, const Stmt& s) {
    if (!k_.buffers.contains(a.buffer)) return find(s, "allocates no buffer");
    const Buffer& b = k_.buffers[a.buffer];
    if (b.space == Space::in || b.space == Space::out) find(s, "allocates a parameter");
    if (b.space == Space::scratch && !tags_.empty()) find(s, "allocates scratch inside of a loop");
    const bool spread = cluster_ == 1 || b.space != Space::shared || (!b.shape.empty() && b.shape[0].is(cluster_));
    if (!spread) find(s, "has a first axis that is not the blocks of the cluster");
    declare(a.buffer);
  }

  void check(const Let& let, const Stmt& s) {
    const ScalarOpInfo& op = info(let.op);
    bool good = let.args.size() == static_cast<std::size_t>(op.arity);
    if (!good) find(s, fmt::format("takes {} operands", op.arity));
    for (const Operand& o : let.args) good &= usable(o, s);
    if (define(let.dst, s) && good) typing(let, s);
  }

  void typing(const Let& let, const Stmt& s) {
    const RegInfo& result = k_.regs[let.dst];
    for (const Operand& o : let.args) width(o, result.width, s);
    const bool select = info(let.op).typing == Typing::select;
    if (select && dtype(let.args[0]) != DType::bool_) find(s, "chooses by what is no bool");
    const DType operand = dtype(let.args.back());
    for (std::size_t i = select ? 1 : 0; i < let.args.size(); ++i) {
      if (dtype(let.args[i]) != operand) return find(s, "mixes dtypes");
    }
    if (!accepts(let.op, operand)) find(s, fmt::format("does not take {}", fusec::to_string(operand)));
    if (result_type(let.op, operand, result.dtype) != result.dtype) find(s, "has another result type");
  }

  void check(const IndexValue& v, const Stmt& s) {
    if (define(v.dst, s)) dim(v.value, k_.regs[v.dst].width, s);
  }

  void check(const Load& load, const Stmt& s) {
    const int w = k_.regs.contains(load.dst) ? k_.regs[load.dst].width : 1;
    dims(load.guard, w, s);
    if (!element(load.buffer, load.index, w, s) || !define(load.dst, s)) return;
    const Buffer& b = k_.buffers[load.buffer];
    if (b.space == Space::out) find(s, fmt::format("loads from the out buffer {}", b.name));
    if (b.dtype != k_.regs[load.dst].dtype) find(s, fmt::format("has another dtype than {}", b.name));
    if (!load.guard.empty() && load.otherwise.dtype != b.dtype) find(s, "has an else of another dtype");
    if (load.clamp >> std::min<std::size_t>(31, b.shape.size()) >> (b.shape.size() > 31))
      find(s, "clamps an axis that is not there");
  }

  void check(const Store& store, const Stmt& s) {
    if (!usable(store.value, s)) return;
    const int w = width_of(k_, store.value);
    dims(store.guard, w, s);
    if (!element(store.buffer, store.index, w, s)) return;
    const Buffer& b = k_.buffers[store.buffer];
    if (b.space == Space::in) find(s, fmt::format("stores to the in buffer {}", b.name));
    if (b.dtype != dtype(store.value)) find(s, fmt::format("has another dtype than {}", b.name));
  }

  // The lowered form.

  void check(const If& branch, const Stmt& s) {
    dims(branch.condition, 1, s);
    lowered(s);
    const bool outer =
        std::exchange(splits_warp_, splits_warp_ || std::any_of(branch.condition.begin(), branch.condition.end(),
                                                                [](const IndexExpr& e) { return e.uses(kThread); }));
    block(branch.body);
    splits_warp_ = outer;
  }

  void check(const Choose& c, const Stmt& s) {
    lowered(s);
    if (!c.head.extent.is(static_cast<int64_t>(c.among.size())) || c.head.tag != LoopTag::seq)
      find(s, "has another extent than the number of its buffers");
    if (!k_.buffers.contains(c.buffer)) return find(s, "chooses no buffer");
    for (const BufferId b : c.among) {
      if (!known(b, s)) return;
      Buffer like = k_.buffers[b];
      like.name = k_.buffers[c.buffer].name;
      const bool fits = like.space == Space::in && like == k_.buffers[c.buffer] && !may_alias(k_, b);
      if (!fits)
        find(s, fmt::format("cannot choose {}: it differs, is no in parameter or may alias", k_.buffers[b].name));
    }
    uniform(c.number, s);
    const Scope outer = std::exchange(scope_, {});
    declare(c.buffer);
    enter(c.head, s);
    statements(c.body);
    exit(c.head);
    leave(outer);
  }

  // The value depends on extents and grid loops alone.
  void uniform(const IndexExpr& e, const Stmt& s) {
    dim(e, 1, s);
    std::set<SymbolId> symbols;
    e.collect_symbols(symbols);
    for (const SymbolId id : symbols) {
      if (!is_extent(id) && !(id.var() && grid_loops_.count(*id.var())))
        find(s, fmt::format("depends on {}, which is no extent or grid loop", name_of(k_, id)));
    }
  }

  void lowered(const Stmt& s) {
    if (!lowered_) find(s, "is of the lowered form, which this kernel does not have");
  }

  void mask(const Operand& o, const Stmt& s) {
    if (usable(o, s) && dtype(o) != DType::u32) find(s, "has a mask that is no u32");
  }

  void check(const Shuffle& shuffle, const Stmt& s) {
    lowered(s);
    mask(shuffle.mask, s);
    dim(shuffle.lane, 1, s);
    if (!usable(shuffle.value, s) || !define(shuffle.dst, s)) return;
    width(shuffle.value, k_.regs[shuffle.dst].width, s);
    if (dtype(shuffle.value) != k_.regs[shuffle.dst].dtype) find(s, "has another result type");
  }

  void check(const Ballot& ballot, const Stmt& s) {
    lowered(s);
    mask(ballot.mask, s);
    dims(ballot.condition, 1, s);
    if (define(ballot.dst, s) && k_.regs[ballot.dst] != RegInfo{DType::u32, 1}) find(s, "is no u32");
  }

  void check(const Sync& sync, const Stmt& s) {
    if (!inside(LoopTag::grid)) find(s, "synchronizes threads outside of a grid loop");
    if (sync.scope >= SyncScope::cluster && cluster_ == 1) find(s, "synchronizes a cluster, but there is none");
    mask(sync.mask, s);
  }

  void check(const Prefetch& p, const Stmt& s) { element(p.buffer, p.index, 1, s); }

  void check(const Reduce& r, const Stmt& s) {
    if (lowered_) find(s, "is a reduction, but the kernel is lowered");
    for (const LoopHead& head : r.loops) enter(head, s);
    const Scope outer = std::exchange(scope_, {});
    statements(r.body);
    bool good = true;
    for (const Operand& o : r.yield) good &= usable(o, s);
    const int w = width_of(k_, s);
    dims(r.guard, w, s);
    leave(outer);
    for (std::size_t i = r.loops.size(); i-- > 0;) exit(r.loops[i]);
    for (const RegId d : r.dst) good &= define(d, s);
    if (good) combination(r, w, s);
  }

  void combination(const Reduce& r, int w, const Stmt& s) {
    const auto size = static_cast<std::size_t>(tuple_size(r.combiner));
    if (r.dst.size() != size || r.yield.size() != size) return find(s, fmt::format("combines tuples of {}", size));
    for (std::size_t i = 0; i < size; ++i) {
      width(r.yield[i], w, s);
      const RegInfo& d = k_.regs[r.dst[i]];
      if (dtype(r.yield[i]) != d.dtype) find(s, "yields another dtype than its result");
      if (d.width != 1 && d.width != w) find(s, "has a result that is neither one value nor one per lane");
      if (d.width != k_.regs[r.dst[0]].width) find(s, "has results of different widths");
    }
    combiner(r.combiner, r.dst, s);
    const Tree& t = r.tree;
    const bool balanced = t.lanes == 0 && t.chunk == 0;
    const bool chunked = t.lanes >= 1 && t.lanes <= kMaxTreeLanes && t.chunk >= 0 && t.chunk % t.lanes == 0;
    if (!balanced && !chunked) find(s, "has a tree whose chunk is no multiple of its lanes");
  }

  void combiner(Combiner c, const std::vector<RegId>& dst, const Stmt& s) {
    const DType t = k_.regs[dst[0]].dtype;
    bool good = is_float(t) || is_int(t);
    if (c == Combiner::and_ || c == Combiner::or_) good = t == DType::bool_;
    if (c == Combiner::welford || c == Combiner::max_sum) {
      good = std::all_of(dst.begin(), dst.end(), [&](RegId r) { return is_float(t) && k_.regs[r].dtype == t; });
    } else if (dst.size() == 2) {
      good = good && is_int(k_.regs[dst[1]].dtype);
    }
    if (!good) find(s, fmt::format("cannot combine {} by {}", fusec::to_string(t), to_string(c)));
  }

  void check(const Scan& scan, const Stmt& s) {
    if (lowered_) find(s, "is a scan, but the kernel is lowered");
    enter(scan.loop, s);
    const Scope outer = std::exchange(scope_, {});
    statements(scan.body);
    const bool good = usable(scan.yield, s) & static_cast<int>(define(scan.dst, s));
    if (good) {
      width(scan.yield, k_.regs[scan.dst].width, s);
      if (dtype(scan.yield) != k_.regs[scan.dst].dtype) find(s, "yields another dtype than its result");
      if (tuple_size(scan.combiner) != 1) return find(s, "scans tuples");
      combiner(scan.combiner, {scan.dst}, s);
    }
    statements(scan.then);
    leave(outer);
    exit(scan.loop);
  }

  void check(const TransposeTile& t, const Stmt& s) {
    if (!known(t.dst, s) || !known(t.src, s)) return;
    const Buffer &a = k_.buffers[t.dst], &b = k_.buffers[t.src];
    const bool square = a.shape.size() == 2 && a.shape[0] == a.shape[1] && a.shape == b.shape && a.dtype == b.dtype;
    if (!square || a.space != Space::reg || b.space != Space::reg || t.dst == t.src) {
      find(s, "transposes other than two equal square reg buffers");
    }
  }

  void check(const CopyAsync& c, const Stmt& s) {
    if (!element(c.dst, c.dst_index, 1, s) || !element(c.src, c.src_index, 1, s)) return;
    dims(c.extents, 1, s);
    const Buffer &dst = k_.buffers[c.dst], &src = k_.buffers[c.src];
    if (dst.space != Space::shared || (src.space != Space::in && src.space != Space::scratch)) {
      find(s, "copies other than from global to shared memory");
    }
    if (dst.dtype != src.dtype) find(s, "copies to another dtype");
    if (c.extents.size() > std::min(dst.shape.size(), src.shape.size()))
      find(s, "copies a box of more axes than its buffers");
  }

  void check(const Mma& m, const Stmt& s) {
    if (!element(m.a, m.a_index, 1, s) || !element(m.b, m.b_index, 1, s)) return;
    dim(m.lane, 1, s);
    if (!usable(m.c, s) || !define(m.dst, s)) return;
    width(m.c, k_.regs[m.dst].width, s);
    if (k_.regs[m.dst] != RegInfo{DType::f32, static_cast<int>(kMmaResults)}) find(s, "has results other than f32.4");
    if (m.a_index.size() < 2 || m.b_index.size() < 2) return find(s, "has operands that are no matrices");
    const Buffer &a = k_.buffers[m.a], &b = k_.buffers[m.b];
    if (a.space != Space::shared || b.space != Space::shared || a.dtype != b.dtype || !is_16_bit_float(a.dtype))
      find(s, "multiplies dtypes or spaces that it cannot");
    if (lowered_ && !(m.lane == mod(IndexExpr::symbol(kThread), 32)))
      find(s, "is not run by the thread whose part it computes");
    if (lowered_ && splits_warp_) find(s, "is not run by all threads of a warp");
  }

  void check(const TileProduct& p, const Stmt& s) {
    if (!element(p.a, p.a_index, 1, s) || !element(p.b, p.b_index, 1, s)) return;
    dims({p.a_pitch, p.b_pitch, p.rows, p.columns, p.terms, p.thread}, 1, s);
    dims(p.sums_index, 1, s);
    if (!known(p.sums, s)) return;
    const Buffer &sums = k_.buffers[p.sums], &a = k_.buffers[p.a], &b = k_.buffers[p.b];
    const std::size_t axes = p.sums_index.size();
    if (sums.space != Space::reg || sums.dtype != DType::f32 || sums.shape.size() != axes + 3)
      return find(s, "has sums that are no tile of f32 in registers");
    const IndexExpr &rows = sums.shape[axes], &groups = sums.shape[axes + 1];
    const bool fits = rows.is_const() && groups.is_const() && rows.value() >= 1 && rows.value() <= 2 &&
                      groups.value() >= 1 && groups.value() <= kMaxTileColumns / kTileColumns;
    if (!fits || !sums.shape[axes + 2].is(4)) find(s, "has sums of a shape that no tile has");
    if (a.space != Space::in || b.space != Space::in || a.dtype != b.dtype || !is_16_bit_float(a.dtype))
      find(s, "multiplies dtypes or spaces that it cannot");
    std::set<SymbolId> symbols;
    for_each_index(s, [&](const IndexExpr& e) {
      if (&e != &p.thread) e.collect_symbols(symbols);
    });
    const bool differs =
        std::any_of(symbols.begin(), symbols.end(), [](SymbolId of) { return of == kThread || of.reg().has_value(); });
    if (lowered_ && (differs || threads_ != kTileThreads || cluster_ != 1 || splits_warp_ || !is_beside_grids()))
      find(s, fmt::format("is not run by all {} threads of a block alike", kTileThreads));
    if (lowered_ && !(p.thread == IndexExpr::symbol(kThread)))
      find(s, "is not run by the thread whose part it computes");
    if (has_odd_start(p)) find(s, fmt::format("reads what does not begin at a multiple of {} elements", kTileLanes));
  }

  // Whether the statement stands in no loop that is not a grid.
  bool is_beside_grids() const {
    return std::all_of(tags_.begin(), tags_.end(), [](LoopTag tag) { return tag == LoopTag::grid; });
  }
  // Whether an access of 16 bytes could begin between its multiples.
  bool has_odd_start(const TileProduct& p) const {
    const auto is_odd = [&](const IndexExpr& e) { return with_facts(e, k_).known_divisor() % kTileLanes != 0; };
    const auto is_unaligned = [&](BufferId b) { return k_.buffers[b].alignment % (2 * kTileLanes) != 0; };
    return is_odd(p.a_index.back()) || is_odd(p.b_index.back()) || is_odd(p.a_pitch) || is_odd(p.b_pitch) ||
           is_odd(p.terms) || is_unaligned(p.a) || is_unaligned(p.b) || k_.buffers[p.a].alignment == 0 ||
           k_.buffers[p.b].alignment == 0;
  }

  const Kernel& k_;
  const bool lowered_;
  std::vector<std::string>& out_;
  std::set<uint32_t> buffers_;  // declared so far
  std::set<std::string> buffer_names_, var_names_;
  std::set<VarId> vars_, loops_, grid_loops_;   // seen so far; of the enclosing loops; of grid loops
  IdVector<RegId, char> defined_, known_regs_;  // in scope; ever defined
  Scope scope_;
  std::vector<LoopTag> tags_;     // tags of the enclosing loops
  bool splits_warp_ = false;      // a condition or an extent differs between the threads of a warp
  int cluster_ = 1;               // the blocks of a cluster of the outermost loop
  int threads_ = 0;               // of a block, or of a cluster, of the outermost loop of the lowered form
  const Loop* passes_ = nullptr;  // around the passes of the outermost loop with tasks
};

}  // namespace

std::vector<std::string> findings(const Kernel& kernel) {
  std::vector<std::string> out;
  try {
    FormCheck(kernel, out).run();
    if (!out.empty()) return out;
    const AccessTable table = collect_accesses(kernel);
    check_ranges(kernel, table, out);
    check_phases(kernel, table, out);
    check_races(kernel, table, out);
  } catch (const DimOverflow& e) {
    out.push_back(e.what());
  }
  return out;
}

Status verify(const Kernel& kernel) {
  const std::vector<std::string> all = findings(kernel);
  if (all.empty()) return {};
  Status status(StatusCode::internal, fmt::format("kernel {}: {}", kernel.name, all[0]));
  for (std::size_t i = 1; i < all.size(); ++i) status = std::move(status).with_note(all[i]);
  return status;
}

}  // namespace fusec::ir
