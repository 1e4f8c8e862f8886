// SPDX-License-Identifier: Apache-2.0
// Rewrites PTX that ptxas miscompiles, for both GPU emitters. Each bug of ptxas is a row of a table, which says for
// which versions and GPUs it is rewritten. The rewrites work line by line on PTX text, because the compilers between
// the kernel and PTX make most of the patterns themselves. They need not be minimal, but each must keep the result of
// the instruction that it replaces.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/ptx/ptx.h"

namespace fusec::codegen {
namespace {

using Instruction = std::vector<std::string_view>;

// "op \ta, b, c;" -> op, a, b, c. Other lines, and lines with several instructions, yield nothing or something that no
// rewrite matches.
Instruction instruction(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t"), end = line.find(';');
  if (begin == std::string_view::npos || end == std::string_view::npos || end <= begin) return {};
  if (line.find(';', end + 1) != std::string_view::npos) return {};
  line = line.substr(begin, end - begin);
  Instruction parts;
  while (!line.empty()) {
    const std::size_t size = std::min(line.find_first_of(" \t,"), line.size());
    parts.push_back(line.substr(0, size));
    const std::size_t next = line.find_first_not_of(" \t,", size);
    line = next == std::string_view::npos ? std::string_view() : line.substr(next);
  }
  return parts;
}

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// One operand is +0 or -0, the other 1 or -1, but for +0 beside 1, which are what a truth value converts to.
bool is_zero_beside_one(std::string_view a, std::string_view b) {
  constexpr std::string_view kZero = "0f00000000", kMinusZero = "0f80000000", kOne = "0f3F800000",
                             kMinusOne = "0fBF800000";
  const auto matches = [&](std::string_view zero, std::string_view one) {
    return (zero == kMinusZero && (one == kOne || one == kMinusOne)) || (zero == kZero && one == kMinusOne);
  };
  return matches(a, b) || matches(b, a);
}

// The second operand may be an immediate. It goes through a 16-bit register, so its sign does not matter.
std::string extreme_in_32_bits(const Instruction& parts) {
  const std::string_view name = parts[0].substr(0, 3), sign = parts[0].substr(4, 1);
  return fmt::format(
      "\t{{ .reg .b16 y; .reg .b32 a, b; mov.b16 y, {3}; cvt.{1}32.{1}16 a, {2}; cvt.{1}32.{1}16 b, y; {0}.{1}32 a, a, "
      "b; "
      "cvt.u16.u32 {4}, a; }}\n",
      name, sign, parts[2], parts[3], parts[1]);
}

// ptxas does not derive the sign of this form's result.
std::string abs_by_max(const Instruction& parts) {
  return fmt::format("\t{{ .reg .b{2} a; sub.u{2} a, 0, {1}; max.s{2} {0}, {1}, a; }}\n", parts[1], parts[2],
                     parts[0].substr(5));
}

std::string abs_in_32_bits(const Instruction& parts) {
  return fmt::format("\t{{ .reg .b32 a; cvt.s32.s16 a, {}; abs.s32 a, a; cvt.u16.u32 {}, a; }}\n", parts[2], parts[1]);
}

// Values that are not negative pass unchanged.
std::string relu_by_mask(const Instruction& i) {
  return fmt::format("\t{{ .reg .b32 s; shr.s32 s, {1}, 31; not.b32 s, s; and.b32 {0}, {1}, s; }}\n", i[1],
                     i[2] == "0" ? i[3] : i[2]);
}

// The 32-bit unsigned form would lose its negation inside an unsigned min or max.
std::string negation_in_64_bits(std::string_view to, std::string_view x) {
  return fmt::format("\t{{ .reg .b64 a; cvt.u64.u32 a, {}; sub.u64 a, 0, a; cvt.u32.u64 {}, a; }}\n", x, to);
}

std::string disjunction_by_conjunction(const Instruction& i) {
  return fmt::format("\t{{ .reg .pred q, r; not.pred q, {1}; not.pred r, {2}; and.pred q, q, r; not.pred {0}, q; }}\n",
                     i[1], i[2], i[3]);
}

// The operand of a signed negation; empty if the instruction is not a negation.
std::string_view negated(const Instruction& parts) {
  constexpr std::array<std::string_view, 2> kNegations = {"neg.s32", "neg.s16"};
  constexpr std::array<std::string_view, 2> kDifferences = {"sub.s32", "sub.s16"};
  constexpr std::array<std::string_view, 2> kProducts = {"mul.lo.s32", "mul.lo.s16"};
  if (parts.size() == 3 && is_one_of(parts[0], kNegations)) return parts[2];
  if (parts.size() == 4 && is_one_of(parts[0], kDifferences) && parts[2] == "0") return parts[3];
  if (parts.size() == 4 && is_one_of(parts[0], kProducts) && parts[3] == "-1") return parts[2];
  return {};
}

// The registers that hold results of instructions of a kind, followed through moves and conversions. Functions share
// register names, so the set may be larger than necessary.
template <class Kind>
std::set<std::string_view> find_results(const std::vector<Instruction>& code, const Kind& is_of_kind) {
  std::set<std::string_view> out;
  for (std::size_t before = code.size() + 1; out.size() != before;) {
    before = out.size();
    for (const Instruction& i : code) {
      const bool moves = i.size() == 3 && (i[0].starts_with("mov.") || i[0].starts_with("cvt.")) && out.contains(i[2]);
      if (moves || is_of_kind(i)) out.insert(i[1]);
    }
  }
  return out;
}

bool is_negation(const Instruction& i) { return i.size() > 2 && i[0].ends_with("s32") && !negated(i).empty(); }
bool is_relu(const Instruction& i) { return i.size() == 4 && i[0] == "max.s32" && (i[2] == "0" || i[3] == "0"); }
bool is_min_max(const Instruction& i) {
  return i.size() > 2 && (i[0] == "min.s32" || i[0] == "max.s32" || i[0] == "abs.s32");
}
bool is_zero(std::string_view operand) { return operand == "0f00000000" || operand == "0f80000000"; }
bool is_zero_move(const Instruction& i) { return i.size() == 3 && i[0].starts_with("mov.") && is_zero(i[2]); }
bool is_narrow_pack(const Instruction& i) {
  return !i.empty() && (i[0].starts_with("cvt.pack.sat.u8") || i[0].starts_with("cvt.pack.sat.s8"));
}
bool is_conversion_to_s32(const Instruction& i) {
  return i.size() == 3 && i[0].starts_with("cvt.r") && i[0].ends_with(".s32.f32");
}

// Whether f32 values are clipped at 0 somewhere and integers are packed somewhere.
bool packs_clipped(const std::vector<Instruction>& code) {
  if (std::none_of(code.begin(), code.end(), is_narrow_pack)) return false;
  const std::set<std::string_view> zeros = find_results(code, is_zero_move);
  return std::any_of(code.begin(), code.end(), [&](const Instruction& i) {
    const bool clips =
        i.size() >= 4 && i[0].ends_with(".f32") && (i[0].starts_with("max.") || i[0].starts_with("selp."));
    return clips && std::any_of(i.begin() + 2, i.end(),
                                [&](std::string_view operand) { return is_zero(operand) || zeros.contains(operand); });
  });
}

bool is_and(const Instruction& i) { return i.size() == 4 && i[0] == "and.pred"; }
bool is_disjunction(const Instruction& i) { return i.size() == 4 && i[0] == "or.pred"; }
bool is_equality(const Instruction& i) {
  return i.size() > 2 && (i[0].starts_with("setp.eq.") || i[0].starts_with("setp.ne."));
}

// Whether an instruction of a kind has an operand in a register of `results`.
template <class Kind>
bool is_taken_by(const std::vector<Instruction>& code, const std::set<std::string_view>& results,
                 const Kind& is_of_kind) {
  return std::any_of(code.begin(), code.end(), [&](const Instruction& i) {
    return is_of_kind(i) &&
           std::any_of(i.begin() + 2, i.end(), [&](std::string_view operand) { return results.contains(operand); });
  });
}

// The range that ptxas derives for an f32 value, which may also be NaN.
struct Range {
  float lo = -std::numeric_limits<float>::infinity(), hi = std::numeric_limits<float>::infinity();
  bool operator==(const Range&) const = default;
};
using Ranges = std::unordered_map<std::string_view, Range>;  // by register

std::optional<Range> find_range(std::string_view operand, const Ranges& ranges) {
  uint32_t bits = 0;
  const char* const end = operand.data() + operand.size();
  if (operand.starts_with("0f") && std::from_chars(operand.data() + 2, end, bits, 16).ptr == end) {
    const float value = std::bit_cast<float>(bits);
    return std::isnan(value) ? Range() : Range{value, value};
  }
  const auto found = ranges.find(operand);
  return found == ranges.end() ? std::nullopt : std::optional(found->second);
}

// The smallest range that contains the values; unknown if one of them is NaN (inf - inf).
Range hull(std::initializer_list<float> values) {
  if (std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); })) return {};
  return {std::min(values), std::max(values)};
}

