// SPDX-License-Identifier: Apache-2.0
// Writes the model with more outputs, the inputs and the names of what is wanted into a folder, and has a few lines of
// Python run it. The model's own strings are in files alone: no command and no file name has them.

#include "runtime/tool/onnxruntime_values.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "runtime/tool/io/output.h"
#include "runtime/tool/io/tensor_file.h"
#include "runtime/tool/process.h"
#include "runtime/tool/temporary_folder.h"
#if FUSEC_WITH_ONNX
#include "compiler/import/onnx/import.h"
#include "runtime/tool/import_flags.h"
#endif

namespace fusec::tool {

#if FUSEC_WITH_ONNX
namespace {

namespace fs = std::filesystem;

constexpr double kMaxSeconds = 3600;
constexpr int kNoPackage = 3;
constexpr const char* kScript = R"(
import json, os, sys
try:
    import numpy, onnxruntime
except ImportError as error:
    print(error)
    sys.exit(3)
folder = sys.argv[1]
with open(os.path.join(folder, "job.json")) as file:
    job = json.load(file)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
feeds = {name: numpy.load(os.path.join(folder, file)) for name, file in job["inputs"].items()}
for i, value in enumerate(session.run(job["outputs"], feeds)):
    if isinstance(value, numpy.ndarray) and value.dtype != object:
        numpy.save(os.path.join(folder, "output-%d.npy" % i), value)
)";

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Status run_script(const std::string& python, const TemporaryFolder& folder) {
  const Progress progress("running ONNX Runtime");
  FUSEC_ASSIGN(const Ended ended, run_child({python, "-c", kScript, folder.path()}, kMaxSeconds));
  if (ended.code == 0) return {};
  if (ended.code == kNoPackage) {
    return Status(
        StatusCode::invalid_argument,
        fmt::format("--against onnxruntime: '{}' says: {}. Install the packages numpy and onnxruntime, or name "
                    "an interpreter that has them with --python",
                    python, last_line(ended.output)));
  }
  return Status(StatusCode::unsupported, fmt::format("ONNX Runtime does not run the model ({}): {}",
                                                     ended_text(ended.code), last_line(ended.output)));
}

class Job {
 public:
  explicit Job(const TemporaryFolder& folder) : folder_(folder) {}
  Status add_input(const std::string& name, const Tensor& value) {
    const std::string file = fmt::format("input-{}.npy", inputs_.size());
    inputs_[name] = file;
    return write_npy(folder_.file(file), value);
  }
  std::size_t add_output(const std::string& name) {
    outputs_.push_back(name);
    return outputs_.size() - 1;
  }
  Status write() const {
    std::ofstream out(folder_.file("job.json"));
    out << Json{{"inputs", inputs_}, {"outputs", outputs_}}.dump() << std::flush;
    return out ? Status() : Status(StatusCode::device, fmt::format("'{}' cannot be written", folder_.path()));
  }
  // nullopt: it is no tensor of a type that numpy has.
  Result<std::optional<Tensor>> read(std::size_t output) const {
    const std::string path = folder_.file(fmt::format("output-{}.npy", output));
    std::error_code error;
    if (!fs::exists(path, error)) return std::optional<Tensor>();
    FUSEC_ASSIGN(Tensor value, read_npy(path));
    return std::optional<Tensor>(std::move(value));
  }

 private:
  const TemporaryFolder& folder_;
  Json inputs_ = Json::object();
  std::vector<std::string> outputs_;
};

}  // namespace

Result<OnnxRuntimeValues> run_onnxruntime(const ModelFlags& flags, const std::string& python, const Model& model,
                                          const std::vector<Tensor>& inputs, const std::set<std::string>& origins) {
  if (!flags.model.ends_with(".onnx"))
    return Status(StatusCode::invalid_argument,
                  "--against onnxruntime runs .onnx files: '" + flags.model + "' is none");
  ImportOptions options;
  options.external_roots = flags.external_roots;
  FUSEC_TRY(apply_import_flags(flags.model, flags, options));
  FUSEC_ASSIGN(const std::unique_ptr<TemporaryFolder> folder,
               TemporaryFolder::make("compare", {"model.onnx", "model.onnx.data"}));
  FUSEC_ASSIGN(const std::vector<importer::NodeValue> values,
               importer::materialize_with_values(flags.model, folder->file("model.onnx"),
                                                 flags.random_weights.value_or(0), origins, options));
  Job job(*folder);
  for (std::size_t i = 0; i < inputs.size(); ++i) FUSEC_TRY(job.add_input(model.inputs[i].name, inputs[i]));
  for (const auto& [name, value] : options.constants) FUSEC_TRY(job.add_input(name, value));
  for (const TensorInfo& output : model.outputs) job.add_output(output.name);
  for (const importer::NodeValue& value : values) job.add_output(value.name);
  FUSEC_TRY(job.write());
  FUSEC_TRY(run_script(python, *folder));
  OnnxRuntimeValues out;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    FUSEC_ASSIGN(std::optional<Tensor> value, job.read(i));
    if (value) out.outputs[model.outputs[i].name] = *std::move(value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    FUSEC_ASSIGN(std::optional<Tensor> value, job.read(model.outputs.size() + i));
    if (value) out.by_origin.emplace(values[i].origin, *std::move(value));
  }
  return out;
}
#else
Result<OnnxRuntimeValues> run_onnxruntime(const ModelFlags&, const std::string&, const Model&,
                                          const std::vector<Tensor>&, const std::set<std::string>&) {
  return Status(StatusCode::unsupported, "--against onnxruntime: this build reads no ONNX");
}
#endif

}  // namespace fusec::tool
