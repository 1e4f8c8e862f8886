// SPDX-License-Identifier: Apache-2.0
// Text tests of the compiler's stages. The target is named in the arguments where it matters (default x86-64-v3).
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "commands.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/schedule/schedule.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/text/program_text.h"
#include "ir/verify/graph.h"
#include "ir/verify/kernel.h"

namespace fusec::text_test {

namespace {

struct Setting {
  ir::Graph graph;
  Target target;
  Options options;
};

// Words of the arguments: a target's name, "exact", "no_library", "no_cudnn" (behind the target), "threads=8", or
// anything else, which is returned.
Result<Setting> setting(ir::Graph graph, const std::string& args, std::vector<std::string>* rest = nullptr) {
  Setting s;
  s.graph = std::move(graph);
  FUSEC_ASSIGN(s.target, named_target("x86-64-v3"));
  s.options.verify_each_pass = true;
  std::istringstream words(args);
  for (std::string word; words >> word;) {
    if (word.starts_with("x86-64") || word.starts_with("sm_")) {
      FUSEC_ASSIGN(s.target, named_target(word));
    } else if (word == "exact") {
      s.options.numerics = Numerics::exact;
    } else if (word == "no_library") {
      s.options.use_library = false;
    } else if (word == "no_cudnn") {
      std::erase(s.target.libraries, "cudnn");
    } else if (word.starts_with("threads=")) {
      s.target.threads = std::stoi(word.substr(std::string_view("threads=").size()));
    } else if (word == "f16" || word == "bf16") {
      s.options.precision = parse_dtype(word);
    } else if (rest != nullptr) {
      rest->push_back(word);
    }
  }
  return s;
}

Result<Setting> setting(const std::string& input, const std::string& args, std::vector<std::string>* rest = nullptr) {
  FUSEC_ASSIGN(ir::Graph graph, ir::parse_graph(input));
  return setting(std::move(graph), args, rest);
}

// "candidates" among the words: with those that can be measured, not only those that select may take.
Result<ir::Program> lowered(Setting& s, const std::vector<std::string>& words) {
  FUSEC_ASSIGN(compiler::Partition parts, compiler::partition(s.graph, s.target, s.options));
  compiler::CandidateLimits limits;
  if (std::find(words.begin(), words.end(), "candidates") != words.end())
    limits.is_measured = [](const ir::Kernel&) { return true; };
  return compiler::lower(s.graph, parts, s.target, s.options, {}, limits);
}

}  // namespace

// pass <name> ...: the graph after these passes.
Result<std::string> run_pass(const std::string& input, const std::string& args) {
  std::vector<std::string> names;
  FUSEC_ASSIGN(Setting s, setting(input, args, &names));
  const compiler::PassContext context{s.target, s.options};
  for (const std::string& name : names) {
    const compiler::Pass* pass = compiler::find_pass(name);
    if (pass == nullptr) return Status(StatusCode::invalid_argument, "no pass is named " + name);
    const auto changed = compiler::run_pass(*pass, s.graph, context);
    if (!changed.ok()) return changed.status();
  }
  return ir::print(compact(s.graph));
}

Result<std::string> optimized_text(ir::Graph graph, const std::string& args) {
  FUSEC_ASSIGN(Setting s, setting(std::move(graph), args));
  FUSEC_TRY(compiler::optimize(s.graph, s.target, s.options));
  return ir::print(s.graph);
}

// partition: regions and boundaries of the graph as it is; `optimized`: of the optimized graph.
Result<std::string> run_partition(const std::string& input, const std::string& args) {
  std::vector<std::string> words;
  FUSEC_ASSIGN(Setting s, setting(input, args, &words));
  if (!words.empty() && words[0] == "optimized") FUSEC_TRY(compiler::optimize(s.graph, s.target, s.options));
  FUSEC_ASSIGN(compiler::Partition parts, compiler::partition(s.graph, s.target, s.options));
  return to_string(s.graph, parts);
}

// Whether the kernel is one of a first candidate.
static bool is_of_first(const ir::Program& program, ir::KernelId id) {
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants)
      for (const ir::Step& step : variant.candidates.at(0).steps) {
        const auto* launch = std::get_if<ir::KernelStep>(&step.v);
        if (launch != nullptr && launch->kernel == id) return true;
      }
  return false;
}

// One line of what the candidates of a variant are; none where there is one.
static std::string candidates_line(const ir::Variant& variant) {
  if (variant.candidates.size() < 2) return "";
  std::ostringstream text;
  for (const ir::Candidate& c : variant.candidates)
    text << (&c == &variant.candidates[0] ? "candidates: " : "; ") << c.predicted_us << " us " << c.why;
  return text.str() + "\n";
}

// lower: the kernels of the graph's first candidates, and what the others are; the verifier checks all of them. `nest`:
// before they are scheduled; `candidates`: all that can be measured.
Result<std::string> run_lower(const std::string& input, const std::string& args) {
  std::vector<std::string> words;
  FUSEC_ASSIGN(Setting s, setting(input, args, &words));
  std::string text;
  if (!words.empty() && words[0] == "nest") {
    FUSEC_ASSIGN(compiler::Partition parts, compiler::partition(s.graph, s.target, s.options));
    for (const compiler::Region& region : parts.regions) {
      if (region.kind != compiler::RegionKind::kernel) continue;
      FUSEC_ASSIGN(compiler::LoopNest nest, compiler::build_loop_nest(s.graph, parts.storage, region, {}));
      text += ir::print(nest.kernel);
    }
    return text;
  }
  FUSEC_ASSIGN(ir::Program program, lowered(s, words));
  for (uint32_t i = 0; i < program.kernels.size(); ++i) {
    const ir::Kernel& kernel = program.kernels[ir::KernelId{i}];
    FUSEC_TRY(verify(kernel));
    if (is_of_first(program, ir::KernelId{i})) text += ir::print(kernel);
  }
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants) text += candidates_line(variant);
  return text;
}

// select: the program with its picks; `candidates`: as for lower.
// Packages keep programs as text.
static Status check_reads_back(const ir::Program& program) {
  const std::string text = ir::print(program);
  FUSEC_ASSIGN(const ir::Program again, ir::parse_program(text));
  if (ir::print(again) == text) return {};
  return Status(StatusCode::internal, "the text of the program is read as another:\n" + ir::print(again));
}

Result<std::string> run_select(const std::string& input, const std::string& args) {
  std::vector<std::string> words;
  FUSEC_ASSIGN(Setting s, setting(input, args, &words));
  FUSEC_ASSIGN(ir::Program program, lowered(s, words));
  FUSEC_TRY(compiler::select(program, s.target));
  FUSEC_TRY(check_reads_back(program));
  for (ir::Kernel& kernel : program.kernels) kernel.body.clear();  // `lower` shows them
  return ir::print(program);
}

}  // namespace fusec::text_test
