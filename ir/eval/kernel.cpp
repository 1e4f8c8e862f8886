// SPDX-License-Identifier: Apache-2.0
// Executes kernels statement by statement as sequential code, the reference for emitters and for the schedules of
// lower. Checks every access against the buffer's bounds, as compiled code does not.

#include "ir/eval/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "ir/eval/combine.h"
#include "ir/eval/index_code.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

constexpr int64_t kMaxLocalElements = int64_t{1} << 31;

struct Memory {
  char* data = nullptr;
  std::vector<int64_t> shape, strides;  // strides in elements
  std::vector<char> owned;
};

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const std::map<std::string, int64_t>& extents)
      : k_(kernel), memory_(kernel.buffers.size()) {
    lane_slot_ = slot(kLane);
    for (uint32_t i = 0; i < kernel.extents.size(); ++i) set(ExtentId{i}, extents.at(kernel.extents[ExtentId{i}]));
    first_.resize(kernel.regs.size());
    std::size_t lanes = 0;
    for (uint32_t i = 0; i < kernel.regs.size(); ++i) {
      first_[RegId{i}] = lanes;
      lanes += static_cast<std::size_t>(kernel.regs[RegId{i}].width);
    }
    values_.resize(lanes);
  }

  Status bind(const std::vector<Tensor>& args);
  Status run() {
    block(k_.body);
    return std::move(status_);
  }

 private:
  // Symbols and index expressions.

  int slot(SymbolId symbol) {
    const auto [it, fresh] = slot_of_.emplace(symbol, static_cast<int>(slots_.size()));
    if (fresh) {
      slots_.push_back(0);
      if (const auto reg = symbol.reg(); reg && k_.regs.contains(*reg)) note_register(*reg, it->second);
    }
    return it->second;
  }

  // Registers in index expressions keep their slots up to date.
  void note_register(RegId reg, int at) {
    reg_slots_.emplace(reg.index, at);
    if (!values_.empty()) publish(reg, static_cast<int>(slots_[static_cast<std::size_t>(lane_slot_)]));
  }

  void publish(RegId r, int lane) {
    const auto it = reg_slots_.find(r.index);
    if (it == reg_slots_.end()) return;
    const int at = std::min(lane, k_.regs[r].width - 1);
    slots_[static_cast<std::size_t>(it->second)] = values_[first_[r] + static_cast<std::size_t>(at)].i;
  }

  void set(SymbolId symbol, int64_t value) { slots_[static_cast<std::size_t>(slot(symbol))] = value; }

  void set_lane(int lane) {
    slots_[static_cast<std::size_t>(lane_slot_)] = lane;
    for (const auto& [r, at] : reg_slots_) publish(RegId{r}, lane);
  }

  int64_t eval(const IndexExpr& d) {
    if (d.is_const()) return d.value();
    auto it = code_.find(&d);
    if (it == code_.end()) it = code_.emplace(&d, IndexCode(d, [&](SymbolId s) { return slot(s); })).first;
    return it->second.eval(slots_);
  }

  std::vector<int64_t> eval(const std::vector<IndexExpr>& list) {
    std::vector<int64_t> values;
    for (const IndexExpr& d : list) values.push_back(eval(d));
    return values;
  }

  bool holds(const Guard& guard) {
    return std::all_of(guard.begin(), guard.end(), [&](const IndexExpr& d) { return eval(d) >= 0; });
  }

  void fail(std::string message) {
    if (status_.ok()) status_ = Status(StatusCode::internal, std::move(message));
  }
  bool ok() const { return status_.ok(); }
  std::string where(const Stmt& s) const { return fmt::format("'{}'", print_stmt(k_, s)); }

  // Registers.

  Number read(const Operand& o, int lane) const {
    if (const auto* c = std::get_if<Constant>(&o)) return make_number(*c);
    const RegId r = std::get<RegId>(o);
    return values_[first_[r] + static_cast<std::size_t>(std::min(lane, k_.regs[r].width - 1))];
  }
  DType dtype_of(const Operand& o) const {
    if (const auto* c = std::get_if<Constant>(&o)) return c->dtype;
    return k_.regs[std::get<RegId>(o)].dtype;
  }
  void write(RegId r, int lane, const Number& value) {
    values_[first_[r] + static_cast<std::size_t>(lane)] = value;
    if (lane == 0) publish(r, 0);
  }

  // Memory.

  char* element(const Stmt& s, BufferId b, const std::vector<int64_t>& index) {
    Memory& m = memory_[b];
    if (index.size() != m.shape.size()) {
      fail(fmt::format("{} has rank {}, {} indices in {}", k_.buffers[b].name, m.shape.size(), index.size(), where(s)));
      return nullptr;
    }
    int64_t offset = 0;
    for (std::size_t a = 0; a < index.size(); ++a) {
      if (index[a] < 0 || index[a] >= m.shape[a]) {
        fail(fmt::format("index {} of axis {} of {} is outside of [0, {}) in {}", index[a], a, k_.buffers[b].name,
                         m.shape[a], where(s)));
        return nullptr;
      }
      offset += index[a] * m.strides[a];
    }
    return m.data + offset * static_cast<int64_t>(size_of(k_.buffers[b].dtype));
  }

  // Indices from data wrap if negative and are then clamped.
  void clamp(const Load& s, const Stmt& stmt, std::vector<int64_t>& index) {
    for (std::size_t a = 0; a < index.size(); ++a) {
      if (!(s.clamp >> a & 1)) continue;
      const int64_t size = memory_[s.buffer].shape[a];
      const int64_t wrapped = index[a] < 0 ? index[a] + size : index[a];
      if ((wrapped < 0 || wrapped >= size) && out_of_range_.empty()) {
        out_of_range_ = fmt::format("index {} is out of range for axis {} of {}, which has {} elements, in {}",
                                    index[a], a, k_.buffers[s.buffer].name, size, where(stmt));
      }
      index[a] = std::max<int64_t>(0, std::min(wrapped, size - 1));
    }
  }

  void allocate(BufferId b) {
    const Buffer& buffer = k_.buffers[b];
    Memory& m = memory_[b];
    m.shape = eval(buffer.shape);
    m.strides = row_major(m.shape);
    int64_t count = 1;
    for (const int64_t e : m.shape) {
      if (e < 0 || __builtin_mul_overflow(count, e, &count) || count > kMaxLocalElements) {
        return fail(fmt::format("{} has a negative or too large extent", buffer.name));
      }
    }
    const std::size_t size = size_of(buffer.dtype);
    m.owned.assign(static_cast<std::size_t>(count) * size, static_cast<char>(0xcd));
    m.data = m.owned.data();
    if (!is_float(buffer.dtype)) return;
    for (int64_t i = 0; i < count; ++i) {
      store_number(buffer.dtype, m.data + i * static_cast<int64_t>(size),
                   {std::numeric_limits<double>::quiet_NaN(), 0});
    }
  }

  // Statements.

  void block(const Block& body) {
    for (const Stmt& s : body) {
      if (!ok()) return;
      std::visit([&](const auto& own) { run(own, s); }, s.v);
    }
  }

  void run(const Loop& s, const Stmt&) {
    const int64_t n = eval(s.head.extent);
    for (int64_t i = 0; i < n && ok(); ++i) {
      set(s.head.var, i);
      block(s.body);
    }
  }

  void run(const Alloc& s, const Stmt&) { allocate(s.buffer); }

  void run(const Let& s, const Stmt&) {
    const RegInfo& result = k_.regs[s.dst];
    const DType operand = dtype_of(s.args.back());
    Number args[3];
    for (int lane = 0; lane < result.width; ++lane) {
      for (std::size_t i = 0; i < s.args.size(); ++i) args[i] = read(s.args[i], lane);
      write(s.dst, lane, apply(s.op, operand, result.dtype, args, s.args.size()));
    }
  }

  void run(const IndexValue& s, const Stmt&) {
    const RegInfo& result = k_.regs[s.dst];
    for (int lane = 0; lane < result.width; ++lane) {
      set_lane(lane);
      write(s.dst, lane, cast_number(DType::i64, result.dtype, {0, eval(s.value)}));
    }
  }

  void run(const Load& s, const Stmt& stmt) {
    const DType dtype = k_.buffers[s.buffer].dtype;
    for (int lane = 0; lane < k_.regs[s.dst].width && ok(); ++lane) {
      set_lane(lane);
      if (!holds(s.guard)) {
        write(s.dst, lane, make_number(s.otherwise));
        continue;
      }
      std::vector<int64_t> index = eval(s.index);
      clamp(s, stmt, index);
      if (const char* at = element(stmt, s.buffer, index)) write(s.dst, lane, load_number(dtype, at));
    }
  }

  void run(const Store& s, const Stmt& stmt) {
    const int width = width_of(k_, s.value);
    for (int lane = 0; lane < width && ok(); ++lane) {
      set_lane(lane);
      if (!holds(s.guard)) continue;
      if (char* at = element(stmt, s.buffer, eval(s.index))) {
        store_number(k_.buffers[s.buffer].dtype, at, read(s.value, lane));
      }
    }
  }

  void run(const Prefetch&, const Stmt&) {}
  void run(const Sync&, const Stmt&) {}

  void run(const Reduce& s, const Stmt& stmt) {
    std::vector<int64_t> sizes;
    int64_t count = 1;
    for (const LoopHead& h : s.loops) {
      sizes.push_back(std::max<int64_t>(0, eval(h.extent)));
      count *= sizes.back();
    }
    const int width = width_of(k_, stmt);
    const bool lane_wise = width > 1 && k_.regs[s.dst[0]].width == width;
    const int64_t per_iteration = lane_wise ? 1 : width;
    TupleTypes types{};
    for (std::size_t i = 0; i < s.dst.size() && i < 3; ++i) types[i] = k_.regs[s.dst[i]].dtype;
    std::vector<TreeCombiner> folds(static_cast<std::size_t>(lane_wise ? width : 1),
                                    TreeCombiner(s.combiner, types, s.tree, count * per_iteration));
    for (int64_t i = 0; i < count && ok(); ++i) {
      int64_t rest = i;
      for (std::size_t l = s.loops.size(); l-- > 0; rest /= sizes[l]) set(s.loops[l].var, rest % sizes[l]);
      block(s.body);
      for (int lane = 0; lane < width && ok(); ++lane) {
        set_lane(lane);
        if (!holds(s.guard)) continue;
        Tuple t;
        for (std::size_t y = 0; y < s.yield.size() && y < 3; ++y) t[y] = read(s.yield[y], lane);
        folds[lane_wise ? static_cast<std::size_t>(lane) : 0].add(lane_wise ? i : i * width + lane, t);
      }
    }
    for (std::size_t lane = 0; lane < folds.size(); ++lane) {
      const Tuple t = folds[lane].finish();
      for (std::size_t d = 0; d < s.dst.size() && d < 3; ++d) write(s.dst[d], static_cast<int>(lane), t[d]);
    }
  }

  void run(const Scan& s, const Stmt&) {
    const int64_t n = eval(s.loop.extent);
    const RegInfo& result = k_.regs[s.dst];
    const TupleTypes types{result.dtype, result.dtype, result.dtype};
    std::vector<Tuple> running(static_cast<std::size_t>(result.width), identity(s.combiner, types));
    for (int64_t step = 0; step < n && ok(); ++step) {
      set(s.loop.var, s.reverse ? n - 1 - step : step);
      block(s.body);
      for (int lane = 0; lane < result.width; ++lane) {
        Tuple& r = running[static_cast<std::size_t>(lane)];
        const Tuple next = combine(s.combiner, types, r, {read(s.yield, lane)});
        write(s.dst, lane, s.exclusive ? r[0] : next[0]);
        r = next;
      }
      block(s.then);
    }
  }

  void run(const TransposeTile& s, const Stmt& stmt) {
    const DType dtype = k_.buffers[s.dst].dtype;
    const std::vector<int64_t> shape = memory_[s.src].shape;
    if (shape.size() != 2) return fail("a transposed tile has two axes, in " + where(stmt));
    for (int64_t i = 0; i < shape[0] && ok(); ++i) {
      for (int64_t j = 0; j < shape[1] && ok(); ++j) {
        const char* from = element(stmt, s.src, {i, j});
        char* to = element(stmt, s.dst, {j, i});
        if (from != nullptr && to != nullptr) std::memmove(to, from, size_of(dtype));
      }
    }
  }

  // `at` plus the position in the box, which spans the last axes.
  static std::vector<int64_t> inside(std::vector<int64_t> at, const std::vector<int64_t>& position) {
    for (std::size_t a = 0; a < position.size() && a < at.size(); ++a) {
      at[at.size() - 1 - a] += position[position.size() - 1 - a];
    }
    return at;
  }

  void run(const CopyAsync& s, const Stmt& stmt) {
    const std::vector<int64_t> box = eval(s.extents), to = eval(s.dst_index), from = eval(s.src_index);
    std::vector<int64_t> position(box.size(), 0);
    if (std::any_of(box.begin(), box.end(), [](int64_t e) { return e <= 0; })) return;
    for (bool more = true; more && ok();) {
      const char* source = element(stmt, s.src, inside(from, position));
      char* target = element(stmt, s.dst, inside(to, position));
      if (source != nullptr && target != nullptr) std::memcpy(target, source, size_of(k_.buffers[s.dst].dtype));
      more = false;
      for (std::size_t a = box.size(); a-- > 0 && !more;) {
        more = ++position[a] < box[a];
        if (!more) position[a] = 0;
      }
    }
  }

  void run(const Mma& s, const Stmt& stmt) {
    const std::vector<int64_t>& shape = memory_[s.acc].shape;
    const std::vector<int64_t>& a_shape = memory_[s.a].shape;
    if (shape.size() != 2 || a_shape.empty()) return fail("an accumulator has two axes, in " + where(stmt));
    const DType acc_dtype = k_.buffers[s.acc].dtype;
    const std::vector<int64_t> a_index = eval(s.a_index), b_index = eval(s.b_index);
    const auto at = [&](BufferId b, std::vector<int64_t> index, int64_t row, int64_t column) {
      index.push_back(row);
      index.push_back(column);
      const char* p = element(stmt, b, index);
      return p == nullptr ? 0.0 : load_number(k_.buffers[b].dtype, p).f;
    };
    for (int64_t i = 0; i < shape[0] && ok(); ++i) {
      for (int64_t j = 0; j < shape[1] && ok(); ++j) {
        char* acc = element(stmt, s.acc, {i, j});
        double sum = load_number(acc_dtype, acc).f;
        for (int64_t k = 0; k < a_shape.back() && ok(); ++k) sum += at(s.a, a_index, i, k) * at(s.b, b_index, k, j);
        store_number(acc_dtype, acc, {sum, 0});
      }
    }
  }

  const Kernel& k_;
  IdVector<BufferId, Memory> memory_;
  IdVector<RegId, std::size_t> first_;  // position of a register's lanes in values_
  std::vector<Number> values_;
  std::map<SymbolId, int> slot_of_;
  std::vector<int64_t> slots_;
  std::map<uint32_t, int> reg_slots_;
  int lane_slot_ = 0;
  std::unordered_map<const IndexExpr*, IndexCode> code_;
  Status status_;

 public:
  std::string out_of_range_;  // describes the first index from data that was out of range
};

