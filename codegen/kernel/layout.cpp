// SPDX-License-Identifier: Apache-2.0
// Splits a kernel into grid phases at the start of emit: perfectly nested outermost grid loops form one phase, and
// statements between grid loops form phases without a grid. Computes strides and linear element offsets of buffers,
// including the "pitch P" layout, and what divides such offsets; "swizzle N" is applied by the writers of accesses.

#include "codegen/kernel/layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

bool is_pure(const ir::Kernel& kernel, const ir::Stmt& stmt) {
  if (const auto* load = std::get_if<ir::Load>(&stmt.v)) return kernel.buffers[load->buffer].space == ir::Space::in;
  return std::holds_alternative<ir::Let>(stmt.v) || std::holds_alternative<ir::IndexValue>(stmt.v);
}

Phase grid_phase(const ir::Loop& loop) {
  Phase phase;
  phase.threads = loop.threads / loop.cluster;
  phase.cluster = loop.cluster;
  const ir::Loop& innermost = ir::innermost_grid(loop);
  for (const ir::Loop* at = &loop;; at = std::get_if<ir::Loop>(&at->body[0].v)) {
    phase.grid.push_back(at->head);
    if (at == &innermost) break;
  }
  phase.tasks = loop.tasks;
  for (const ir::Stmt& stmt : innermost.body) {
    if (loop.tasks) {
      phase.passes.push_back(grid_phase(std::get<ir::Loop>(stmt.v)));
    } else {
      phase.body.push_back(&stmt);
    }
  }
  return phase;
}

}  // namespace

std::vector<Phase> split_phases(const ir::Kernel& kernel) {
  std::vector<Phase> phases;
  std::vector<const ir::Stmt*> shared, open;
  const auto flush = [&] {
    if (!open.empty()) phases.push_back({{}, std::move(open)});
    open.clear();
  };
  for (const ir::Stmt& stmt : kernel.body) {
    const auto* loop = std::get_if<ir::Loop>(&stmt.v);
    if (loop && loop->head.tag == ir::LoopTag::grid) {
      flush();
      Phase phase = grid_phase(*loop);
      const auto repeat = [&](Phase& of) { of.body.insert(of.body.begin(), shared.begin(), shared.end()); };
      std::for_each(phase.passes.begin(), phase.passes.end(), repeat);
      if (phase.passes.empty()) repeat(phase);
      phases.push_back(std::move(phase));
    } else if (is_pure(kernel, stmt) && open.empty()) {
      shared.push_back(&stmt);
    } else if (!std::holds_alternative<ir::Alloc>(stmt.v)) {
      if (open.empty()) open = shared;
      open.push_back(&stmt);
    }
  }
  flush();
  return phases;
}

IndexExpr count_blocks(const Phase& phase) {
  IndexExpr out(phase.cluster);
  for (const ir::LoopHead& loop : phase.grid) out *= loop.extent;
  IndexExpr of_row;
  for (const Phase& pass : phase.passes) of_row += count_blocks(pass);
  return phase.passes.empty() ? out : out * of_row;
}

namespace {

constexpr int kTaskThreads = 1024;   // of a multiprocessor: they may have 64 registers, which are 256 bytes, each
constexpr int64_t kTaskBytes = 192;  // the most that such a thread may hold: the rest is for what it computes

// The bytes of a thread's own buffers that last as long as its block.
int64_t held_bytes(const ir::Kernel& kernel, const std::vector<const ir::Stmt*>& body) {
  int64_t bytes = 0;
  for (const ir::Stmt* stmt : body) {
    const auto* alloc = std::get_if<ir::Alloc>(&stmt->v);
    if (alloc == nullptr || kernel.buffers[alloc->buffer].space != ir::Space::reg) continue;
    int64_t count = 1;
    for (const IndexExpr& d : kernel.buffers[alloc->buffer].shape) count *= d.value();
    bytes += count * static_cast<int64_t>(size_of(kernel.buffers[alloc->buffer].dtype));
  }
  return bytes;
}

}  // namespace

