// SPDX-License-Identifier: Apache-2.0
// Makes the code of one kernel with the emitter that the form asks for, reads the figures of its parts from the cubin
// or, for a CPU, from the assembly, and prints both.

#include "runtime/tool/kernel_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "codegen/emit.h"
#include "codegen/ptx/ptx.h"
#include "ir/text/kernel_text.h"
#include "runtime/tool/code_lines.h"
#include "runtime/tool/disassemble.h"

namespace fusec::tool {
namespace {

struct FormName {
  const char* name;
  CodeForm form;
  bool on_cpu, on_gpu;
  const char* comment;
};
constexpr FormName kForms[] = {{"cuda", CodeForm::cuda, false, true, "//"},
                               {"llvm", CodeForm::llvm, true, true, ";"},
                               {"ptx", CodeForm::ptx, false, true, "//"},
                               {"sass", CodeForm::sass, false, true, "//"},
                               {"asm", CodeForm::assembly, true, false, "#"}};

const FormName& row(CodeForm form) { return kForms[static_cast<std::size_t>(form)]; }

Status no_such_form(const std::string& form, const Target& target) {
  std::string known;
  for (const FormName& f : kForms)
    if (target.kind == TargetKind::cpu ? f.on_cpu : f.on_gpu)
      known += (known.empty() ? "" : ", ") + std::string(f.name);
  return Status(StatusCode::invalid_argument,
                fmt::format("--as {}: code for {} is printed as {}", form, target.name, known));
}

// The emitter that a form is of, where it is of one.
Codegen emitter_of(const CodeRequest& request) {
  if (request.form == CodeForm::cuda) return Codegen::nvrtc;
  return request.form == CodeForm::llvm ? Codegen::llvm : request.codegen;
}

// "NVRTC", from the artifact's key.
std::string maker(const codegen::Artifact& artifact) {
  return artifact.key.substr(0, artifact.key.find('\n')).ends_with("codegen=nvrtc") ? "NVRTC" : "LLVM";
}

std::vector<CodePart> gpu_parts(const codegen::Artifact& artifact, const Target& target) {
  const auto resources = codegen::cuda::read_resources(artifact.image);
  std::vector<CodePart> out;
  for (const codegen::ArtifactPhase& phase : artifact.phases) {
    CodePart& part = out.emplace_back();
    part.name = phase.entry;
    part.threads = phase.threads;
    part.registers = phase.registers;
    part.local_bytes = phase.local_bytes;
    part.shared_bytes = phase.shared_bytes + phase.dynamic_shared;
    const auto used = resources.find(phase.entry);
    if (used != resources.end()) part.instructions = used->second.instructions;
    const auto occupancy =
        codegen::cuda::count_resident_blocks(target, phase.threads, phase.registers, part.shared_bytes);
    part.blocks_per_sm = occupancy.blocks;
    part.bound = occupancy.bound;
  }
  return out;
}

// The bytes in "# 32-byte Spill" and "# 32-byte Folded Spill"; else 0.
int64_t spilled(const std::string& line) {
  const std::size_t at = line.find("-byte ");
  if (at == std::string::npos || !line.ends_with("Spill")) return 0;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return std::atoll(line.substr(begin, at - begin).c_str());
}

int widest_register(const std::string& line) {
  if (line.find("%zmm") != std::string::npos) return 64;
  if (line.find("%ymm") != std::string::npos) return 32;
  return line.find("%xmm") != std::string::npos ? 16 : 0;
}

// The functions of the assembly: from the label that .type declares to that of the end.
std::vector<CodePart> cpu_parts(const std::string& assembly) {
  std::vector<CodePart> out;
  std::set<std::string> functions;
  bool inside = false;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kType = "\t.type\t", kFunction = ",@function";
    if (line.starts_with(kType) && line.find(kFunction) != std::string::npos)
      functions.insert(line.substr(kType.size(), line.find(kFunction) - kType.size()));
    if (const std::string label = line.substr(0, line.find(':')); functions.contains(label)) {
      out.emplace_back().name = label;
      inside = true;
    }
    inside = inside && !line.starts_with(".Lfunc_end");
    if (!inside || line.size() < 2 || line[0] != '\t' || line[1] == '.' || line[1] == '#') continue;
    CodePart& part = out.back();
    ++part.instructions;
    part.local_bytes += spilled(line);
    part.vector_bytes = std::max(part.vector_bytes, widest_register(line));
  }
  return out;
}

Result<KernelCode> make_cpu_code(const ir::Kernel& lowered, const Target& target, const CodeRequest& request) {
  KernelCode code;
  code.made_by = "LLVM";
  FUSEC_ASSIGN(std::string assembly, codegen::emit_assembly(lowered, target, request.lines));
  code.parts = cpu_parts(assembly);
  code.text = std::move(assembly);
  if (request.form == CodeForm::llvm) {
    FUSEC_ASSIGN(code.text, codegen::emit_text(lowered, target, Codegen::llvm, request.lines));
  }
  return code;
}

// LLVM IR and CUDA C++ are there even where nothing makes machine code of them.
Result<std::string> written_text(const ir::Kernel& lowered, const Target& target, const CodeRequest& request) {
  if (request.optimized) return codegen::emit_optimized_text(lowered, target, request.lines);
  return codegen::emit_text(lowered, target, emitter_of(request), request.lines);
}

Result<codegen::Artifact> make_artifact(const ir::Kernel& lowered, const Target& target, const CodeRequest& request) {
  codegen::EmitOptions options;
  options.codegen = emitter_of(request);
  options.lines = request.lines;
  return codegen::emit(lowered, target, options);
}

Result<KernelCode> make_gpu_code(const ir::Kernel& lowered, const Target& target, const CodeRequest& request) {
  KernelCode code;
  const bool is_written = request.form == CodeForm::cuda || request.form == CodeForm::llvm;
  if (is_written) {
    FUSEC_ASSIGN(code.text, written_text(lowered, target, request));
  }
  const Result<codegen::Artifact> artifact = make_artifact(lowered, target, request);
  if (!artifact.ok()) {
    if (!is_written) return artifact.status();
    code.made_by = request.form == CodeForm::cuda ? "NVRTC" : "LLVM";
    code.no_parts = artifact.status().message();
    return code;
  }
  code.made_by = maker(*artifact);
  if (artifact->image.empty()) {
    code.no_parts = "no assembler of PTX was found; fusec doctor says where it was looked for";
    if (request.form == CodeForm::sass) return Status(StatusCode::unsupported, "--as sass: " + code.no_parts);
  } else {
    code.parts = gpu_parts(*artifact, target);
  }
  if (request.form == CodeForm::ptx) code.text = artifact->ptx;
  if (request.form == CodeForm::sass) {
    FUSEC_ASSIGN(code.text, disassemble(artifact->image, request.lines));
  }
  return code;
}

}  // namespace

