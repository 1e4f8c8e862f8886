// SPDX-License-Identifier: Apache-2.0
// Implements `fusec reduce`: replaces symbols of an ONNX model by numbers, removes its nodes and turns its weights into
// inputs, as long as a given command still fails in the same way. The command runs in a child process, so the candidate
// may crash or hang.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "compiler/import/onnx/import.h"
#include "ir/graph/model_internal.h"
#include "ir/text/graph_text.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/io/output.h"
#include "runtime/tool/process.h"
#include "runtime/tool/temporary_folder.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;
using importer::Submodel;
using importer::SubmodelExtractor;

struct ReduceFlags {
  std::string model, out, match;
  std::vector<std::string> command;
  std::optional<uint64_t> random_weights;
  double time_limit = 60;
  bool json = false;
};

// The command with the candidate's path in it, and what counts as failing: ending as it did on the whole model.
class Check {
 public:
  static Result<Check> make(const ReduceFlags& flags) {
    Check check(flags);
    FUSEC_ASSIGN(check.folder_, TemporaryFolder::make("reduce", {kModelFile}));
    FUSEC_ASSIGN(const Ended whole, check.run(flags.model));
    if (whole.code == 0) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("the command succeeds on '{}': nothing is to be found", flags.model));
    }
    if (whole.output.find(flags.match) == std::string::npos) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("the command's output lacks '{}' on the whole model", flags.match));
    }
    check.code_ = whole.code;
    check.say(fmt::format("the whole model: {}", ended_text(whole.code)));
    return check;
  }

  // Does a model of these bytes fail in the same way?
  Result<bool> fails(const std::string& bytes) {
    const std::string path = folder_->file(kModelFile);
    std::ofstream(path, std::ios::binary) << bytes;
    FUSEC_ASSIGN(const Ended ended, run(path));
    return ended.code == code_ && ended.output.find(flags_.match) != std::string::npos;
  }
  void say(const std::string& text) const {
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%-78s", text.c_str());
  }
  int code() const { return code_; }
  int64_t runs() const { return runs_; }

 private:
  explicit Check(const ReduceFlags& flags) : flags_(flags) {}
  static constexpr const char* kModelFile = "model.onnx";

  Result<Ended> run(const std::string& model) {
    std::vector<std::string> argv;
    for (std::string word : flags_.command) {
      for (std::size_t at = word.find("{}"); at != std::string::npos; at = word.find("{}", at + model.size())) {
        word.replace(at, 2, model);
      }
      argv.push_back(std::move(word));
    }
    ++runs_;
    return run_child(argv, flags_.time_limit);
  }

  const ReduceFlags& flags_;
  std::unique_ptr<TemporaryFolder> folder_;
  int code_ = 0;
  int64_t runs_ = 0;
};

// Removes everything from the model that the failure does not need.
class Reduction {
 public:
  Reduction(const SubmodelExtractor& cutter, Check& check) : cutter_(cutter), check_(check) {
    best_.keep.assign(cutter.num_nodes(), 1);
  }

  // Extents first: with numbers in their place, shape arithmetic is no longer needed.
  Status run() {
    FUSEC_ASSIGN(const bool still, try_cut(best_));
    if (!still) {
      return Status(StatusCode::unsupported,
                    "the model fails no more once it is written anew: its form, not its nodes, is the cause");
    }
    FUSEC_TRY(fix_symbols());
    for (bool smaller = true; smaller;) {
      const int64_t before = count();
      FUSEC_TRY(drop_nodes());
      smaller = count() < before;
    }
    return free_initializers();
  }
  int64_t count() const { return std::count(best_.keep.begin(), best_.keep.end(), 1); }
  const std::string& bytes() const { return bytes_; }

 private:
  // Whether the model cut so still fails: then it is the best so far.
  Result<bool> try_cut(const Submodel& cut) {
    const Result<std::string> bytes = cutter_.cut(cut);
    if (!bytes.ok()) return false;
    FUSEC_ASSIGN(const bool fails, check_.fails(*bytes));
    if (fails) {
      best_ = cut;
      bytes_ = *bytes;
    }
    check_.say(fmt::format("{} of {} nodes, {} runs", count(), cutter_.num_nodes(), check_.runs()));
    return fails;
  }

  Status fix_symbols() {
    for (const std::string& symbol : cutter_.symbols()) {
      for (const int64_t extent : {1, 2, 3, 8}) {
        Submodel cut = best_;
        cut.symbols[symbol] = extent;
        FUSEC_ASSIGN(const bool fails, try_cut(cut));
        if (fails) break;
      }
    }
    return {};
  }

  // Ever smaller runs of nodes, the last first.
  Status drop_nodes() {
    for (std::size_t size = (cutter_.num_nodes() + 1) / 2; size > 0; size /= 2) {
      std::vector<std::size_t> kept;
      for (std::size_t i = 0; i < best_.keep.size(); ++i) {
        if (best_.keep[i]) kept.push_back(i);
      }
      for (std::size_t end = kept.size(); end > 0; end -= std::min(size, end)) {
        Submodel cut = best_;
        for (std::size_t i = end - std::min(size, end); i < end; ++i) cut.keep[kept[i]] = 0;
        FUSEC_TRY(try_cut(cut).status());
      }
    }
    return {};
  }