// In loops over the rows of a window, threads load much and never wait for each other.
bool loops_over_loads(const ir::Kernel& kernel, const Phase& phase) {
  constexpr int kManyLoads = 8;
  int most = 0;
  for (const ir::Stmt* stmt : phase.body) {
    const auto* loop = std::get_if<ir::Loop>(&stmt->v);
    if (loop == nullptr || loop->head.tag != ir::LoopTag::seq) continue;
    int loads = 0;
    for (const ir::Stmt& inner : loop->body) {
      const auto* load = std::get_if<ir::Load>(&inner.v);
      loads += load != nullptr && kernel.buffers[load->buffer].space == ir::Space::in ? 1 : 0;
      if (!std::holds_alternative<ir::Load>(inner.v) && !std::holds_alternative<ir::Let>(inner.v) &&
          !std::holds_alternative<ir::Store>(inner.v))
        return false;
    }
    most = std::max(most, loads);
  }
  return most >= kManyLoads;
}

// Blocks of a cluster wait for each other, so that there should be more work for their multiprocessors: 512 threads may
// have 128 registers each. So do blocks whose task waits for others.
int count_resident(const ir::Kernel& kernel, const Phase& phase) {
  if (phase.cluster > 1 || loops_over_loads(kernel, phase)) return 512 / phase.threads;
  const bool small = phase.tasks && held_bytes(kernel, phase.passes.back().body) <= kTaskBytes;
  return small ? kTaskThreads / phase.threads : 0;
}

int most_registers(const ir::Kernel& kernel, const Phase& phase, const Target& target) {
  const int resident = count_resident(kernel, phase);
  return resident > 1 ? target.registers_per_sm / (phase.threads * resident) : 0;
}

namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMinDigits = 4;

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Whether the name is a C identifier that ends in digits of a hash, so that it is no keyword and no function's name.
bool is_systematic(const std::string& name) {
  const std::size_t digits = name.rfind('_') + 1;
  if (digits == 0 || name.size() > kMaxName || name.size() - digits < kMinDigits) return false;
  if (name.find_first_not_of("0123456789abcdef", digits) != std::string::npos) return false;
  return name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) { return c == '_' || is_lower_or_digit(c); });
}

}  // namespace

bool waits_for_launches(const Target& target) { return target.kind == TargetKind::cuda && target.sm >= 90; }

std::string make_entry_name(const ir::Kernel& kernel, std::size_t phase, std::size_t phases) {
  const std::string name = is_systematic(kernel.name) ? kernel.name : "kernel";
  return phases > 1 ? name + "_" + std::to_string(phase) : name;
}

namespace {

int64_t parse_pitch(const std::string& layout) {
  constexpr std::string_view kPrefix = "pitch ";
  int64_t pitch = 0;
  if (layout.starts_with(kPrefix)) {
    std::from_chars(layout.data() + kPrefix.size(), layout.data() + layout.size(), pitch);
  }
  return pitch;
}

}  // namespace

ir::IndexShape compute_strides(const ir::Buffer& buffer) {
  if (!buffer.strides.empty()) return buffer.strides;
  const int64_t pitch = parse_pitch(buffer.layout);
  if (pitch == 0 || buffer.shape.size() < 2) return contiguous_strides(buffer.shape);
  ir::IndexShape padded = buffer.shape;
  padded.back() = pitch;
  return contiguous_strides(padded);
}

IndexExpr linear_index(const ir::Buffer& buffer, const std::vector<IndexExpr>& index) {
  const ir::IndexShape strides = compute_strides(buffer);
  FUSEC_CHECK(index.size() == strides.size())
      << "buffer '" << buffer.name << "' indexed by " << index.size() << " dims";
  IndexExpr out;
  for (std::size_t i = 0; i < index.size(); ++i) out += index[i] * strides[i];
  return out;
}

