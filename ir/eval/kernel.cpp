// SPDX-License-Identifier: Apache-2.0
// Executes kernels statement by statement as sequential code, the reference for emitters and for the schedules of
// lower. Checks every access against the buffer's bounds, as compiled code does not.

#include "ir/eval/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/eval/kernel_interpreter.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

Status misfit(const Buffer& b, std::string_view what) {
  return Status(StatusCode::invalid_argument, fmt::format("argument {}: {}", b.name, what));
}

}  // namespace

Interpreter::Interpreter(const Kernel& kernel, const std::map<std::string, int64_t>& extents)
    : k_(kernel), memory_(kernel.buffers.size()), shared_(kernel.buffers.size()) {
  regs_.resize(kernel.regs.size());
  std::size_t lanes = 0, own = 0;
  for (uint32_t i = 0; i < kernel.regs.size(); ++i) {
    const RegInfo& info = kernel.regs[RegId{i}];
    regs_[i] = {lanes, info.width, info.dtype};
    lanes += static_cast<std::size_t>(info.width);
  }
  for (const Buffer& b : kernel.buffers) {
    const bool of_thread = b.space == Space::reg;
    buffers_.push_back({b.dtype, b.space, size_of(b.dtype), of_thread ? own++ : 0});
  }
  whole_.values.resize(lanes);
  whole_.memory.resize(own);
  lane_slot_ = slot(kLane);
  slot(kThread);
  add_slots();
  for (uint32_t i = 0; i < kernel.extents.size(); ++i) set(ExtentId{i}, extents.at(kernel.extents[ExtentId{i}]));
}

void Interpreter::add_slots() {
  std::set<SymbolId> symbols;
  const auto collect = [&](const IndexExpr& e) { e.collect_symbols(symbols); };
  for (const Buffer& buffer : k_.buffers) {
    for (const IndexShape* shape : {&buffer.shape, &buffer.strides})
      std::for_each(shape->begin(), shape->end(), collect);
  }
  for_each_stmt(k_.body, [&](const Stmt& s) {
    for_each_index(s, collect);
    for_each_head(s, [&](const LoopHead& head) { symbols.insert(head.var); });
  });
  for (const SymbolId symbol : symbols) slot(symbol);
}

std::string Interpreter::where(const Stmt& s) const { return fmt::format("'{}'", print_stmt(k_, s)); }

Status Interpreter::bind(const std::vector<Tensor>& args) {
  if (args.size() != k_.params.size()) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{} arguments for {} parameters", args.size(), k_.params.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Buffer& b = k_.buffers[k_.params[i]];
    Tensor t = args[i];
    Memory& m = memory_[k_.params[i].index];
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

Status Interpreter::run() {
  block(k_.body);
  return std::move(status_);
}

void Interpreter::block(const Block& body) {
  for (const Stmt& s : body) {
    if (!ok()) return;
    const auto for_all = [&] {
      return std::holds_alternative<Loop>(s.v) || std::holds_alternative<If>(s.v) ||
             std::holds_alternative<Choose>(s.v) || std::holds_alternative<Shuffle>(s.v) ||
             std::holds_alternative<Ballot>(s.v) || std::holds_alternative<Sync>(s.v) || allocates_shared(s);
    };
    const auto execute = [&] { std::visit([&](const auto& own) { run(own, s); }, s.v); };
    if (active_.empty() || for_all()) {
      execute();
    } else {
      each_active(execute);
    }
  }
}

bool Interpreter::allocates_shared(const Stmt& s) const {
  const auto* alloc = std::get_if<Alloc>(&s.v);
  return alloc != nullptr && k_.buffers[alloc->buffer].space != Space::reg;
}

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
