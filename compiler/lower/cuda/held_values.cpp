// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: values that all phases of a row compute of its elements before anything else: what they load, or what
// they make of it alone, such as the sum of two loaded halves as f32. The first phase keeps them in registers for the
// others.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/cuda/row_shape.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// How many operands and yields inside of the statement are the register.
int64_t count_uses(const Stmt& stmt, RegId reg) {
  int64_t count = 0;
  const auto note = [&](const Operand& operand) {
    const auto* own = std::get_if<RegId>(&operand);
    count += own != nullptr && *own == reg ? 1 : 0;
  };
  for_each_operand(stmt, note);
  for (const Block* inner : nested_blocks(stmt))
    for (const Stmt& nested : *inner) count += count_uses(nested, reg);
  return count;
}

const ir::Let* find_let(const Block& body, RegId dst) {
  for (const Stmt& stmt : body)
    if (const auto* let = std::get_if<ir::Let>(&stmt.v); let != nullptr && let->dst == dst) return let;
  return nullptr;
}

void collect_yields(const Stmt& stmt, std::set<RegId>& yields) {
  if (std::holds_alternative<ir::Reduce>(stmt.v))
    for_each_operand(stmt, [&](const Operand& operand) {
      if (const auto* reg = std::get_if<RegId>(&operand)) yields.insert(*reg);
    });
  for (const Block* inner : nested_blocks(stmt))
    for (const Stmt& nested : *inner) collect_yields(nested, yields);
}

// Replaces loaded values by what is made of them alone. `may_grow`: also where that takes more bytes.
class SharedValues {
 public:
  SharedValues(const ir::Kernel& kernel, const std::vector<RowPhase>& phases, bool may_grow)
      : kernel_(kernel), phases_(phases), may_grow_(may_grow) {}

  std::vector<SharedValue> find(const std::function<bool(const ir::Load&)>& is_held) {
    for (size_t p = 0; p < phases_.size(); ++p)
      for (const Stmt& stmt : *phases_[p].body) {
        const auto* load = std::get_if<ir::Load>(&stmt.v);
        if (load != nullptr && is_held(*load)) add(*load, p);
      }
    std::erase_if(values_, [](const SharedValue& v) { return v.regs.size() < 2; });
    while (join_one()) {
    }
    return std::move(values_);
  }

 private:
  void add(const ir::Load& load, size_t phase) {
    auto value = std::find_if(values_.begin(), values_.end(), [&](const SharedValue& v) {
      return v.load.buffer == load.buffer && v.load.index == load.index && v.load.guard == load.guard;
    });
    if (value == values_.end()) value = values_.insert(value, {load, {}});
    value->regs.try_emplace(phase, load.dst);
  }

  const SharedValue* find_value(size_t phase, const Operand& operand) const {
    const auto* reg = std::get_if<RegId>(&operand);
    if (reg == nullptr) return nullptr;
    for (const SharedValue& value : values_)
      if (const auto own = value.regs.find(phase); own != value.regs.end() && own->second == *reg) return &value;
    return nullptr;
  }

  bool join_one() {
    for (const SharedValue& value : values_) {
      const auto& [first, reg] = *value.regs.begin();
      for (const Stmt& stmt : *phases_[first].body) {
        const auto* let = std::get_if<ir::Let>(&stmt.v);
        const bool reads =
            let != nullptr && std::find(let->args.begin(), let->args.end(), Operand(reg)) != let->args.end();
        if (reads && join(first, *let)) return true;
      }
    }
    return false;
  }

  // Takes the result in place of its operands, if every phase makes it of them and does nothing else with them.
  bool join(size_t first, const ir::Let& let) {
    std::set<const SharedValue*> parts;
    for (const Operand& arg : let.args) {
      if (std::holds_alternative<ir::Constant>(arg)) continue;
      const SharedValue* part = find_value(first, arg);
      if (part == nullptr) return false;
      parts.insert(part);
    }
    const SharedValue& any = **parts.begin();
    if (!is_small_enough(let.dst, parts)) return false;
    SharedValue joined{any.load, {}};
    for (const auto& [phase, unused] : any.regs) {
      const auto same = find_same(first, let, phase);
      if (!same) return false;
      joined.regs[phase] = *same;
    }
    for (const SharedValue* part : parts) {
      if (part->regs.size() != any.regs.size()) return false;
      for (const auto& [phase, reg] : part->regs) {
        const auto own = joined.regs.find(phase);
        if (own == joined.regs.end() || !is_used_up(phase, reg, own->second)) return false;
      }
    }
    std::vector<SharedValue> rest{std::move(joined)};
    for (const SharedValue& value : values_)
      if (!parts.contains(&value)) rest.push_back(value);
    values_ = std::move(rest);
    return true;
  }