namespace {

// Collects the numbers of threads after which a quotient or remainder of the thread's number begins anew.
void collect_periods(const IndexExpr& e, std::set<int64_t>& out) {
  if (e.is_const()) return;
  for (const IndexExpr::Term& term : e.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn != IndexExpr::Fn::floordiv && atom.fn != IndexExpr::Fn::mod) continue;
      const IndexExpr &of = atom.args[0], &by = atom.args[1];
      if (!by.is_const() || by.value() <= 1) continue;
      collect_periods(of, out);
      if (of.as_symbol() == ir::kThread) out.insert(by.value());
      const std::vector<IndexExpr::Term> terms = of.terms();
      if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].atoms.size() != 1) continue;
      const IndexExpr::Atom& inner = terms[0].atoms[0];
      const bool quotient = inner.fn == IndexExpr::Fn::floordiv, rest = inner.fn == IndexExpr::Fn::mod;
      if (!(quotient || rest) || inner.args[0].as_symbol() != ir::kThread || !inner.args[1].is_const()) continue;
      out.insert(quotient ? by.value() * inner.args[1].value() : by.value());
    }
  }
}

// `e` with the thread's number t as a sum of digits: for periods 2 and 32, t = d0 + 2*d1 + 32*d2. Quotients and
// remainders become sums of digits, so that 1920*(t div 2 mod 16) is a multiple of 1920 also where it has been joined
// with other terms as 960*mod(t, 32) - 960*mod(t, 2).
std::optional<IndexExpr> with_digits(const IndexExpr& e) {
  std::set<int64_t> periods;
  collect_periods(e, periods);
  if (periods.empty()) return std::nullopt;
  IndexExpr number = 0;
  ir::IndexRanges ranges;
  int64_t place = 1;
  uint32_t digits = 0;
  const auto add_digit = [&](std::optional<IndexExpr> most) {
    const ir::SymbolId digit{ir::SymbolKind::thread, ++digits};
    ranges[digit] = {IndexExpr(0), std::move(most)};
    number += IndexExpr::symbol(digit) * place;
  };
  for (const int64_t period : periods) {
    if (period % place != 0) return std::nullopt;
    add_digit(IndexExpr(period / place - 1));
    place = period;
  }
  add_digit(std::nullopt);
  return simplify(e.substitute({{ir::kThread, number}}), ranges);
}

// The divisor of `e` where remainders are seen as mod(x, k) = x less a multiple of k: 3073*i - mod(i, 8) is a multiple
// of
// 8. Returns 0 where there are none.
int64_t divisor_without_remainders(const IndexExpr& e, const ir::Kernel& kernel) {
  if (e.is_const()) return 0;
  IndexExpr rest = 0;
  int64_t multiples = 0;
  for (const IndexExpr::Term& term : e.terms()) {
    const bool is_remainder =
        term.atoms.size() == 1 && term.atoms[0].fn == IndexExpr::Fn::mod && term.atoms[0].args[1].is_const();
    if (is_remainder) multiples = std::gcd(multiples, term.coefficient * term.atoms[0].args[1].value());
    rest += is_remainder ? term.atoms[0].args[0] * term.coefficient : IndexExpr::from_terms({term});
  }
  return multiples == 0 ? 0 : std::gcd(multiples, with_facts(rest, kernel).known_divisor());
}

}  // namespace

int64_t find_divisor(const IndexExpr& offset, const ir::Kernel& kernel) {
  constexpr int64_t kWidest = 16;  // elements of the widest access
  const int64_t plain =
      std::max(with_facts(offset, kernel).known_divisor(), divisor_without_remainders(offset, kernel));
  if (plain % kWidest == 0) return plain;
  const std::optional<IndexExpr> digits = with_digits(offset);
  return digits ? std::max(plain, with_facts(*digits, kernel).known_divisor()) : plain;
}

}  // namespace fusec::codegen