// The range of the instruction's result; nullopt while the range of an operand is not known yet.
std::optional<Range> result_range(const Instruction& i, const Ranges& ranges) {
  const std::string_view name = i[0], op = name.substr(0, name.find('.'));
  if (name.find(".sat") != std::string_view::npos) return Range{0, 1};
  if (op == "ex2") return Range{0, std::numeric_limits<float>::infinity()};
  if (op == "sin" || op == "cos" || op == "tanh") return Range{-1, 1};
  constexpr std::array<std::string_view, 7> kFollowed = {"abs", "neg", "mov", "selp", "add", "sub", "mul"};
  if (!is_one_of(op, kFollowed) || !(name.ends_with(".f32") || name.ends_with(".b32")) || i.size() < 3) return Range();
  const std::optional<Range> x = find_range(i[2], ranges);
  if (!x) return std::nullopt;
  if (op == "abs") return x->lo >= 0 ? *x : Range{0, std::max(-x->lo, x->hi)};
  if (op == "neg") return Range{-x->hi, -x->lo};
  if (op == "mov") return x;
  const std::optional<Range> y = i.size() < 4 ? Range() : find_range(i[3], ranges);
  if (!y) return std::nullopt;
  if (op == "selp") return hull({x->lo, x->hi, y->lo, y->hi});
  if (op == "add") return hull({x->lo + y->lo, x->hi + y->hi});
  if (op == "sub") return hull({x->lo - y->hi, x->hi - y->lo});
  if (i[2] == i[3] && x->lo >= 0) return hull({x->lo * x->lo, x->hi * x->hi});
  return hull({x->lo * y->lo, x->lo * y->hi, x->hi * y->lo, x->hi * y->hi});
}