Status misfit(const Buffer& b, std::string_view what) {
  return Status(StatusCode::invalid_argument, fmt::format("argument {}: {}", b.name, what));
}

Status Interpreter::bind(const std::vector<Tensor>& args) {
  if (args.size() != k_.params.size()) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{} arguments for {} parameters", args.size(), k_.params.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Buffer& b = k_.buffers[k_.params[i]];
    Tensor t = args[i];
    Memory& m = memory_[k_.params[i]];
    m.shape = eval(b.shape);
    const std::vector<int64_t> strides = b.strides.empty() ? row_major(m.shape) : eval(b.strides);
    if (!ok()) return std::move(status_);
    if (t.dtype() != b.dtype) return misfit(b, fmt::format("is {}, not {}", to_string(t.dtype()), to_string(b.dtype)));
    if (t.shape() != m.shape) return misfit(b, "has another shape");
    for (std::size_t a = 0; a < strides.size(); ++a) {
      if (m.shape[a] > 1 && t.num_elements() > 0 && t.strides()[a] != strides[a]) return misfit(b, "has other strides");
    }
    m.strides = strides;
    m.data = static_cast<char*>(t.data());
  }
  return {};
}

Status check_extents(const Kernel& kernel, const std::map<std::string, int64_t>& extents) {
  for (uint32_t i = 0; i < kernel.extents.size(); ++i) {
    const ExtentId id{i};
    const std::string& name = kernel.extents[id];
    const auto it = extents.find(name);
    if (it == extents.end()) return Status(StatusCode::invalid_argument, "extent " + name + " has no value");
    const auto fact = kernel.divisible.find(id);
    if (fact != kernel.divisible.end() && it->second % fact->second != 0) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("{} = {} breaks the fact {} % {} == 0", name, it->second, name, fact->second));
    }
  }
  return {};
}

}  // namespace

Result<std::monostate> evaluate(const Kernel& kernel, const std::vector<Tensor>& args,
                                const std::map<std::string, int64_t>& extents) {
  return guarded([&]() -> Result<std::monostate> {
    FUSEC_TRY(check_extents(kernel, extents));
    Interpreter machine(kernel, extents);
    FUSEC_TRY(machine.bind(args));
    FUSEC_TRY(machine.run());
    if (!machine.out_of_range_.empty()) return Status(StatusCode::invalid_argument, machine.out_of_range_);
    return std::monostate();
  });
}

}  // namespace fusec::ir