  // Turns weights whose values the failure does not need into inputs, which get random values.
  Status free_initializers() {
    for (const std::string& name : cutter_.initializers(best_)) {
      Submodel cut = best_;
      cut.freed.insert(name);
      FUSEC_TRY(try_cut(cut).status());
    }
    return {};
  }

  const SubmodelExtractor& cutter_;
  Check& check_;
  Submodel best_;
  std::string bytes_;
};

Status write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  return out ? Status() : Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be written", path));
}

// Empty where the model cannot be imported, which may be what fails.
std::string graph_text(const std::string& bytes, const ReduceFlags& flags) {
  ImportOptions options;
  options.random_weights = flags.random_weights.value_or(0);
  const Result<Model> model = load_onnx_bytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options);
  return model.ok() ? ir::print(*model->graph) : std::string();
}

std::string own_program() {
  char path[PATH_MAX + 1] = {};
  const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  return (fs::path(std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0)).parent_path() / "fusec")
      .string();
}

Result<bool> reduce(ReduceFlags flags) {
  FUSEC_TRY(check_model_file(flags.model));
  if (flags.out.empty()) flags.out = fs::path(flags.model).stem().string() + ".reduced.onnx";
  if (!flags.out.ends_with(".onnx")) return Status(StatusCode::invalid_argument, "-o wants a name that ends in .onnx");
  if (flags.command.empty()) {
    flags.command = {own_program(), "verify", "{}", "--random-weights",
                     std::to_string(flags.random_weights.value_or(0))};
  }
  const bool has_place = std::any_of(flags.command.begin(), flags.command.end(),
                                     [](const std::string& word) { return word.find("{}") != std::string::npos; });
  if (!has_place)
    return Status(StatusCode::invalid_argument, "the command has no {}, which stands for the model's path");
  ImportOptions import;
  import.random_weights = flags.random_weights.value_or(0);
  const auto start = std::chrono::steady_clock::now();
  FUSEC_ASSIGN(const SubmodelExtractor cutter, SubmodelExtractor::read(flags.model, import));
  FUSEC_ASSIGN(Check check, Check::make(flags));
  Reduction reduction(cutter, check);
  const Status status = reduction.run();
  check.say("");
  FUSEC_TRY(status);
  FUSEC_TRY(write_bytes(flags.out, reduction.bytes()));
  const std::string text = graph_text(reduction.bytes(), flags),
                    fir = flags.out.substr(0, flags.out.size() - 5) + ".fir";
  if (!text.empty()) FUSEC_TRY(write_bytes(fir, text));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (flags.json) {
    print(Json{{"model", flags.out},
               {"fir", text.empty() ? "" : fir},
               {"nodes_before", cutter.num_nodes()},
               {"nodes", reduction.count()},
               {"runs", check.runs()},
               {"seconds", seconds},
               {"fails_with", ended_text(check.code())}});
  } else {
    print_text(fmt::format("{}: {} of {} nodes still end in {} ({} runs, {:.0f} s){}", flags.out, reduction.count(),
                           cutter.num_nodes(), ended_text(check.code()), check.runs(), seconds,
                           text.empty() ? "" : "; as a graph: " + fir + "\n" + (text.size() < 4000 ? text : "")));
  }
  return true;
}

}  // namespace

Command reduce_command() {
  auto flags = std::make_shared<ReduceFlags>();
  return {
      "reduce", "find the few nodes that a failure needs, and write them as a model and as a graph (.fir)",
      "  fusec reduce model.onnx                                   fusec verify differs: where?\n"
      "  fusec reduce model.onnx -o small.onnx -- fusec run {} --device cuda:0\n"
      "  fusec reduce model.onnx --match 'no lowering for' -- fusec lower {}\n"
      "A candidate fails as the whole model does: with the same exit code or signal, and with the text of --match in "
      "its output.",
      [flags](Flags& f) {
        f.argument("model", flags->model, "an .onnx model on which the command fails");
        f.rest("command", flags->command,
               "behind --: a program and its arguments, {} for the model's path; default: fusec verify {}");
        f.option("-o,--output", flags->out, "FILE.onnx to write, and FILE.fir beside it (default MODEL.reduced.onnx)");
        f.option("--match", flags->match, "TEXT that the failing command prints");
        f.option("--random-weights", flags->random_weights, "SEED of weights whose data file is absent (default 0)");
        f.option("--time-limit", flags->time_limit,
                 "seconds after which a run is ended, which is a way to fail too (default 60)");
        f.flag("--json", flags->json, "machine-readable result");
      },
      [flags] { return reduce(*flags); }};
}

}  // namespace fusec::tool