// The registers that the instruction writes: one, or those between braces.
std::vector<std::string_view> results(const Instruction& i) {
  std::size_t at = i[0].starts_with('@') ? 2 : 1;
  if (at >= i.size()) return {};
  if (!i[at].starts_with('{')) return {i[at]};
  std::vector<std::string_view> out;
  for (bool last = false; at < i.size() && !last; ++at) {
    std::string_view name = i[at];
    last = name.ends_with('}');
    if (name.starts_with('{')) name.remove_prefix(1);
    if (last) name.remove_suffix(1);
    out.push_back(name);
  }
  return out;
}

// The ranges of all registers of one function.
Ranges find_ranges(std::span<const Instruction> code) {
  constexpr int kRounds = 8;  // a range that grows in more rounds than these belongs to a loop counter
  Ranges out;
  std::unordered_set<std::string_view> written;
  for (const Instruction& i : code) {
    if (i.empty()) continue;
    for (const std::string_view name : results(i)) written.insert(name);
  }
  for (const Instruction& i : code) {
    for (std::size_t at = 2; at < i.size(); ++at) {
      if (!written.contains(i[at])) out.try_emplace(i[at]);  // written by a line that is not parsed
    }
  }
  bool grew = true;
  for (int round = 0; grew; ++round) {
    grew = false;
    for (const Instruction& i : code) {
      if (i.size() < 2) continue;
      const std::optional<Range> range = result_range(i, out);
      if (!range) continue;
      for (const std::string_view name : results(i)) {
        const auto [at, is_new] = out.try_emplace(name, *range);
        const Range both = hull({at->second.lo, at->second.hi, range->lo, range->hi});
        grew |= is_new || both != at->second;
        if (both != at->second) at->second = round < kRounds ? both : Range();
      }
    }
  }
  return out;
}

// For an ordered f32 comparison, the unordered comparison that is its exact negation; empty for other instructions.
std::string_view unordered_opposite(const Instruction& i) {
  constexpr std::array<std::array<std::string_view, 2>, 4> kOpposites = {
      {{"setp.ge.f32", "ltu"}, {"setp.gt.f32", "leu"}, {"setp.lt.f32", "geu"}, {"setp.le.f32", "gtu"}}};
  for (const auto& [name, opposite] : kOpposites) {
    if (i.size() == 4 && i[0] == name) return opposite;
  }
  return {};
}

// Whether the ranges alone make this ordered comparison true.
bool is_decided(const Instruction& i, const Ranges& ranges) {
  const Range a = find_range(i[2], ranges).value_or(Range()), b = find_range(i[3], ranges).value_or(Range());
  if (a == Range() || b == Range()) return false;
  if (i[0] == "setp.ge.f32") return a.lo >= b.hi;
  if (i[0] == "setp.gt.f32") return a.lo > b.hi;
  if (i[0] == "setp.le.f32") return a.hi <= b.lo;
  return a.hi < b.lo;
}