  bool is_small_enough(RegId result, const std::set<const SharedValue*>& parts) const {
    const ir::RegInfo& info = kernel_.regs[result];
    size_t bytes = 0, widest = 0;
    for (const SharedValue* part : parts) {
      const ir::RegInfo& own = kernel_.regs[part->regs.begin()->second];
      if (own.width != info.width) return false;
      bytes += size_of(own.dtype), widest = std::max(widest, size_of(own.dtype));
    }
    // Compilers keep halves as floats from one phase to the next.
    return size_of(info.dtype) <= (may_grow_ ? std::max<size_t>(widest, 4) : bytes);
  }

  // The phase's result of the same op on the same values.
  std::optional<RegId> find_same(size_t first, const ir::Let& let, size_t phase) const {
    for (const Stmt& stmt : *phases_[phase].body) {
      const auto* other = std::get_if<ir::Let>(&stmt.v);
      if (other == nullptr || other->op != let.op || other->args.size() != let.args.size()) continue;
      if (!(kernel_.regs[other->dst] == kernel_.regs[let.dst])) continue;
      bool same = true;
      for (size_t i = 0; i < let.args.size(); ++i) {
        const SharedValue* part = find_value(first, let.args[i]);
        same &= part == nullptr ? other->args[i] == let.args[i] : part == find_value(phase, other->args[i]);
      }
      if (same) return other->dst;
    }
    return std::nullopt;
  }

  // Whether the phase reads the register only to make `result`.
  bool is_used_up(size_t phase, RegId reg, RegId result) const {
    const ir::Let* let = find_let(*phases_[phase].body, result);
    const auto own = std::count(let->args.begin(), let->args.end(), Operand(reg));
    return count_uses(*phases_[phase].stmt, reg) == own;
  }

  const ir::Kernel& kernel_;
  const std::vector<RowPhase>& phases_;
  const bool may_grow_;
  std::vector<SharedValue> values_;
};

}  // namespace

std::vector<SharedValue> find_shared_values(const ir::Kernel& kernel, const std::vector<RowPhase>& phases,
                                            bool may_grow, const std::function<bool(const ir::Load&)>& is_held) {
  return SharedValues(kernel, phases, may_grow).find(is_held);
}

DType dtype_of(const ir::Kernel& kernel, const SharedValue& value) {
  return kernel.regs[value.regs.begin()->second].dtype;
}

namespace {

// The buffers of the row's elements that phases store before the last one that needs one of the values. Others take
// the registers of the values, element by element.
int64_t count_kept_before(const HeldElements& held, const std::vector<RowPhase>& phases,
                          const std::vector<SharedValue>& values) {
  size_t last = 0;
  for (const SharedValue& value : values) last = std::max(last, value.regs.rbegin()->first);
  std::set<BufferId> before;
  for (size_t p = 0; p < std::min(last, phases.size()); ++p)
    for (const Stmt& stmt : *phases[p].body)
      if (const auto* store = std::get_if<ir::Store>(&stmt.v); store != nullptr && held.buffers.contains(store->buffer))
        before.insert(store->buffer);
  return static_cast<int64_t>(before.size());
}

}  // namespace

std::vector<SharedValue> choose_values(const HeldElements& held, const std::vector<RowPhase>& phases, int64_t elements,
                                       bool prefers_f32, const std::function<bool(const ir::Load&)>& is_held) {
  const auto get_bytes = [&](const SharedValue& v) {
    return elements * static_cast<int64_t>(size_of(dtype_of(held.kernel, v)));
  };
  std::vector<SharedValue> values;
  int64_t room = 0;
  for (const bool may_grow : {prefers_f32, !prefers_f32}) {
    std::vector<SharedValue> found = find_shared_values(held.kernel, phases, may_grow, is_held);
    const int64_t space = 4 * (kMaxHeldElements - count_kept_before(held, phases, found) * elements);
    int64_t bytes = 0;
    for (const SharedValue& v : found) bytes += get_bytes(v);
    if (bytes <= space || !may_grow) values = std::move(found), room = space;
    if (bytes <= space) break;
  }
  std::erase_if(values, [&](const SharedValue& value) {
    if (get_bytes(value) > room) return true;
    room -= get_bytes(value);
    return false;
  });
  return values;
}

void hold_value(const ir::Kernel& kernel, const SharedValue& value, const std::vector<RowPhase>& phases,
                BufferId buffer, const std::vector<IndexExpr>& at) {
  const size_t first = value.regs.begin()->first;
  for (const auto& [phase, reg] : value.regs) {
    Block& body = *phases[phase].body;
    const auto made = std::find_if(body.begin(), body.end(), [&](const Stmt& stmt) {
      const std::vector<RegId> dst = defined(stmt);
      return std::find(dst.begin(), dst.end(), reg) != dst.end();
    });
    if (phase == first) {
      body.insert(made + 1, {ir::Store{buffer, at, reg, {}, ir::StoreHint::none}});
      continue;
    }
    *made = {ir::Load{reg, buffer, at, {}, ir::Constant{kernel.regs[reg].dtype}, 0}};
    std::set<RegId> yields;
    collect_yields(*phases[phase].stmt, yields);
    drop_unread(body, std::move(yields));
  }
}

}  // namespace fusec::compiler
