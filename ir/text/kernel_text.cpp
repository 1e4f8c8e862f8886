// SPDX-License-Identifier: Apache-2.0
// Prints kernels as text, for dumps, tests, packages and cache keys. It must print invalid kernels too, because verify
// quotes their statements.

#include "ir/text/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/ops/cast.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

std::string constant_text(const Constant& c, DType implied) {
  char bytes[8] = {};
  if (is_float(c.dtype)) {
    store_double(c.dtype, bytes, c.f);
  } else {
    store_int(c.dtype, bytes, c.i);
  }
  const std::string text = literal(c.dtype, bytes);
  return c.dtype == implied ? text : fmt::format("{} {}", to_string(c.dtype), text);
}

template <class Names, class MakeId>
bool are_systematic(const Names& names, const MakeId& id) {
  uint32_t i = 0;
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == systematic_name(id(i++)); });
}

bool has_systematic_names(const Kernel& kernel) {
  return are_systematic(kernel.extents, [](uint32_t i) { return ExtentId{i}; }) &&
         are_systematic(kernel.vars, [](uint32_t i) { return VarId{i}; });
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel, std::map<const Stmt*, int>* lines = nullptr)
      : k_(kernel), systematic_(has_systematic_names(kernel)), lines_(lines) {}

  std::string kernel() {
    out_ =
        fmt::format("kernel {}({}){} {{\n", sigil_name('@', k_.name),
                    listed(k_.params, [&](BufferId b) { return "%" + buffer(b) + ": " + declaration(b); }), clauses());
    block(k_.body, 1);
    return out_ + "}\n";
  }

  // One statement without indentation and nested blocks.
  std::string head(const Stmt& stmt) const {
    return std::visit([&](const auto& s) { return text(s); }, stmt.v);
  }

 private:
  std::string buffer(BufferId b) const {
    return k_.buffers.contains(b) ? k_.buffers[b].name : fmt::format("?{}", b.index);
  }

  std::string declaration(BufferId id) const {
    if (!k_.buffers.contains(id)) return "?";
    const Buffer& b = k_.buffers[id];
    std::string out = fmt::format("{} {}{}", to_string(b.space), fusec::to_string(b.dtype), shape(b.shape));
    if (!b.strides.empty()) out += fmt::format(" strides {}", shape(b.strides));
    if (b.alignment != 0) out += fmt::format(" align {}", b.alignment);
    if (!b.layout.empty()) out += " layout " + quote(b.layout);
    return out;
  }

  std::string clauses() const {
    std::string out;
    const std::vector<std::string> implied = implied_extents(k_);
    if (!std::equal(k_.extents.begin(), k_.extents.end(), implied.begin(), implied.end())) {
      out += fmt::format(" extents({})", listed(k_.extents, [](const std::string& e) { return e; }));
    }
    std::vector<std::string> facts;
    for (const auto& [extent, factor] : k_.divisible) {
      facts.push_back(fmt::format("{} % {} == 0", name_of(k_, extent), factor));
    }
    std::sort(facts.begin(), facts.end());
    if (k_.fits32) facts.push_back("fits32");
    if (!facts.empty()) out += fmt::format(" facts({})", listed(facts, [](const std::string& f) { return f; }));
    for (const auto& [in, alias] : k_.may_alias) out += fmt::format(" alias({}, {})", buffer(in), buffer(alias));
    return out;
  }

  void block(const Block& body, int depth) {
    for (const Stmt& s : body) stmt(s, depth);
  }

  void stmt(const Stmt& s, int depth) {
    const std::string indent(2 * static_cast<std::size_t>(depth), ' ');
    if (lines_ != nullptr) lines_->emplace(&s, next_line());
    out_ += indent + head(s);
    const std::vector<const Block*> blocks = nested_blocks(s);
    if (blocks.empty()) {
      out_ += '\n';
      return;
    }
    out_ += " {\n";
    block(*blocks[0], depth + 1);
    if (const auto* reduce = std::get_if<Reduce>(&s.v)) {
      out_ += fmt::format("{}  yield {}{}\n", indent, yields(reduce->dst, reduce->yield), guard(reduce->guard));
    }
    if (const auto* scan = std::get_if<Scan>(&s.v)) {
      out_ += fmt::format("{}  yield {}\n{}}} then {{\n", indent, yields({scan->dst}, {scan->yield}), indent);
      block(scan->then, depth + 1);
    }
    out_ += indent + "}\n";
  }

  // Of what is printed next.
  int next_line() {
    line_ += static_cast<int>(std::count(out_.begin() + counted_, out_.end(), '\n'));
    counted_ = static_cast<std::ptrdiff_t>(out_.size());
    return line_;
  }

  std::string yields(const std::vector<RegId>& dst, const std::vector<Operand>& yield) const {
    std::string out;
    for (std::size_t i = 0; i < yield.size(); ++i) {
      out += (i ? ", " : "") + operand(yield[i], i < dst.size() ? dtype(dst[i]) : DType::f32);
    }
    return out;
  }

  DType dtype(RegId r) const { return k_.regs.contains(r) ? k_.regs[r].dtype : DType::f32; }

  std::string definition(RegId r) const {
    const int width = k_.regs.contains(r) ? k_.regs[r].width : 1;
    return fmt::format("{}: {}{}", reg_name(r), fusec::to_string(dtype(r)),
                       width == 1 ? "" : fmt::format(".{}", width));
  }

  std::string operand(const Operand& o, DType implied) const {
    if (const RegId* r = std::get_if<RegId>(&o)) return reg_name(*r);
    return constant_text(std::get<Constant>(o), implied);
  }

  std::string index(const IndexExpr& e) const { return systematic_ ? e.str() : named(k_, e).str(); }
  std::string indices(const std::vector<IndexExpr>& list) const {
    return listed(list, [&](const IndexExpr& e) { return index(e); });
  }
  std::string shape(const IndexShape& list) const { return "[" + indices(list) + "]"; }
  std::string guard(const Guard& g) const { return g.empty() ? "" : fmt::format(" guard({})", indices(g)); }
  std::string loop(const LoopHead& h) const {
    return fmt::format("{} {} in {}", to_string(h.tag), name_of(k_, h.var), index(h.extent));
  }
  std::string element(BufferId b, const std::vector<IndexExpr>& at) const {
    return fmt::format("{}[{}]", buffer(b), indices(at));
  }

  std::string text(const Loop& s) const {
    const bool says = s.boundary != PhaseBoundary::launches;
    return loop(s.head) + (s.threads > 0 ? fmt::format(" threads({})", s.threads) : "") +
           (s.cluster > 1 ? fmt::format(" cluster({})", s.cluster) : "") +
           (s.tasks ? fmt::format(" tasks({}, {})", buffer(s.tasks->counters), s.tasks->ahead) : "") +
           (says ? fmt::format(" boundary {}", to_string(s.boundary)) : "");
  }
  std::string text(const If& s) const { return fmt::format("if ({})", indices(s.condition)); }
  std::string text(const Choose& s) const {
    return fmt::format("choose {} of {} by {} in {} at {}", buffer(s.buffer),
                       listed(s.among, [&](BufferId b) { return buffer(b); }), name_of(k_, s.head.var),
                       index(s.head.extent), index(s.number));
  }
  std::string text(const Alloc& s) const {
    return fmt::format("alloc {}: {}", buffer(s.buffer), declaration(s.buffer));
  }
  std::string text(const Let& s) const {
    std::string args;
    for (std::size_t i = 0; i < s.args.size(); ++i) {
      args += (i ? ", " : " ") + operand(s.args[i], implied_dtype(k_, s, i));
    }
    return fmt::format("{} = {}{}", definition(s.dst), info(s.op).name, args);
  }
  std::string text(const IndexValue& s) const {
    return fmt::format("{} = index {}", definition(s.dst), index(s.value));
  }
  std::string text(const Load& s) const {
    std::string out = fmt::format("{} = load {}", definition(s.dst), element(s.buffer, s.index));
    if (s.clamp != 0) {
      std::vector<int> axes;
      for (int a = 0; a < 32; ++a) {
        if (s.clamp >> a & 1) axes.push_back(a);
      }
      out += fmt::format(" clamp({})", listed(axes, [](int a) { return std::to_string(a); }));
    }
    if (s.guard.empty()) return out;
    return out + guard(s.guard) + " else " + constant_text(s.otherwise, dtype(s.dst));
  }
  std::string text(const Store& s) const {
    const DType element_type = k_.buffers.contains(s.buffer) ? k_.buffers[s.buffer].dtype : DType::f32;
    return fmt::format("store{} {}, {}{}", s.hint == StoreHint::stream ? ".stream" : "", element(s.buffer, s.index),
                       operand(s.value, element_type), guard(s.guard));
  }
  std::string text(const Prefetch& s) const { return "prefetch " + element(s.buffer, s.index); }
  std::string text(const Reduce& s) const {
    return fmt::format("{} = reduce.{} tree({}, {}){}{}", listed(s.dst, [&](RegId r) { return definition(r); }),
                       to_string(s.combiner), s.tree.lanes, s.tree.chunk, s.loops.empty() ? "" : " ",
                       listed(s.loops, [&](const LoopHead& h) { return loop(h); }));
  }
  std::string text(const Scan& s) const {
    return fmt::format("{} = scan.{}{}{} {}", definition(s.dst), to_string(s.combiner), s.exclusive ? " exclusive" : "",
                       s.reverse ? " reverse" : "", loop(s.loop));
  }
  std::string text(const TransposeTile& s) const {
    return fmt::format("transpose {}, {}", buffer(s.dst), buffer(s.src));
  }
  std::string text(const CopyAsync& s) const {
    return fmt::format("copy.async {}, {} box [{}]{}", element(s.dst, s.dst_index), element(s.src, s.src_index),
                       indices(s.extents), guard(s.guard));
  }
  std::string text(const Mma& s) const {
    const std::string windows = s.windows ? fmt::format(" windows [{}, {}]", s.windows->width, s.windows->step) : "";
    return fmt::format("{} = mma {}, {}{}, {} by {}", definition(s.dst), operand(s.c, DType::f32),
                       element(s.a, s.a_index), windows, element(s.b, s.b_index), index(s.lane));
  }
  std::string text(const TileProduct& s) const {
    return fmt::format("tile_product {}, {} pitch {}, {} pitch {} size [{}, {}, {}] by {}",
                       element(s.sums, s.sums_index), element(s.a, s.a_index), index(s.a_pitch),
                       element(s.b, s.b_index), index(s.b_pitch), index(s.rows), index(s.columns), index(s.terms),
                       index(s.thread));
  }
  std::string mask(const Operand& mask) const {
    return mask == kAllThreads ? "" : " mask " + operand(mask, DType::u32);
  }
  std::string text(const Shuffle& s) const {
    return fmt::format("{} = shuffle.{} {}, {}{}", definition(s.dst), to_string(s.kind), operand(s.value, dtype(s.dst)),
                       index(s.lane), mask(s.mask));
  }
  std::string text(const Ballot& s) const {
    return fmt::format("{} = ballot ({}){}", definition(s.dst), indices(s.condition), mask(s.mask));
  }
  std::string text(const Sync& s) const {
    const std::string left = s.scope == SyncScope::copies ? fmt::format(" {}", s.left) : "";
    return fmt::format("sync.{}{}{}", to_string(s.scope), left, mask(s.mask));
  }

  const Kernel& k_;
  const bool systematic_;  // then expressions print themselves
  std::map<const Stmt*, int>* const lines_;
  std::string out_;
  std::ptrdiff_t counted_ = 0;  // of out_, by next_line()
  int line_ = 1;
};

}  // namespace