const char* comment_of(CodeForm form) { return row(form).comment; }

std::string part_text(const CodePart& part) {
  if (part.threads == 0)
    return fmt::format("{}: {} instructions, vectors of {} bytes, spills write {} bytes", part.name, part.instructions,
                       part.vector_bytes, part.local_bytes);
  return fmt::format(
      "{}: {} instructions; {} threads with {} registers and {} bytes of local memory (spills and arrays); {} bytes of "
      "shared memory; {} blocks per SM, bound by {}",
      part.name, part.instructions, part.threads, part.registers, part.local_bytes, part.shared_bytes,
      part.blocks_per_sm, part.bound);
}

Result<CodeRequest> parse_code_request(const std::string& form, bool optimized, const Target& target, Codegen codegen) {
  const auto* found =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const FormName& f) { return f.name == form; });
  const bool on_cpu = target.kind == TargetKind::cpu;
  if (found == std::end(kForms) || !(on_cpu ? found->on_cpu : found->on_gpu)) return no_such_form(form, target);
  if (codegen::evaluates_kernels(target))
    return Status(StatusCode::unsupported, fmt::format("--as {}: this build has no LLVM: kernels are evaluated", form));
  const CodeRequest request{found->form, codegen, optimized};
  if (!on_cpu && codegen != Codegen::automatic && emitter_of(request) != codegen)
    return Status(StatusCode::invalid_argument, fmt::format("--as {} is not what --codegen {} makes", form,
                                                            codegen == Codegen::llvm ? "llvm" : "nvrtc"));
  if (optimized && (on_cpu || found->form != CodeForm::llvm))
    return Status(StatusCode::invalid_argument,
                  "--optimized is for --as llvm on a GPU: the LLVM IR of a CPU's kernel goes through no pass");
  return request;
}

Result<KernelCode> make_code(const ir::Kernel& lowered, const Target& target, const CodeRequest& request) {
  Result<KernelCode> code = target.kind == TargetKind::cpu ? make_cpu_code(lowered, target, request)
                                                           : make_gpu_code(lowered, target, request);
  if (code.ok() && request.lines) code->text = with_kernel_lines(code->text, ir::print(lowered), request.form);
  return code;
}

std::string commented(const KernelCode& code, const std::string& title, CodeForm form) {
  const std::string comment = row(form).comment;
  std::string out = fmt::format("{} {}, made by {}\n", comment, title, code.made_by);
  for (const CodePart& part : code.parts) out += fmt::format("{}   {}\n", comment, part_text(part));
  if (!code.no_parts.empty())
    out += fmt::format("{}   no figures: {}\n", comment, code.no_parts.substr(0, code.no_parts.find('\n')));
  return out + code.text;
}

Json make_json(const CodePart& part) {
  Json one = {{"name", part.name}, {"instructions", part.instructions}};
  if (part.threads == 0) {
    one["vector_bytes"] = part.vector_bytes;
    one["spilled_bytes"] = part.local_bytes;
    return one;
  }
  one["threads"] = part.threads;
  one["registers"] = part.registers;
  one["local_bytes"] = part.local_bytes;
  one["shared_bytes"] = part.shared_bytes;
  one["blocks_per_sm"] = part.blocks_per_sm;
  one["bound"] = part.bound;
  return one;
}

Json make_json(const KernelCode& code) {
  Json parts = Json::array();
  for (const CodePart& part : code.parts) parts.push_back(make_json(part));
  Json out = {{"made_by", code.made_by}, {"parts", parts}};
  if (!code.no_parts.empty()) out["no_figures"] = code.no_parts;
  out["text"] = code.text;
  return out;
}

}  // namespace fusec::tool