// Marks the comparisons of one function in which ptxas would ignore NaN.
void mark_decided(std::span<const Instruction> code, std::span<uint8_t> marks) {
  if (std::all_of(code.begin(), code.end(), [](const Instruction& i) { return unordered_opposite(i).empty(); })) return;
  const Ranges ranges = find_ranges(code);
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!unordered_opposite(code[i]).empty()) marks[i] = is_decided(code[i], ranges);
  }
}

std::string opposite_negated(const Instruction& i) {
  return fmt::format("\t{{ .reg .pred q; setp.{}.f32 q, {}, {}; not.pred {}, q; }}\n", unordered_opposite(i), i[2],
                     i[3], i[1]);
}

// What a pattern may ask for beside the instruction itself.
struct Facts {
  bool negation_in_extreme = false;  // somewhere, an s32 min or max takes a negation
  bool relu_compared = false;        // somewhere, a max with 0 is compared for equality
  bool conjunction = false;          // somewhere, there is an `and` of predicates
  bool packed_clip = false;          // somewhere, f32 values are clipped at 0, and somewhere integers are packed
  bool decided = false;              // this comparison is true by ranges alone
};

struct Workaround {
  PtxasBug bug;
  bool (*matches)(const Instruction&, const Facts&);
  std::string (*rewrite)(const Instruction&);
};

// "Right in 13.3" means that this version compiles the reproducer well and that the last one seen to fail is older.
// Seen are 12.4, 12.9, 13.0, 13.1, 13.3 and 13.5, by the machine code for sm_80, sm_89, sm_90 and sm_100. Reproducers
// read %r1, %r2 and %r4, or their halves %rs1 and %f1, and what they compute wrongly is in the last register.
const Workaround kWorkarounds[] = {
    // Becomes VIMNMX.U16x2 R, P1, P1, ...: one predicate serves both halves of the register, and the predicate of the
    // upper, unused half is the one that is kept. Not in 12.4.
    {{"narrow-extreme", 1305, 90, "max.u16 %rs2, %rs1, 1; setp.eq.s16 %p1, %rs2, 1;"},
     [](const Instruction& i, const Facts&) {
       constexpr std::array<std::string_view, 4> kExtremes = {"max.u16", "max.s16", "min.u16", "min.s16"};
       return i.size() == 4 && is_one_of(i[0], kExtremes);
     },
     extreme_in_32_bits},
    // -(-32768) becomes 32768, here and wherever the negation is used as a signed value.
    {{"narrow-negation", 1303, 0, "neg.s16 %rs2, %rs1; cvt.s32.s16 %r5, %rs2;"},
     [](const Instruction& i, const Facts&) { return !negated(i).empty() && i[0].ends_with("s16"); },
     [](const Instruction& i) { return fmt::format("\tsub.u16 \t{}, 0, {};\n", i[1], negated(i)); }},
    {{"narrow-abs", 1303, 0, "abs.s16 %rs2, %rs1; cvt.s32.s16 %r5, %rs2;"},
     [](const Instruction& i, const Facts&) { return i.size() == 3 && i[0] == "abs.s16"; },
     abs_in_32_bits},
    // False for -2^31, as is everything that depends on the sign of the abs, such as a remainder. The same happens
    // with .s64.
    {{"abs-sign", 1301, 0, "abs.s32 %r3, %r1; setp.lt.s32 %p1, %r3, 0;"},
     [](const Instruction& i, const Facts&) { return i.size() == 3 && (i[0] == "abs.s32" || i[0] == "abs.s64"); },
     abs_by_max},
    // Becomes VIMNMX3 %r1, %r2, %r4: the negation is lost. The same happens with max, with .s16, and with sub.u32
    // feeding an unsigned min or max. Not in 12.4.
    {{"negation-in-extreme", 1305, 90, "neg.s32 %r3, %r2; min.s32 %r5, %r1, %r3; min.s32 %r6, %r5, %r4;"},
     [](const Instruction& i, const Facts& facts) { return facts.negation_in_extreme && is_negation(i); },
     [](const Instruction& i) { return negation_in_64_bits(i[1], negated(i)); }},
    // Becomes VIMNMX.RELU RZ, P, P, %r1, %r2: its predicate is not that of the comparison. The same happens with max in
    // place of min. Not in 12.4.
    {{"relu-compared", 1305, 90, "min.s32 %r3, %r1, %r2; max.s32 %r5, %r3, 0; setp.eq.s32 %p1, %r5, %r2;"},
     [](const Instruction& i, const Facts& facts) { return facts.relu_compared && is_relu(i); },
     relu_by_mask},
    // True even where the value is NaN, as is every ordered f32 comparison that the range of an operand decides. Ranges
    // come from abs, ex2, sin, cos, tanh and .sat, and from sums, products and selections of these.
    {{"decided-comparison", kNeverRight, 0, "abs.f32 %f2, %f1; setp.ge.f32 %p1, %f2, 0fBF800000;"},
     [](const Instruction&, const Facts& facts) { return facts.decided; },
     opposite_negated},
    // Becomes PLOP3 a, b, p, PT, q, 0x80, 0xc8: any and, or, xor or not that is then folded into it takes the `or` for
    // false.
    {{"or-beside-and", kNeverRight, 0,
      "setp.lt.s32 %p1, %r1, 7; setp.lt.s32 %p2, %r2, 9; and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; "
      "xor.pred %p5, %p1, %p4;"},
     [](const Instruction& i, const Facts& facts) { return facts.conjunction && is_disjunction(i); },
     disjunction_by_conjunction},
    // Becomes I2FP of 0 or -1, or FSET.BF: the result is +0 where -0 is expected.
    {{"minus-zero", kNeverRight, 0, "setp.lt.s32 %p1, %r1, 7; selp.f32 %f2, 0fBF800000, 0f80000000, %p1;"},
     [](const Instruction& i, const Facts&) {
       return i.size() == 5 && i[0] == "selp.f32" && is_zero_beside_one(i[2], i[3]);
     },
     [](const Instruction& i) { return fmt::format("\tselp.b32 \t{}, {}, {}, {};\n", i[1], i[2], i[3], i[4]); }},
    // Becomes F2IP.U8.F32.TRUNC.NTZ.RELU, which an H100 refuses as an illegal instruction. The same happens with s8 in
    // place of u8, with a max that is not .NaN, and with a selp of 0. Seen in 13.0.
    {{"clip-in-pack", kNeverRight, 90,
      "max.NaN.f32 %f2, %f1, 0f00000000; cvt.rzi.s32.f32 %r5, %f2; cvt.pack.sat.u8.s32.b32 %r6, %r5, %r5, 0;"},
     [](const Instruction& i, const Facts& facts) { return facts.packed_clip && is_conversion_to_s32(i); },
     [](const Instruction& i) {
       return fmt::format("\t{{ .reg .f32 a; add.rn.f32 a, {}, 0f00000000; {} {}, a; }}\n", i[2], i[0], i[1]);
     }},
};

