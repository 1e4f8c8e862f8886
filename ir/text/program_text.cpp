// SPDX-License-Identifier: Apache-2.0
// Prints programs as text, for dumps, tests and packages. Constants are named by position; their bytes are not printed.

#include "ir/text/program_text.h"

#include <fmt/format.h>

#include "ir/text/kernel_text.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

std::string signature_text(const std::vector<std::string>& names, const std::vector<Type>& types) {
  std::string out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : "";
    out += fmt::format("{}{}: {}", i ? ", " : "", sigil_name('%', name), to_string(types[i]));
  }
  return out;
}

std::string alloc_text(AllocId id, const Allocation& a) {
  constexpr const char* kKinds[] = {"input", "output", "constant", "temporary"};
  std::string out = fmt::format("%a{}: {}", id.index, kKinds[static_cast<std::size_t>(a.kind)]);
  if (a.kind != AllocKind::temporary) out += fmt::format(" {}", a.ordinal);
  if (!a.name.empty()) out += " " + quote(a.name);
  return out + fmt::format(" {} {}", fusec::to_string(a.dtype), a.elements.str());
}

std::string views(const std::vector<View>& list) { return listed(list, print_view); }

// The parameters that an epilogue's op reads: " alpha 0.1 beta 0".
std::string epilogue_text(const Epilogue& e) {
  std::string out(info(e.op).name);
  if (e.operand >= 0) out += fmt::format(" {}", e.operand);
  if (e.alpha != 0 || e.beta != 0) out += fmt::format(" alpha {} beta {}", literal(e.alpha), literal(e.beta));
  return out;
}

std::string step_text(const KernelStep& s) {
  std::string out = fmt::format("launch k{}({})", s.kernel.index, views(s.args));
  return s.extents.empty() ? out : out + fmt::format(" extents({})", listed(s.extents));
}

std::string step_text(const LibraryStep& s) {
  std::string out = fmt::format("call {}{} {}({})", info(s.op).name, print_attrs(s.op, s.attrs),
                                fusec::to_string(s.compute), views(s.args));
  if (s.bias >= 0) out += fmt::format(" bias {}", s.bias);
  return s.epilogues.empty() ? out : out + fmt::format(" then {}", listed(s.epilogues, epilogue_text));
}

std::string comment(const std::string& text) { return text.empty() ? "" : "  // " + escaped(text); }

std::string candidate_text(const Candidate& c, bool picked) {
  std::string out =
      fmt::format("      candidate{} {} us {{{}\n", picked ? " picked" : "", literal(c.predicted_us), comment(c.why));
  for (const Step& s : c.steps) out += "        " + print_step(s) + "\n";
  return out + "      }\n";
}

std::string variant_text(const Variant& v) {
  std::string out = v.when.empty() ? "    otherwise {\n" : fmt::format("    when {} {{\n", listed(v.when));
  for (std::size_t i = 0; i < v.candidates.size(); ++i) {
    out += candidate_text(v.candidates[i], static_cast<int>(i) == v.picked);
  }
  return out + "    }\n";
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += "  ";
  }
  return out;
}

std::string head(const Program& p) {
  std::string out =
      fmt::format("program {}({}) -> ({})", sigil_name('@', p.name), signature_text(p.input_names, p.input_types),
                  signature_text(p.output_names, p.output_types));
  if (!p.symbols.empty()) out += fmt::format(" symbols({})", listed(p.symbols, [](const std::string& s) { return s; }));
  return out + limits_text(p.limits) + fmt::format(" ops {} {{\n", p.imported_ops);
}

}  // namespace

std::string print_view(const View& view) {
  std::string out = fmt::format("%a{}", view.alloc.index);
  if (!view.offset.is(0)) out += " + " + view.offset.str();
  out += " " + to_string(view.shape);
  return view.strides == contiguous_strides(view.shape) ? out : out + " strides " + to_string(view.strides);
}

std::string print_step(const Step& step) {
  return std::visit([](const auto& s) { return step_text(s); }, step.v) + comment(step.origin);
}

std::string print(const Program& program) {
  std::string out = head(program);
  for (uint32_t i = 0; i < program.allocs.size(); ++i) {
    out += "  " + alloc_text({i}, program.allocs[{i}]) + "\n";
  }
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    out += fmt::format("  slot {} {{\n", i);
    for (const Variant& v : program.slots[i].variants) out += variant_text(v);
    out += "  }\n";
  }
  for (const std::string& note : program.notes) out += "  note " + quote(note) + "\n";
  for (uint32_t i = 0; i < program.kernels.size(); ++i) {
    out += fmt::format("  // k{}\n", i) + indented(print(program.kernels[{i}]));
  }
  return out + "}\n";
}

}  // namespace fusec::ir
