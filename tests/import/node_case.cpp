// SPDX-License-Identifier: Apache-2.0
#include "tests/import/node_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <regex>
#include <set>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/scalar.h"
#include "compiler/import/onnx/tensor_proto.h"
#include "fusec/engine.h"
#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "ir/model_internal.h"

namespace fusec::importer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuite = "/usr/share/libonnx-testdata/data";
constexpr int64_t kAnySize = int64_t{1} << 40;

// The window functions' outputs were computed with pi = 3.1415.
bool has_coarse_pi(const std::string& name) {
  return name.starts_with("test_blackmanwindow") || name.starts_with("test_hammingwindow") ||
         name.starts_with("test_hannwindow");
}

// This version of the suite stores bf16 as u16.
Tensor as_dtype(Tensor tensor, DType dtype) {
  if (tensor.dtype() != DType::u16 || dtype != DType::bf16) return tensor;
  auto owner = std::make_shared<Tensor>(std::move(tensor));
  return Tensor::share(DType::bf16, owner->shape(), owner->data(), owner);
}

Result<Tensor> read_pb(const fs::path& path) {
  try {
    FUSEC_ASSIGN(std::vector<uint8_t> bytes, read_file(path.string(), kAnySize));
    proto::TensorProto tensor;
    if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return Status(StatusCode::unsupported, "no TensorProto");
    ImportOptions options;
    TensorSource source{&options, {}};
    return read_tensor(tensor, source);
  } catch (const ImportError& error) {
    return error.status;
  }
}

Result<std::vector<Tensor>> read_all(const fs::path& folder, const std::string& stem, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    fs::path file = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) return Status(StatusCode::unsupported, "no file " + file.string());
    FUSEC_ASSIGN(Tensor tensor, read_pb(file));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Empty when `got` is `want` within the rounding of a few operations.
std::string difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (got.dtype() != want.dtype())
    return std::string("dtype ") + to_string(got.dtype()) + " for " + to_string(want.dtype());
  if (got.shape() != want.shape())
    return "shape " + to_string(Shape(got.shape().begin(), got.shape().end())) + " for " +
           to_string(Shape(want.shape().begin(), want.shape().end()));
  if (got.dtype() == DType::f16) tolerance = 2e-3;
  if (got.dtype() == DType::bf16) tolerance = 2e-2;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    double a = load_f64(got, i), b = load_f64(want, i);
    bool equal = a == b || (std::isnan(a) && std::isnan(b));
    if (!equal && is_float(got.dtype())) equal = std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
    if (!equal) return "element " + std::to_string(i) + " is " + std::to_string(a) + " for " + std::to_string(b);
  }
  return "";
}

bool is_read(const ir::Graph& graph, ir::ValueId value) {
  if (std::count(graph.outputs.begin(), graph.outputs.end(), value) > 0) return true;
  return std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) {
    const auto& inputs = graph.nodes[id].inputs;
    return std::count(inputs.begin(), inputs.end(), value) > 0;
  });
}

// The data as the graph declares it. Some cases give a CastLike one element for a `like` of shape [3, 4]: where nothing
// reads the input, zeros of the declared shape serve as well.
Tensor as_declared(const ir::Graph& graph, ir::ValueId input, const Tensor& data) {
  const ir::Type& type = graph.type(input);
  const Shape given(data.shape().begin(), data.shape().end());
  const bool is_known = std::all_of(type.shape.begin(), type.shape.end(), [](const Dim& d) { return d.is_const(); });
  if (given == type.shape || !is_known || is_read(graph, input)) return as_dtype(data, type.dtype);
  std::vector<int64_t> extents;
  for (const Dim& d : type.shape) extents.push_back(d.value());
  Tensor zeros = *Tensor::make(type.dtype, extents);
  std::memset(zeros.data(), 0, zeros.bytes());
  return zeros;
}