const char* to_string(LoopTag tag) {
  constexpr const char* kNames[] = {"seq", "unroll", "block", "cluster", "grid"};
  return kNames[static_cast<std::size_t>(tag)];
}

const char* to_string(Space space) {
  constexpr const char* kNames[] = {"in", "out", "reg", "shared", "scratch"};
  return kNames[static_cast<std::size_t>(space)];
}

const char* to_string(ShuffleKind kind) { return kind == ShuffleKind::by_xor ? "xor" : "idx"; }

const char* to_string(SyncScope scope) {
  constexpr const char* kNames[] = {"warp", "block", "copies", "cluster", "arrive", "wait"};
  return kNames[static_cast<std::size_t>(scope)];
}

const char* to_string(PhaseBoundary boundary) {
  constexpr const char* kNames[] = {"launches", "last_block", "coop"};
  return kNames[static_cast<std::size_t>(boundary)];
}

std::vector<std::string> implied_extents(const std::vector<Shape>& shapes) {
  std::vector<std::string> extents;
  for (const Shape& shape : shapes) {
    for (const Dim& d : shape) {
      std::set<std::string> symbols;
      d.collect_symbols(symbols);
      for (const std::string& s : symbols) {
        if (std::find(extents.begin(), extents.end(), s) == extents.end()) extents.push_back(s);
      }
    }
  }
  return extents;
}

