// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <sstream>

#include "compiler/lower/gpu/gpu.h"
#include "ir/eval/graph.h"
#include "ir/eval/kernel.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/text/commands.h"
#include "tests/text/inputs.h"
#include "tests/text/kernel_cases.h"

namespace fusec::text_test {
namespace {

Status wrong(std::string message) { return Status(StatusCode::internal, std::move(message)); }

std::string canonical_text(const ir::Kernel& kernel) { return ir::print(ir::canonical(kernel)); }

Result<std::string> roundtrip(const ir::Kernel& kernel) {
  std::string text = ir::print(kernel);
  FUSEC_ASSIGN(const ir::Kernel again, ir::parse_kernel(text));
  if (ir::print(again) != text) return wrong("printed again, the text differs:\n" + ir::print(again));
  const std::string canonical = canonical_text(kernel);
  if (canonical_text(again) != canonical) return wrong("the printed text parses to another kernel:\n" + text);
  FUSEC_ASSIGN(const ir::Kernel plain, ir::parse_kernel(canonical));
  if (canonical_text(plain) != canonical)
    return wrong("the canonical text of the canonical text differs:\n" + canonical);
  return text;
}

std::string result(const ir::Kernel& kernel) {
  const std::vector<std::string> all = ir::findings(kernel);
  if (all.empty()) return "verified\n";
  std::string out;
  for (const std::string& finding : all) out += finding + "\n";
  return out;
}

// Runs `kernel`, which is that of the input or its lowered form, on the arguments that the input states.
Result<std::string> evaluated(const std::string& input, const ir::Kernel& kernel) {
  FUSEC_ASSIGN(const KernelCase c, parse_kernel_case(input));
  const auto done = ir::evaluate(kernel, c.args, c.extents);
  std::string out = done.ok() ? "" : done.status().str() + "\n";
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const ir::Buffer& b = c.kernel.buffers[c.kernel.params[i]];
    if (b.space == ir::Space::out) out += summarize(b.name, c.args[i]);
  }
  return out;
}

// Lines "// extent n = 5".
std::map<std::string, int64_t> stated_extents(const std::string& text) {
  std::map<std::string, int64_t> extents;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string slashes, word, name, equals;
    int64_t value = 0;
    if (words >> slashes >> word >> name >> equals >> value && slashes == "//" && word == "extent")
      extents[name] = value;
  }
  return extents;
}

Shape named(const ir::Kernel& kernel, const ir::IndexShape& shape) {
  Shape dims;
  for (const ir::IndexExpr& e : shape) dims.push_back(ir::named(kernel, e));
  return dims;
}

}  // namespace

Result<KernelCase> parse_kernel_case(const std::string& text) {
  KernelCase c;
  FUSEC_ASSIGN(c.kernel, ir::parse_kernel(text));
  ir::Graph signature;
  for (const ir::BufferId id : c.kernel.params) {
    const ir::Buffer& b = c.kernel.buffers[id];
    if (b.space == ir::Space::in) ir::add_input(signature, b.name, {b.dtype, named(c.kernel, b.shape)});
  }
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, parse_inputs(signature, text));
  FUSEC_ASSIGN(c.extents, ir::bind_symbols(signature, inputs));
  for (const auto& [name, value] : stated_extents(text)) c.extents[name] = value;
  std::size_t next = 0;
  for (const ir::BufferId id : c.kernel.params) {
    const ir::Buffer& b = c.kernel.buffers[id];
    if (b.space == ir::Space::in) {
      c.args.push_back(inputs[next++]);
      continue;
    }
    std::vector<int64_t> shape;
    for (const Dim& d : named(c.kernel, b.shape)) shape.push_back(d.eval(c.extents).value_or(-1));
    FUSEC_ASSIGN(Tensor out, Tensor::make(b.dtype, shape));
    c.args.push_back(std::move(out));
  }
  return c;
}

Result<std::string> run_kernel(const std::string& input, const std::string& args) {
  auto kernel = ir::parse_kernel(input);
  if (args == "error")
    return kernel.ok() ? Result<std::string>(wrong("the text has no error")) : kernel.status().str() + "\n";
  FUSEC_TRY(kernel.status());
  const bool lowers = args.find("lowered") != std::string::npos;
  if (lowers) {
    kernel = compiler::lower_to_threads(*kernel);
    FUSEC_TRY(kernel.status());
  }
  std::string out;
  if (args.find("roundtrip") != std::string::npos) {
    FUSEC_ASSIGN(const std::string text, roundtrip(*kernel));
    out += text;
  }
  if (args.find("canonical") != std::string::npos) out += canonical_text(*kernel);
  if (args.find("verify") != std::string::npos) out += result(*kernel);
  if (args.find("run") != std::string::npos) {
    FUSEC_ASSIGN(const std::string values, evaluated(input, *kernel));
    out += values;
  }
  return out.empty() ? Result<std::string>(wrong("the command says nothing to do")) : out;
}

}  // namespace fusec::text_test