Result<std::vector<Tensor>> run(const ir::Graph& graph, const std::vector<Tensor>& inputs, const Runner& runner) {
  if (!runner.options) return ir::evaluate(graph, inputs);
  FUSEC_ASSIGN(const Engine engine, Engine::compile(ir::make_model(graph), *runner.options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  return session.run(inputs);
}

// One case: its data, how close a result must be, and what runs it.
struct Case {
  fs::path data;
  double tolerance;
  const Runner& runner;
};

Outcome compare_outputs(const ir::Graph& graph, std::vector<Tensor> inputs, const Case& c) {
  auto want = read_all(c.data, "output", graph.outputs.size());
  if (!want.ok()) return {Outcome::unsupported, want.status().str()};
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = as_declared(graph, graph.inputs[i], inputs[i]);
  auto got = run(graph, inputs, c.runner);
  if (!got.ok()) return {Outcome::wrong, got.status().str()};
  for (std::size_t i = 0; i < want->size(); ++i) {
    std::string d = difference((*got)[i], as_dtype((*want)[i], (*got)[i].dtype()), c.tolerance);
    if (!d.empty()) return {Outcome::wrong, "output " + std::to_string(i) + ": " + d};
  }
  return {};
}

// Integers and bools: what shapes, axes, counts and conditions are made of.
bool is_countable(const proto::ValueInfoProto& input) {
  int type = input.type().tensor_type().elem_type();
  return type == proto::TensorProto::INT64 || type == proto::TensorProto::INT32 || type == proto::TensorProto::BOOL;
}

// Runs with inputs turned into initializers from the case's own data, for ops that must know them at import.
Outcome run_baked(proto::ModelProto model, const Case& c, bool all) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const proto::ValueInfoProto& input = model.graph().input(i);
    fs::path file = c.data / ("input_" + std::to_string(i) + ".pb");
    auto bytes = read_file(file.string(), kAnySize);
    proto::TensorProto tensor;
    bool is_tensor = input.type().has_tensor_type() && bytes.ok() &&
                     tensor.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()));
    if (!is_tensor) return {Outcome::unsupported, "an input that is no dense tensor"};
    tensor.set_name(input.name());
    if (all || is_countable(input)) {
      *model.mutable_graph()->add_initializer() = tensor;
      continue;
    }
    auto value = read_pb(file);
    if (!value.ok()) return {Outcome::unsupported, value.status().str()};
    inputs.push_back(std::move(*value));
  }
  auto graph = import_onnx(model);
  if (graph.ok()) return compare_outputs(*graph, std::move(inputs), c);
  return {graph.status().code() == StatusCode::unsupported ? Outcome::unsupported : Outcome::wrong,
          graph.status().str()};
}

}  // namespace

Outcome run_case(const fs::path& folder, const Runner& runner) {
  auto bytes = read_file((folder / "model.onnx").string(), kAnySize);
  if (!bytes.ok()) return {Outcome::wrong, bytes.status().str()};
  proto::ModelProto model;
  if (!model.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) return {Outcome::wrong, "unreadable"};
  const Case c{folder / "test_data_set_0", has_coarse_pi(folder.filename().string()) ? 1e-4 : 1e-5, runner};
  auto graph = import_onnx(*bytes);
  if (graph.ok()) {
    auto inputs = read_all(c.data, "input", graph->inputs.size());
    if (!inputs.ok()) return {Outcome::unsupported, inputs.status().str()};
    return compare_outputs(*graph, std::move(*inputs), c);
  }
  if (graph.status().code() != StatusCode::unsupported) return {Outcome::wrong, graph.status().str()};
  Outcome baked = run_baked(model, c, false);
  if (baked.kind == Outcome::unsupported) baked = run_baked(model, c, true);
  baked.given_constants = true;
  return baked.kind == Outcome::unsupported ? Outcome{Outcome::unsupported, graph.status().str()} : baked;
}

std::vector<fs::path> node_cases(const std::string& group) {
  std::vector<fs::path> folders;
  fs::path root = fs::path(kSuite) / group;
  if (!fs::exists(root)) return folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string lacking(const std::string& why) {
  static const std::regex kOp("no rule for it \\(op '([^']*)'");
  static const std::regex kFeature("lacks: (.*) \\(op '([^']*)'.*");
  std::set<std::string> ops;
  for (std::sregex_iterator it(why.begin(), why.end(), kOp), end; it != end; ++it) ops.insert((*it)[1]);
  std::string text;
  for (const std::string& op : ops) text += (text.empty() ? "" : ", ") + op;
  if (!text.empty()) return text;
  std::smatch feature;
  if (std::regex_search(why, feature, kFeature)) return feature[2].str() + ": " + feature[1].str();
  const std::size_t start = why.starts_with("unsupported: ") ? std::strlen("unsupported: ") : 0;
  return why.substr(start, why.find("; in input") - start);
}

}  // namespace fusec::importer