std::vector<std::string> implied_extents(const Kernel& kernel) {
  std::vector<Shape> shapes;
  for (const BufferId b : kernel.params) {
    for (const IndexShape* shape : {&kernel.buffers[b].shape, &kernel.buffers[b].strides}) {
      shapes.emplace_back();
      for (const IndexExpr& e : *shape) shapes.back().push_back(named(kernel, e));
    }
  }
  return implied_extents(shapes);
}

DType implied_dtype(const Kernel& kernel, const Let& let, std::size_t arg) {
  const auto dtype = [&](RegId r) { return kernel.regs.contains(r) ? kernel.regs[r].dtype : DType::f32; };
  switch (info(let.op).typing) {
    case Typing::cast:
    case Typing::to_int:
    case Typing::to_bits:
      return DType::f32;
    case Typing::from_bits:
      return DType::i32;
    case Typing::bool_:
      return DType::bool_;
    case Typing::select:
      return arg == 0 ? DType::bool_ : dtype(let.dst);
    case Typing::compare:
    case Typing::equal:
    case Typing::classify:
      for (const Operand& o : let.args) {
        if (const RegId* r = std::get_if<RegId>(&o)) return dtype(*r);
      }
      return DType::f32;
    default:
      return dtype(let.dst);
  }
}

std::string print(const Kernel& kernel) { return Printer(kernel).kernel(); }
NumberedText print_numbered(const Kernel& kernel) {
  NumberedText out;
  out.text = Printer(kernel, &out.lines).kernel();
  return out;
}
std::string print_stmt(const Kernel& kernel, const Stmt& stmt) { return Printer(kernel).head(stmt); }

}  // namespace fusec::ir
