// SPDX-License-Identifier: Apache-2.0
// Implements `fusec emit`: prints the code of the picked kernels, as the writers make it or in a form on the way to the
// machine.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"
#include "ir/text/kernel_text.h"
#include "runtime/link/link.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/kernel_code.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

struct EmitFlags : ModelFlags {
  std::string kernel, node, as;
  bool lowered = false, optimized = false, lines = false;
};

bool is_of_node(const ir::Graph& graph, const ir::Node& node, const std::string& name) {
  return node.origin.find(name) != std::string::npos || graph.values[node.output].name.find(name) != std::string::npos;
}

// The kernels of the regions with such a node: slot i of the program is region i.
std::set<ir::KernelId> kernels_of_node(const FrontEnd& f, const std::string& name) {
  std::set<ir::KernelId> out;
  for (std::size_t i = 0; i < std::min(f.partition.regions.size(), f.program.slots.size()); ++i) {
    const std::vector<ir::NodeId>& nodes = f.partition.regions[i].nodes;
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](ir::NodeId n) { return is_of_node(f.graph, f.graph.nodes[n], name); }))
      continue;
    for (const ir::Variant& variant : f.program.slots[i].variants)
      for (const ir::Step& step : variant.candidates[static_cast<std::size_t>(std::max(variant.picked, 0))].steps)
        if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) out.insert(launch->kernel);
  }
  return out;
}

// Those that --kernel and --node leave.
Result<std::vector<ir::KernelId>> wanted_kernels(const FrontEnd& f, const EmitFlags& flags) {
  std::vector<ir::KernelId> out;
  std::string names;
  const std::set<ir::KernelId> of_node = kernels_of_node(f, flags.node);
  for (const ir::KernelId id : runtime::picked_kernels(f.program)) {
    const std::string& name = f.program.kernels[id].name;
    names += " " + name;
    // A program's text calls it k0, k1, ... where it is launched.
    const bool named = flags.kernel.empty() || flags.kernel == name || flags.kernel == "k" + std::to_string(id.index);
    if (named && (flags.node.empty() || of_node.contains(id))) out.push_back(id);
  }
  if (out.empty() && !flags.node.empty())
    return Status(StatusCode::invalid_argument,
                  fmt::format("--node {}: no generated kernel{} has a node of this name; it may be folded, a view or a "
                              "library's",
                              flags.node, flags.kernel.empty() ? "" : " of that name"));
  if (out.empty() && !flags.kernel.empty())
    return Status(StatusCode::invalid_argument,
                  fmt::format("--kernel {}: there are{}", flags.kernel, names.empty() ? " none" : names));
  return out;
}

Result<bool> emit_texts(const FrontEnd& f, const EmitFlags& flags) {
  FUSEC_ASSIGN(const std::vector<ir::KernelId> ids, wanted_kernels(f, flags));
  std::string out;
  for (const ir::KernelId id : ids) {
    FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(f.program.kernels[id], f.target));
    if (flags.lowered) {
      out += ir::print(lowered) + "\n";
      continue;
    }
    FUSEC_ASSIGN(const std::string text, codegen::emit_text(lowered, f.target, f.options.codegen));
    out += text + "\n";
  }
  if (flags.json) {
    print(Json{{"stage", "emit"}, {"text", out}});
  } else {
    print_text(out);
  }
  return true;
}

Result<bool> emit_forms(const FrontEnd& f, const EmitFlags& flags) {
  FUSEC_ASSIGN(CodeRequest request, parse_code_request(flags.as, flags.optimized, f.target, f.options.codegen));
  request.lines = flags.lines;
  FUSEC_ASSIGN(const std::vector<ir::KernelId> ids, wanted_kernels(f, flags));
  Json list = Json::array();
  std::string out;
  for (const ir::KernelId id : ids) {
    const ir::Kernel& kernel = f.program.kernels[id];
    FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(kernel, f.target));
    Result<KernelCode> code = make_code(lowered, f.target, request);
    if (!code.ok()) return std::move(code).status().with_note("while making kernel '" + kernel.name + "'");
    const std::string number = "k" + std::to_string(id.index);
    if (!flags.json) {
      out +=
          commented(*code, fmt::format("kernel {} ({}): {}", kernel.name, number, f.target.name), request.form) + "\n";
      continue;
    }
    Json one = {{"kernel", kernel.name}, {"number", number}};
    one.update(make_json(*code));
    list.push_back(std::move(one));
  }
  if (flags.json) {
    print(Json{{"stage", "emit"}, {"as", flags.as}, {"target", f.target.name}, {"kernels", list}});
  } else {
    print_text(out);
  }
  return true;
}

Result<bool> emit(const EmitFlags& flags) {
  if (flags.as.empty() && flags.optimized) return Status(StatusCode::invalid_argument, "--optimized needs --as llvm");
  if (flags.lines && (flags.as.empty() || flags.as == "cuda"))
    return Status(StatusCode::invalid_argument,
                  "--lines needs --as with asm, llvm, ptx or sass; CUDA C++ has the statements as comments");
  if (!flags.as.empty() && flags.lowered)
    return Status(StatusCode::invalid_argument, "--lowered prints the kernel, --as its code: give one of them");
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::select));
  return flags.as.empty() ? emit_texts(f, flags) : emit_forms(f, flags);
}

}  // namespace

Command emit_command() {
  auto flags = std::make_shared<EmitFlags>();
  return {
      "emit", "print the code of the picked kernels: LLVM IR, CUDA C++, PTX, SASS or x86 assembly",
      "  fusec emit graph.fir                                 LLVM IR, or CUDA C++ for a GPU\n"
      "  fusec emit graph.fir --target sm_90 --as ptx         with registers, memory and blocks per SM; needs no GPU\n"
      "  fusec emit graph.fir --target x86-64-v3 --as asm     with spills and vector width\n"
      "  fusec emit graph.fir --target sm_90 --lowered        shuffles and barriers, before they are printed\n"
      "  fusec emit model.onnx --random-weights 1 --kernel k0",
      [flags](Flags& f) {
        declare_model(f, *flags, kWeights | kCompiles);
        f.option("--kernel", flags->kernel, "NAME: this one alone, by its name or, e.g., as k0");
        f.option("--node", flags->node, "NAME: only kernels with a node whose name or origin holds this");
        f.option("--as", flags->as, "llvm or asm of a CPU; cuda, llvm, ptx or sass of a GPU, with its figures");
        f.flag("--optimized", flags->optimized, "with --as llvm of a GPU: behind the passes");
        f.flag("--lines", flags->lines,
               "with --as asm, llvm, ptx or sass: the lines that --lowered prints, beside what is made of them");
        f.flag("--lowered", flags->lowered, "the kernels as the writers take them: what one thread of a GPU does");
      },
      [flags] { return emit(*flags); }};
}

}  // namespace fusec::tool
