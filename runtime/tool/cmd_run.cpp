// SPDX-License-Identifier: Apache-2.0
// Implements `fusec run`: runs a model or a package once, or the evaluator on the model's graph, and prints a summary
// of the outputs or stores them as .npy files.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "fusec/session.h"
#include "ir/ops/element.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/io/tensor_file.h"
#include "runtime/tool/measure/compare.h"

namespace fusec::tool {
namespace {

constexpr int64_t kShown = 8;  // first elements

struct RunFlags : ModelFlags {
  std::string output_dir;
  bool evaluator = false;
  ValueFlags values;
};

std::vector<double> elements(const Tensor& tensor, int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  ir::visit_compute(tensor.dtype(), [&]<class T>(T) {
    std::vector<T> values(out.size());
    ir::load_elements(tensor.dtype(), tensor.data(), 0, 1, count, values.data());
    std::copy(values.begin(), values.end(), out.begin());
  });
  return out;
}

struct Summary {
  double min = INFINITY, max = -INFINITY, mean = 0;
};
Summary summarize(const Tensor& tensor) {
  Summary s;
  const std::vector<double> values = elements(tensor, tensor.num_elements());
  for (const double v : values) {
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    s.mean += v / static_cast<double>(values.size());
  }
  return s;
}

// Names of outputs may hold what a file name must not.
std::string make_file_name(const std::string& name) {
  std::string out = name.empty() ? "output" : name;
  for (char& c : out) {
    if (c == '/' || c == '\\' || c == ':' || c == '\0') c = '_';
  }
  return out + ".npy";
}

Result<std::string> store(const std::string& dir, const std::string& name, const Tensor& tensor) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  const std::string path = (std::filesystem::path(dir) / make_file_name(name)).string();
  FUSEC_TRY(write_npy(path, tensor));
  return path;
}

Status check_flags(const Front& front, const RunFlags& flags) {
  const auto bad = [](const char* why) { return Status(StatusCode::invalid_argument, why); };
  if (!flags.values.match.empty() && flags.values.dump_dir.empty()) return bad("--match selects for --dump-values DIR");
  if (flags.values.denormals && !flags.values.check) return bad("--denormals extends --check-values");
  if (!flags.values.any()) return {};
  if (flags.evaluator) return bad("--evaluator has no steps: --dump-values and --check-values look between those");
  if (front.run_values == nullptr)
    return bad("a package has no graph, so its values have no names: give --dump-values and --check-values the model");
  return {};
}

Result<std::vector<Tensor>> compute_outputs(const Front& front, const Loaded& loaded, const Symbols& symbols,
                                            const std::vector<Tensor>& inputs, const Options& options,
                                            const RunFlags& flags) {
  if (flags.evaluator) return evaluate_model(loaded.model, inputs, false);
  FUSEC_ASSIGN(const Engine engine, make_engine(front, loaded, options, symbols));
  tell_engine(engine, flags);
  FUSEC_ASSIGN(Session session, Session::create(engine));
  return session.run(inputs);
}

Result<bool> run(const Front& front, const RunFlags& flags) {
  FUSEC_TRY(check_flags(front, flags));
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, front.load(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(loaded.model, request, symbols));
  ValueReport values;
  if (flags.values.any()) {
    FUSEC_ASSIGN(values, front.run_values(loaded, options, inputs, flags.values));
  } else {
    FUSEC_ASSIGN(values.outputs, compute_outputs(front, loaded, symbols, inputs, options, flags));
  }
  const std::vector<Tensor>& outputs = values.outputs;
  const std::string where = flags.evaluator ? "evaluator" : options.device;
  Json list = Json::array();
  Table table({"output", "dtype", "shape", "min", "max", "mean", "first elements"});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = loaded.model.outputs[i].name;
    const Summary s = summarize(outputs[i]);
    const std::vector<double> first = elements(outputs[i], std::min(kShown, outputs[i].num_elements()));
    table.row({name, to_string(outputs[i].dtype()), shape_text(outputs[i].shape()), fmt::format("{:.6g}", s.min),
               fmt::format("{:.6g}", s.max), fmt::format("{:.6g}", s.mean),
               fmt::format("{:.6g}", fmt::join(first, " "))});
    Json entry = {{"name", name},
                  {"dtype", to_string(outputs[i].dtype())},
                  {"shape", outputs[i].shape()},
                  {"min", s.min},
                  {"max", s.max},
                  {"mean", s.mean},
                  {"first", first}};
    if (!flags.output_dir.empty()) {
      FUSEC_ASSIGN(entry["file"], store(flags.output_dir, name, outputs[i]));
    }
    list.push_back(std::move(entry));
  }
  if (flags.json) {
    Json json = {{"device", where}, {"symbols", symbols}, {"outputs", list}};
    if (flags.values.any()) json["values"] = values.json;
    print(json);
  } else {
    print_text(symbols.empty() ? where : where + ", " + symbols_text(symbols));
    print_text(table.str());
    if (!values.text.empty()) print_text(values.text);
  }
  return values.ok;
}

}  // namespace

Command run_command(const Front& front) {
  auto flags = std::make_shared<RunFlags>();
  return {
      "run", "run a model once and show or store its outputs",
      "  fusec run model.onnx --input image=@image.npy --output-dir out\n"
      "  fusec run model.onnx --shape image=8x3x224x224 --input image=random:7 --random-weights 1\n"
      "  fusec run model.onnx --fix N=8 --constant shape=1,-1     what the file leaves open\n"
      "  fusec run model.fsc                              a package, see fusec compile --help: a program, so it must\n"
      "                                                   belong to you or root and nobody else may write it, unless\n"
      "  fusec run model.fsc --verify-key key.pub.pem     it is signed by this key, or --trust says to run it\n"
      "  fusec run graph.fir --json",
      [flags](Flags& f) {
        declare_model(f, *flags);
        declare_package(f, *flags);
        f.option("--output-dir", flags->output_dir, "DIR: writes every output there as NAME.npy");
        f.option("--dump-values", flags->values.dump_dir,
                 "DIR: writes every value that exists between the steps there as .npy, and index.json, which names "
                 "them; with --no-fusion every node's. For debugging: launch by launch");
        f.option("--match", flags->values.match,
                 "PATTERN: of --dump-values, those whose name or origin fits, such as '*/layer1/*'");
        f.flag("--check-values", flags->values.check,
               "looks for NaN and infinities in the inputs, the weights and after each step; exit code 1 where a step "
               "makes one");
        f.flag("--denormals", flags->values.denormals, "of --check-values: subnormal numbers too");
        f.flag("--evaluator", flags->evaluator, "by the slow, plain evaluator, on the graph as imported");
      },
      [front, flags] { return run(front, *flags); }};
}

}  // namespace fusec::tool
