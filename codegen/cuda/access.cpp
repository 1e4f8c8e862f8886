// SPDX-License-Identifier: Apache-2.0
// Writes loads, stores, guards and index values as CUDA C++. Contiguous aligned accesses become vector accesses of up
// to 16 bytes; all others go lane by lane.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "codegen/cuda/writer.h"
#include "codegen/kernel/layout.h"
#include "ir/kernel/mailbox.h"

namespace fusec::codegen::cuda {
namespace {

constexpr int64_t kSharedAlignment = 16;  // alignment of every shared array

// One load or store. Axes whose position is known only at run time (clamped ones) appear in `linear` as
// symbols, which `before` declares.
struct Access {
  ir::BufferId buffer;
  const ir::Buffer* info;
  int width;
  std::optional<IndexExpr> block;  // of the cluster, whose memory holds the element
  IndexExpr linear;
  LaneForm form;
  std::vector<std::string> before;
  bool before_varies = false;         // the declarations differ from lane to lane
  std::vector<IndexExpr> nonempty;    // expressions that must be >= 0 for a clamp to have a result (extent - 1)
  std::vector<ir::SymbolId> symbols;  // to unbind afterwards

  bool contiguous() const { return !before_varies && form.step == 1; }
};

// Returns a new symbol for the value of `text`, which lies in 0 .. extent-1.
IndexExpr named(Writer& w, Access& a, const std::string& text, const IndexExpr& extent) {
  const ir::SymbolId symbol{ir::SymbolKind::local, static_cast<uint32_t>(w.clamps++)};
  const std::string name = systematic_name(symbol);
  a.before.push_back("const " + w.index.type() + " " + name + " = " + text + ";");
  w.index.bind(symbol, name, {IndexExpr(0), extent - 1});
  a.symbols.push_back(symbol);
  return IndexExpr::symbol(symbol);
}

IndexExpr clamped_axis(Writer& w, Access& a, const IndexExpr& index, const IndexExpr& extent) {
  const IndexExpr i = w.index.resolve(index), n = w.index.resolve(extent);
  a.before_varies |= w.index.lane_form(i).varies();
  if (!w.index.proves_nonneg(n - 1)) a.nonempty.push_back(n - 1);
  const std::string call = w.prelude.use("clamped") + "(" + w.index.text(i) + ", " + w.index.text(n) + ", status)";
  return named(w, a, (w.kernel.fits32 ? "(int)" : "") + call, n);
}

Access make_access(Writer& w, ir::BufferId id, const std::vector<IndexExpr>& index, uint32_t clamp, int width) {
  Access a{id, &w.kernel.buffers[id], width, {}, {}, {}, {}, false, {}, {}};
  const ir::IndexShape strides = compute_strides(*a.info);
  const bool spread = w.cluster > 1 && a.info->space == ir::Space::shared;
  const IndexExpr own = w.index.resolve(floordiv(IndexExpr::symbol(ir::kThread), w.threads));
  if (spread && (ir::is_mailbox(*a.info) || w.index.resolve(index[0]) != own)) a.block = w.index.resolve(index[0]);
  for (std::size_t i = spread ? 1 : 0; i < strides.size(); ++i) {
    IndexExpr at = w.index.resolve(index[i]);
    if (clamp >> i & 1) at = clamped_axis(w, a, index[i], a.info->shape[i]);
    a.linear += at * strides[i];
  }
  a.linear = w.index.resolve(a.linear);
  a.form = w.index.lane_form(a.linear);
  return a;
}

void forget(Writer& w, const Access& a) {
  for (const ir::SymbolId symbol : a.symbols) w.index.unbind(symbol);
}

bool is_constant(const Writer& w, const Access& a) {
  return a.info->space == ir::Space::in && std::none_of(w.kernel.may_alias.begin(), w.kernel.may_alias.end(),
                                                        [&](const auto& pair) { return pair.first == a.buffer; });
}

// Size of the pieces of a vector access: a power of two, at most 16 bytes, that divides the vector and the address.
int64_t piece_bytes(Writer& w, const Access& a) {
  const auto element = static_cast<int64_t>(size_of(a.info->dtype));
  if (a.info->space == ir::Space::reg || !a.contiguous() || a.width == 1) return element;
  const int64_t base = a.info->space == ir::Space::shared ? kSharedAlignment : a.info->alignment;
  int64_t bytes = 16;
  for (const int64_t of : {std::max(base, element), w.index.divisor(a.form.base) * element, a.width * element}) {
    while (of % bytes != 0) bytes /= 2;
  }
  return bytes;
}

std::string piece_type(int64_t bytes) {
  return bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : bytes == 4 ? "u32" : "u16";
}

std::string element_at(Writer& w, const Access& a) {
  const std::string name = buffer_name(w, a.buffer), index = w.index.text(a.linear);
  if (is_constant(w, a)) return "__ldg(" + name + " + " + operand(index) + ")";
  if (a.block)
    return fmt::format("*{}({} + {}, {})", w.prelude.use("in_block"), name, operand(index), w.index.text(*a.block));
  return name + "[" + index + "]";
}

// The part of an index that is a constant in each iteration of the loops that the compiler unrolls.
IndexExpr unrolled_part(const Writer& w, const IndexExpr& e) {
  if (e.is_const()) return e;
  IndexExpr part = 0;
  for (const IndexExpr::Term& term : e.terms()) {
    const IndexExpr own = IndexExpr::from_terms({term});
    std::set<ir::SymbolId> symbols;
    own.collect_symbols(symbols);
    if (std::includes(w.unrolled.begin(), w.unrolled.end(), symbols.begin(), symbols.end())) part += own;
  }
  return part;
}

// Beside a tile's sums there are no registers for many addresses. A constant apart from the rest of the index becomes a
// part of the instruction: sums of 32 bits, which might wrap, would hide it from the compiler.
std::string format_address(Writer& w, const Access& a) {
  const IndexExpr part = w.spares_addresses ? unrolled_part(w, a.form.base) : IndexExpr(0), rest = a.form.base - part;
  const std::string address = buffer_name(w, a.buffer) + " + " + operand(w.index.text(rest));
  if (a.block) return fmt::format("{}({}, {})", w.prelude.use("in_block"), address, w.index.text(*a.block));
  return part.is(0) ? address : address + " + " + operand(w.index.text(part));
}

// Guards.

// A guard without the terms that always hold: terms that are equal for all lanes, and the rest.
struct Condition {
  bool never = false;
  std::vector<IndexExpr> uniform, lanes;
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Tests base + step*lane >= 0, where every term of base but its constant is a multiple of g. That is base/g + floor((c
// + step*lane) / g) >= 0. The lanes agree if the floor is equal for all of them; then lane 0 answers for all.
bool lanes_agree(const Index& index, const LaneForm& form, int width) {
  if (!form.step) return false;
  int64_t constant = 0;
  if (!form.base.is_const() && form.base.terms().front().atoms.empty())
    constant = form.base.terms().front().coefficient;
  const int64_t g = form.base.is_const() ? 0 : index.divisor(form.base - constant);
  return g > 0 && floor_div(constant, g) == floor_div(constant + *form.step * (width - 1), g);
}

Condition make_condition(Writer& w, const ir::Guard& guard, int width) {
  Condition out;
  for (const IndexExpr& term : guard) {
    const IndexExpr d = w.index.resolve(term);
    if (d.is_const()) {
      out.never |= d.value() < 0;
    } else if (!w.index.proves_nonneg(d)) {
      const LaneForm form = w.index.lane_form(d);
      if (!form.varies() || lanes_agree(w.index, form, width))
        out.uniform.push_back(form.base);
      else
        out.lanes.push_back(d);
    }
  }
  return out;
}

std::string all_hold(Writer& w, const std::vector<IndexExpr>& terms, std::vector<std::string> more = {}) {
  for (const IndexExpr& d : terms) more.push_back(w.index.text(d) + " >= 0");
  return joined(more, " && ");
}

// Rewrites the guards of all lanes as conditions without `lane`; false if that is not possible.
bool in_all_lanes(Writer& w, const Condition& c, int width, std::vector<IndexExpr>& out) {
  out = c.uniform;
  for (const IndexExpr& d : c.lanes) {
    const LaneForm form = w.index.lane_form(d);
    if (!form.step) return false;
    out.push_back(form.base + std::min<int64_t>(0, *form.step * (width - 1)));
  }
  return true;
}

std::string both(const std::string& a, const std::string& b) { return a.empty() ? b : b.empty() ? a : a + " && " + b; }

// Loads.

std::string from_memory(const Access& a, const std::string& v) {
  return a.info->dtype == DType::bool_ && a.info->space != ir::Space::reg ? v + " != 0" : v;
}

std::string load_pieces(Writer& w, const Access& a, const std::string& to) {
  const bool shared = a.info->space == ir::Space::shared && !a.block;
  const std::string function = w.prelude.use(shared              ? "load_shared"
                                             : is_constant(w, a) ? "load_constant"
                                                                 : "load_vector");
  return fmt::format("{}<{}>({}, {});", function, piece_type(piece_bytes(w, a)), to, format_address(w, a));
}

std::string load_pieces_or_zero(Writer& w, const Access& a, const std::string& to, const std::string& condition) {
  const std::string function = w.prelude.use(is_constant(w, a) ? "load_constant_or_zero" : "load_vector_or_zero");
  return fmt::format("{}<{}>({}, {}, {});", function, piece_type(piece_bytes(w, a)), to, format_address(w, a),
                     condition);
}

// The same for other values, of types that memory holds as registers do.
std::string load_pieces_or(Writer& w, const Access& a, const std::string& to, const std::string& condition,
                           const ir::Constant& otherwise) {
  const std::string function = w.prelude.use(is_constant(w, a) ? "load_constant_or" : "load_vector_or");
  return fmt::format("{}<{}>({}, {}, {}, ({}){});", function, piece_type(piece_bytes(w, a)), to, format_address(w, a),
                     condition, memory_type(otherwise.dtype), literal(otherwise));
}

std::string guarded_value(const std::string& condition, const std::string& value, const std::string& otherwise) {
  return condition.empty() ? value : condition + " ? " + operand(value) + " : " + operand(otherwise);
}

// A load that needs declarations first. They go into a block of their own, once per lane if they differ by lane.
void load_with_declarations(Writer& w, const Access& a, const ir::Load& load, const Condition& c) {
  const std::string name = ir::reg_name(load.dst), otherwise = literal(load.otherwise);
  const std::string lane = at_lane(name, a.width);
  declare(w, load.dst);
  std::vector<IndexExpr> conditions = c.uniform;
  conditions.insert(conditions.end(), c.lanes.begin(), c.lanes.end());
  const bool vector = piece_bytes(w, a) > static_cast<int64_t>(size_of(a.info->dtype)) && c.lanes.empty();
  const bool each_lane = !vector && a.width > 1;
  if (each_lane) w.out.open(for_lanes(w, a.width));
  std::string guard = all_hold(w, conditions);
  if (!a.nonempty.empty()) {
    const std::string empty = "!(" + all_hold(w, a.nonempty) + ")";
    w.out.line("if (" + both(guard, empty) + ") *status = 1;");
    guard = both(guard, all_hold(w, a.nonempty));
  }
  const bool block = !guard.empty() || !each_lane;
  if (block) w.out.open(guard.empty() ? "" : "if (" + guard + ")");
  for (const std::string& line : a.before) w.out.line(line);
  w.out.line(vector ? load_pieces(w, a, name) : lane + " = " + from_memory(a, element_at(w, a)) + ";");
  if (block) w.out.close();
  if (!guard.empty()) w.out.line("else " + (vector ? for_lanes(w, a.width) : "") + lane + " = " + otherwise + ";");
  if (each_lane) w.out.close();
}

void load_vector(Writer& w, const Access& a, const ir::Load& load, const Condition& c) {
  const std::string name = ir::reg_name(load.dst), otherwise = literal(load.otherwise);
  declare(w, load.dst);
  std::vector<IndexExpr> all;
  in_all_lanes(w, c, a.width, all);
  if (all.empty()) return w.out.line(load_pieces(w, a, name));
  if (c.lanes.empty() && load.otherwise == ir::Constant{load.otherwise.dtype} && load.otherwise.dtype != DType::bool_) {
    return w.out.line(load_pieces_or_zero(w, a, name, all_hold(w, all)));
  }
  if (c.lanes.empty() && is_float(load.otherwise.dtype))
    return w.out.line(load_pieces_or(w, a, name, all_hold(w, all), load.otherwise));
  w.out.line("if (" + all_hold(w, all) + ") " + load_pieces(w, a, name));
  std::vector<IndexExpr> each = c.uniform;
  each.insert(each.end(), c.lanes.begin(), c.lanes.end());
  const std::string rest =
      c.lanes.empty() ? otherwise : guarded_value(all_hold(w, each), from_memory(a, element_at(w, a)), otherwise);
  w.out.line("else " + for_lanes(w, a.width) + name + "[lane] = " + rest + ";");
}

void check_declared(const Writer& w, ir::BufferId id) {
  if (w.kernel.buffers[id].space != ir::Space::shared) return;
  const std::string name = buffer_name(w, id);
  const bool found =
      std::any_of(w.shared.begin(), w.shared.end(), [&](const SharedBuffer& s) { return s.name == name; });
  if (!found) throw UnsupportedKernel("'" + w.kernel.buffers[id].name + "' is not declared inside of the grid");
}

// Stores.

void store_with_declarations(Writer& w, const Access& a, const std::string& guard, const std::string& value) {
  w.out.open(for_lanes(w, a.width) + (guard.empty() ? "" : "if (" + guard + ")"));
  for (const std::string& line : a.before) w.out.line(line);
  w.out.line(element_at(w, a) + " = " + value + ";");
  w.out.close();
}

std::string wide_name(const ir::Store& store) { return ir::reg_name(std::get<ir::RegId>(store.value)); }

void store_vector(Writer& w, const Access& a, const ir::Store& store, const Condition& c) {
  std::vector<IndexExpr> all;
  in_all_lanes(w, c, a.width, all);
  const std::string whole = fmt::format("{}<{}>({}, {});", w.prelude.use("store_vector"), piece_type(piece_bytes(w, a)),
                                        format_address(w, a), wide_name(store));
  const std::string condition = all_hold(w, all);
  const std::string lane_by_lane = element_at(w, a) + " = " + raw_operand(w, store.value) + ";";
  if (!a.before.empty()) {
    w.out.open("");
    for (const std::string& line : a.before) w.out.line(line);
  }
  w.out.line((condition.empty() ? "" : "if (" + condition + ") ") + whole);
  if (!c.lanes.empty()) {
    std::vector<IndexExpr> each = c.uniform;
    each.insert(each.end(), c.lanes.begin(), c.lanes.end());
    w.out.line("else " + for_lanes(w, a.width) + "if (" + all_hold(w, each) + ") " + lane_by_lane);
  }
  if (!a.before.empty()) w.out.close();
}

void store_access(Writer& w, const Access& a, const ir::Store& store, const Condition& c) {
  std::vector<IndexExpr> unused;
  const bool wide =
      piece_bytes(w, a) > static_cast<int64_t>(size_of(a.info->dtype)) && in_all_lanes(w, c, a.width, unused);
  if (wide) return store_vector(w, a, store, c);
  std::vector<IndexExpr> each = c.uniform;
  each.insert(each.end(), c.lanes.begin(), c.lanes.end());
  const std::string guard = all_hold(w, each), value = raw_operand(w, store.value);
  if (!a.before.empty()) return store_with_declarations(w, a, guard, value);
  w.out.line(for_lanes(w, a.width) + (guard.empty() ? "" : "if (" + guard + ") ") + element_at(w, a) + " = " + value +
             ";");
}

// A scalar, to another block.
void store_mail(Writer& w, Access a, const ir::Store& store) {
  const std::string block = w.index.text(*std::exchange(a.block, std::nullopt));
  w.out.line(fmt::format("{}({}, {}, {}, {});", w.prelude.use("mail"), format_address(w, a),
                         raw_operand(w, store.value), mailbox_name(a.buffer), block));
}

}  // namespace

std::string guard_text(Writer& w, const ir::Guard& guard, int width) {
  const Condition c = make_condition(w, guard, width);
  if (c.never) return "false";
  std::vector<IndexExpr> each = c.uniform;
  each.insert(each.end(), c.lanes.begin(), c.lanes.end());
  return all_hold(w, each);
}

void write_load(Writer& w, const ir::Load& load) {
  const int width = w.kernel.regs[load.dst].width;
  const LaneScope scope(w.index, width);
  check_declared(w, load.buffer);
  const Condition c = make_condition(w, load.guard, width);
  if (c.never) return define(w, load.dst, literal(load.otherwise));
  Access a = make_access(w, load.buffer, load.index, load.clamp, width);
  w.accesses_memory |= a.info->space != ir::Space::reg;
  if (ir::is_mailbox(*a.info)) {
    w.out.line(fmt::format("{}({});", w.prelude.use("await_mail"), mailbox_name(load.buffer)));
    a.block.reset();
  }
  std::vector<IndexExpr> each = c.uniform, unused;
  each.insert(each.end(), c.lanes.begin(), c.lanes.end());
  if (!a.before.empty()) {
    load_with_declarations(w, a, load, c);
  } else if (piece_bytes(w, a) > static_cast<int64_t>(size_of(a.info->dtype)) && in_all_lanes(w, c, width, unused)) {
    load_vector(w, a, load, c);
  } else {
    define(w, load.dst, guarded_value(all_hold(w, each), from_memory(a, element_at(w, a)), literal(load.otherwise)));
  }
  forget(w, a);
}

void write_store(Writer& w, const ir::Store& store) {
  const int width = ir::width_of(w.kernel, store.value);
  const LaneScope scope(w.index, width);
  check_declared(w, store.buffer);
  const Condition c = make_condition(w, store.guard, width);
  if (c.never) return;
  const Access a = make_access(w, store.buffer, store.index, 0, width);
  w.accesses_memory |= a.info->space != ir::Space::reg;
  if (ir::is_mailbox(*a.info)) {
    store_mail(w, a, store);
  } else {
    store_access(w, a, store, c);
  }
  forget(w, a);
}

void write_prefetch(Writer& w, const ir::Prefetch& prefetch) {
  const LaneScope scope(w.index, 1);
  const Access a = make_access(w, prefetch.buffer, prefetch.index, 0, 1);
  w.out.line(fmt::format("{}({});", w.prelude.use("prefetch_line"), format_address(w, a)));
  forget(w, a);
}

void write_copy(Writer& w, const ir::CopyAsync& copy) {
  const int64_t bytes = ir::copied_bytes(w.kernel, copy);
  if (w.target.sm < ir::kCopyAsyncSm || bytes == 0) throw UnsupportedKernel("no such copies on " + w.target.name);
  const LaneScope scope(w.index, 1);
  check_declared(w, copy.dst);
  const Access to = make_access(w, copy.dst, copy.dst_index, 0, 1),
               from = make_access(w, copy.src, copy.src_index, 0, 1);
  w.accesses_memory = true;
  const std::string condition = guard_text(w, copy.guard, 1);
  w.out.line(fmt::format("{}<{}>({}, {}, {});", w.prelude.use("copy_async"), bytes, format_address(w, to),
                         format_address(w, from), condition.empty() ? "true" : condition));
  forget(w, to), forget(w, from);
}

void write_index_value(Writer& w, const ir::IndexValue& stmt) {
  const ir::RegInfo& info = w.kernel.regs[stmt.dst];
  const LaneScope scope(w.index, info.width);
  const IndexExpr value = w.index.resolve(stmt.value);
  define(w, stmt.dst, convert(w.prelude, DType::i64, info.dtype, "(i64)" + operand(w.index.wide_text(value))));
}

}  // namespace fusec::codegen::cuda