// The text that replaces the instruction; empty if it stays.
std::string replacement(const Instruction& i, const Facts& facts, int ptxas, int sm) {
  for (const Workaround& w : kWorkarounds) {
    if (!i.empty() && ptxas < w.bug.right_in && sm >= w.bug.from_sm && w.matches(i, facts)) return w.rewrite(i);
  }
  return {};
}

}  // namespace

std::vector<PtxasBug> ptxas_bugs() {
  std::vector<PtxasBug> out;
  for (const Workaround& w : kWorkarounds) out.push_back(w.bug);
  return out;
}

int ptxas_number(const std::string& version) {
  int major = 0, minor = 0;
  return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 ? 100 * major + minor : kUnknownPtxas;
}

std::string apply_ptxas_workarounds(const std::string& ptx, int ptxas, int sm) {
  std::vector<std::string_view> lines;
  std::vector<Instruction> code;
  std::vector<std::size_t> functions;  // for each function, the line after its last
  for (std::size_t at = 0; at < ptx.size(); at += lines.back().size()) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
    lines.push_back(std::string_view(ptx).substr(at, end - at));
    code.push_back(instruction(lines.back()));
    if (lines.back().starts_with("}")) functions.push_back(lines.size());
  }
  functions.push_back(lines.size());
  Facts facts{is_taken_by(code, find_results(code, is_negation), is_min_max),
              is_taken_by(code, find_results(code, is_relu), is_equality),
              std::any_of(code.begin(), code.end(), is_and), packs_clipped(code), false};
  std::vector<uint8_t> decided(code.size());
  for (std::size_t f = 0, begin = 0; f < functions.size(); begin = functions[f++]) {
    const std::size_t size = functions[f] - begin;
    mark_decided(std::span(code).subspan(begin, size), std::span(decided).subspan(begin, size));
  }
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 16);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    facts.decided = decided[i] != 0;
    const std::string other = replacement(code[i], facts, ptxas, sm);
    out += other.empty() ? lines[i] : std::string_view(other);
  }
  return out;
}

}  // namespace fusec::codegen
